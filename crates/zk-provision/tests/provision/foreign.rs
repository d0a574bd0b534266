//! Tests that a provisioned distribution uses no jars of the machine, which Debian's manifests name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use tempfile::TempDir;
use zk_provision::{Distribution, Search, Source};

use crate::servers::start_and_stop;
use crate::world::{Mirror, sha512, write};

/// A class of `zookeeper-jute.jar`, which the machine has as well.
const SHARED: &str = "org.apache.jute.Record";
/// A class that only the machine has.
const FOREIGN: &str = "foreign.Provider";

/// A jar that has only a manifest with this `Class-Path`.
fn naming(class_path: &Path) -> Vec<u8> {
    const NAME: &[u8] = b"META-INF/MANIFEST.MF";
    let text = format!(
        "Manifest-Version: 1.0\r\nClass-Path: {}/\r\n\r\n",
        class_path.display()
    );
    let mut crc = Crc::new();
    crc.update(text.as_bytes());
    let size = u32::try_from(text.len()).unwrap().to_le_bytes();
    let sum = crc.sum().to_le_bytes();
    let mut entry = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    entry.extend(sum.iter().chain(&size).chain(&size));
    entry.extend([20, 0, 0, 0]);

    let local = [b"PK\x03\x04", &entry[..], NAME, text.as_bytes()].concat();
    let directory = [b"PK\x01\x02\x14\0", &entry[..], &[0; 14], NAME].concat();
    let mut end = b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec();
    for length in [directory.len(), local.len()] {
        end.extend(u32::try_from(length).unwrap().to_le_bytes());
    }
    [local, directory, end, vec![0, 0]].concat()
}

/// Copies the jars of a distribution into a directory, with another `zookeeper` jar that names `machine`.
fn copy(distribution: &Distribution, machine: &Path, to: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(to).unwrap();
    let version = &distribution.version;
    let own = to.join(format!("zookeeper-{version}.jar"));
    fs::write(&own, naming(machine)).unwrap();
    let mut jars = vec![own];
    for jar in &distribution.classpath {
        let name = jar.file_name().unwrap().to_str().unwrap();
        let is_own = name == "zookeeper.jar" || name == format!("zookeeper-{version}.jar");
        let copied = to.join(if is_own { "classes.jar" } else { name });
        fs::copy(jar, &copied).unwrap();
        jars.push(copied);
    }
    jars
}

/// What Java says to a main class: it loads the class, and finds no `main` in it.
fn loading(java: &Path, classpath: &[PathBuf], class: &str) -> String {
    let output = Command::new(java)
        .arg("-cp")
        .arg(std::env::join_paths(classpath).unwrap())
        .arg(class)
        .output()
        .expect("java runs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The jars of a directory as a release's archive.
fn archive(lib: &Path, version: &str) -> Vec<u8> {
    let mut tarball = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let top = format!("apache-zookeeper-{version}-bin/lib");
    tarball.append_dir_all(top, lib).unwrap();
    tarball.into_inner().unwrap().finish().unwrap()
}

#[test]
fn jars_of_the_machine_are_never_mixed_in() {
    const NOT_A_CLASS: &str = "ClassFormatError";
    const OWN: &str = "Main method not found";
    let dir = TempDir::new().unwrap();
    let machine = dir.path().join("machine");
    for class in [SHARED, FOREIGN] {
        write(
            &machine.join(format!("{}.class", class.replace('.', "/"))),
            "other",
        );
    }
    let real = Search::from_env().unwrap().find().unwrap();
    let lib = dir.path().join("home/lib");
    let jars = copy(&real, &machine, &lib);
    let said = |jars: &[PathBuf], class: &str| loading(&real.java, jars, class);

    // Without the fix, the machine's class is loaded.
    for class in [SHARED, FOREIGN] {
        assert!(
            said(&jars, class).contains(NOT_A_CLASS),
            "{}",
            said(&jars, class)
        );
    }

    // An explicit home is not modified: its own classes come first.
    let debian = dir.path().join("debian/usr/share/java");
    copy(&real, &machine, &debian);
    let home = Search::from_env().unwrap().home(dir.path().join("debian"));
    let home = home.find().unwrap().classpath;
    assert!(said(&home, SHARED).contains(OWN), "{}", said(&home, SHARED));

    // What was provisioned has nothing of the machine.
    let mirror = Mirror::with(archive(&lib, &real.version));
    let search = mirror.search().version(&real.version);
    let search = search.pin(&real.version, &sha512(&mirror.archive));
    let provisioned = search.java(&real.java).find().unwrap();
    assert_eq!(provisioned.source, Source::Provisioned);
    let said = |class: &str| said(&provisioned.classpath, class);
    assert!(said(SHARED).contains(OWN), "{}", said(SHARED));
    assert!(
        said(FOREIGN).contains("ClassNotFoundException"),
        "{}",
        said(FOREIGN)
    );
    start_and_stop(&provisioned, &dir.path().join("server"));
}
