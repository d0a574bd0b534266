//! Removes the `Class-Path` from the manifests of provisioned jars.
//!
//! The manifests of Debian's jars name other jars by absolute path: that of `zookeeper.jar` names
//! `/usr/share/java/zookeeper-jute.jar`. Java searches those right after the jar that names them, before the rest of the
//! class path, so on a machine that has another ZooKeeper installed a provisioned server would mix two versions. An order
//! of the class path cannot exclude that: classes that the distribution lacks, and service providers, would still come
//! from the machine. A jar without a manifest names no other jar, so the manifest is given a name that Java does not look
//! for. The new name is as long as the old one, so that nothing in the file moves.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::DeflateDecoder;

const MANIFEST: &str = "META-INF/MANIFEST.MF";
/// Replaces the last byte of [`MANIFEST`].
const OTHER: u8 = b'_';

/// Hides the manifest of a jar if it has a `Class-Path`.
pub(super) fn hide_class_path(path: &Path) -> io::Result<()> {
    let mut jar = fs::read(path)?;
    if hide(&mut jar) {
        fs::write(path, jar)?;
    }
    Ok(())
}

/// Renames the manifest of a jar if it has a `Class-Path`; returns whether it did.
///
/// A file that is not a zip archive has no manifest, and stays as it is.
fn hide(jar: &mut [u8]) -> bool {
    let Some(manifest) = manifest(jar) else {
        return false;
    };
    if !has_class_path(&manifest.text) {
        return false;
    }
    for name in manifest.names {
        jar[name + MANIFEST.len() - 1] = OTHER;
    }
    true
}

/// The manifest of a jar: its text, and the two places in the file where its name is.
struct Manifest {
    text: String,
    names: [usize; 2],
}

/// Finds the manifest by the archive's central directory, as Java does.
fn manifest(jar: &[u8]) -> Option<Manifest> {
    const END: [u8; 4] = *b"PK\x05\x06";
    let end = jar.windows(END.len()).rposition(|bytes| bytes == END)?;
    let mut at = long(jar, end + 16)?;
    for _ in 0..short(jar, end + 10)? {
        let (name, length) = (at + 46, short(jar, at + 28)?);
        if jar
            .get(name..name + length)?
            .eq_ignore_ascii_case(MANIFEST.as_bytes())
        {
            let local = long(jar, at + 42)?;
            let data = local + 30 + short(jar, local + 26)? + short(jar, local + 28)?;
            let packed = jar.get(data..data + long(jar, at + 20)?)?;
            let mut text = Vec::new();
            match short(jar, at + 10)? {
                0 => text.extend_from_slice(packed),
                _ => drop(DeflateDecoder::new(packed).read_to_end(&mut text).ok()?),
            }
            return Some(Manifest {
                text: String::from_utf8_lossy(&text).into_owned(),
                names: [name, local + 30],
            });
        }
        at = name + length + short(jar, at + 30)? + short(jar, at + 32)?;
    }
    None
}

/// A line that begins with a space continues the one before, so no continuation is taken for an attribute.
fn has_class_path(manifest: &str) -> bool {
    const NAME: &str = "Class-Path:";
    manifest.lines().any(|line| {
        line.get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    })
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_le_bytes(bytes).into())
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

#[cfg(test)]
mod tests;
