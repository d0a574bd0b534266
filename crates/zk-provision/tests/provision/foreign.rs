//! Tests that a provisioned distribution uses no jars of the machine, which Debian's manifests name.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use flate2::Compression;
use flate2::Crc;
use flate2::write::GzEncoder;
use tempfile::TempDir;
use zk_provision::Distribution;
use zk_provision::Search;
use zk_provision::Source;

use crate::http::Reply;
use crate::http::Server;
use crate::servers::start_and_stop;
use crate::world::sha512;
use crate::world::write;

/// A class of `zookeeper-jute.jar`, which the machine has as well.
const SHARED: &str = "org.apache.jute.Record";
/// A class that only the machine has.
const FOREIGN: &str = "foreign.Provider";

/// The same jar with this `Class-Path` in its manifest.
///
/// The last entry of a name counts, so a new manifest is put behind what is there; it is not packed.
fn naming(jar: &[u8], class_path: &Path) -> Vec<u8> {
    const NAME: &[u8] = b"META-INF/MANIFEST.MF";
    let text = format!(
        "Manifest-Version: 1.0\r\nClass-Path: {}/\r\n\r\n",
        class_path.display()
    );
    let end = jar.len() - 22;
    assert_eq!(
        jar[end..end + 4],
        *b"PK\x05\x06",
        "an archive without a comment"
    );
    let number = |at: usize| u32::from_le_bytes(jar[at..at + 4].try_into().unwrap());
    let (length, start) = (number(end + 12), number(end + 16));
    let directory = &jar[start as usize..end];
    let mut crc = Crc::new();
    crc.update(text.as_bytes());
    let size = u32::try_from(text.len()).unwrap().to_le_bytes();
    let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    common.extend(crc.sum().to_le_bytes().iter().chain(&size).chain(&size));
    common.extend([20, 0, 0, 0]);

    let mut made = jar[..start as usize].to_vec();
    made.extend(
        b"PK\x03\x04"
            .iter()
            .chain(&common)
            .chain(NAME)
            .chain(text.as_bytes()),
    );
    let moved = u32::try_from(made.len()).unwrap();
    // The manifest of a provisioned jar is hidden by a name with another last letter.
    made.extend(directory);
    made.extend(b"PK\x01\x02\x14\0".iter().chain(&common).chain(&[0; 10]));
    made.extend(start.to_le_bytes().iter().chain(NAME));
    let count = u16::from_le_bytes(jar[end + 10..end + 12].try_into().unwrap()) + 1;
    let length = length + 46 + u32::try_from(NAME.len()).unwrap();
    made.extend(
        b"PK\x05\x06\0\0\0\0"
            .iter()
            .chain(&count.to_le_bytes())
            .chain(&count.to_le_bytes()),
    );
    made.extend(
        length
            .to_le_bytes()
            .iter()
            .chain(&moved.to_le_bytes())
            .chain(&[0, 0]),
    );
    made
}

/// Copies the jars of a distribution into a directory; ZooKeeper's own names `machine`.
fn copy(distribution: &Distribution, machine: &Path, to: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(to).unwrap();
    let jars = distribution.classpath.iter().map(|jar| {
        let name = jar.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("zookeeper.")
            && !name.starts_with(&format!("zookeeper-{}", distribution.version))
        {
            let copied = to.join(name);
            fs::copy(jar, &copied).unwrap();
            return copied;
        }
        let own = to.join(format!("zookeeper-{}.jar", distribution.version));
        fs::write(&own, naming(&fs::read(jar).unwrap(), machine)).unwrap();
        own
    });
    jars.collect()
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

// covers: H2
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
    let mut jars = copy(&real, &machine, &lib);
    let said = |jars: &[PathBuf], class: &str| loading(&real.java, jars, class);

    // Without the fix, the machine's class is loaded.
    jars.sort_by_key(|jar| !jar.ends_with(format!("zookeeper-{}.jar", real.version)));
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
    let archive = archive(&lib, &real.version);
    let sum = sha512(&archive);
    let server = Server::start(move |_, request| Reply::range(&archive, request.from));
    let provisioned = Search::from_vars([])
        .unwrap()
        .root(dir.path().join("nothing"))
        .cache_dir(dir.path().join("cache"))
        .java(&real.java)
        .version(&real.version)
        .mirror(&server.url)
        .pin(&real.version, &sum)
        .find()
        .unwrap();
    assert_eq!(provisioned.source, Source::Provisioned);
    let said = |class: &str| said(&provisioned.classpath, class);
    assert!(said(SHARED).contains(OWN), "{}", said(SHARED));
    assert!(
        said(FOREIGN).contains("ClassNotFoundException"),
        "{}",
        said(FOREIGN)
    );
    start_and_stop(&provisioned, 1, &dir.path().join("server"));
}
