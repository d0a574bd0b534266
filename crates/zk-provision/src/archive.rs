//! Selects, downloads, verifies and unpacks an official release archive.

mod fetch;
mod unpack;

use std::fs;
use std::io;
use std::path::Path;

use sha2::Digest;
use sha2::Sha512;

use super::Progress;
use super::home;
use super::home::Found;
use super::version::Request;
use super::version::Version;

/// SHA-512 of releases that can be provisioned, as published beside them; that of 3.9.5 is the one that nixpkgs records.
pub(super) const PINNED: [(&str, &str); 3] = [
    (
        "3.8.4",
        "4d85d6f7644d5f36d9c4d65e78bd662ab35ebe1380d762c24c12b98af029027e\
         ee453437c9245dbdf2b9beb77cd6b690b69e26f91cf9d11b0a183a979c73fa43",
    ),
    (
        "3.9.3",
        "d44d870c1691662efbf1a8baf1859c901b820dc5ff163b36e81beb27b6fbf3cd\
         31b5f1f075697edaaf6d3e7a4cb0cc92f924dcff64b294ef13d535589bdaf143",
    ),
    (
        "3.9.5",
        "baa1c21dda4d57238fca751e4fa2bbf1daff9a28612b125e497dccd5c188ee64\
         49e2f79947e474c2dd4d19992789d4d36b27b1ba2feb80c2b0c45e7df0e22aa8",
    ),
];

/// A release with the checksum its archive must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) version: Version,
    pub(super) sha512: String,
}

/// Selects the newest pinned release that matches.
pub(super) fn choose(request: Request, pins: &[Pin]) -> Result<&Pin, String> {
    pins.iter()
        .filter(|pin| request.accepts(pin.version))
        .max_by_key(|pin| pin.version)
        .ok_or_else(|| {
            let mut versions: Vec<Version> = pins.iter().map(|pin| pin.version).collect();
            versions.sort_unstable();
            let pinned: Vec<String> = versions.iter().map(ToString::to_string).collect();
            format!(
                "no SHA-512 is pinned for {request}; pinned are {}",
                pinned.join(", ")
            )
        })
}

/// `apache-zookeeper-3.9.6-bin`, the archive's name and that of the directory in it.
pub(super) fn stem(version: Version) -> String {
    format!("apache-zookeeper-{version}-bin")
}

pub(super) fn url(mirror: &str, version: Version) -> String {
    format!("{mirror}/zookeeper-{version}/{}.tar.gz", stem(version))
}

/// Fetches a release into `downloads` and unpacks it into `tree`.
pub(super) fn provision(
    pin: &Pin,
    url: &str,
    downloads: &Path,
    tree: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Found, String> {
    let io = |error: io::Error| format!("cannot write below {}: {error}", downloads.display());
    fs::create_dir_all(downloads).map_err(io)?;
    let name = format!("{}.tar.gz", stem(pin.version));
    let part = downloads.join(format!("{name}.part"));
    let report = |what: String, done, total| progress(Progress { what, done, total });
    let fetching = format!("downloading {name}");
    let mut fresh = !part.exists();
    loop {
        fetch::fetch(url, &part, &|done, total| {
            report(fetching.clone(), done, total);
        })?;
        let actual =
            sha512(&part).map_err(|error| format!("cannot read {}: {error}", part.display()))?;
        if actual == pin.sha512 {
            break;
        }
        fs::remove_file(&part).map_err(io)?;
        if fresh {
            return Err(format!(
                "its SHA-512 is {actual}, expected {}; it was deleted",
                pin.sha512
            ));
        }
        // The first part may belong to another file: start over.
        tracing::info!(
            actual,
            "a resumed download has the wrong checksum, starting over"
        );
        fresh = true;
    }
    report(format!("unpacking {name}"), 0, None);
    unpack::unpack(&part, tree)?;
    let found =
        home::inspect(tree).map_err(|reason| format!("its content is not a release: {reason}"))?;
    if found.version != pin.version {
        return Err(format!(
            "it contains ZooKeeper {}, expected {}",
            found.version, pin.version
        ));
    }
    fs::remove_file(&part).map_err(io)?;
    Ok(found)
}

fn sha512(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha512::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = io::Read::read(&mut file, &mut buffer)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
    }
    Ok(hex(&digest.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| DIGITS[usize::from(digit)])
        .collect()
}

#[cfg(test)]
mod tests;
