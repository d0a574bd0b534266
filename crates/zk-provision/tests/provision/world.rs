//! A simulated machine: directories, variables, a release archive.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};
use tar::{EntryType, Header};
use tempfile::TempDir;
use zk_provision::{FindError, NotFound, Progress, Search, Source};

use crate::http::{Reply, Server};

/// A machine with nothing installed, an empty `PATH` and its own home.
pub(crate) struct World {
    dir: TempDir,
    vars: BTreeMap<OsString, OsString>,
}

impl World {
    pub(crate) fn empty() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let mut world = Self {
            dir,
            vars: BTreeMap::new(),
        };
        fs::create_dir_all(world.root()).unwrap();
        let home = world.path("home");
        fs::create_dir_all(&home).unwrap();
        world.set("HOME", &home);
        world
    }

    pub(crate) fn with_java() -> Self {
        let mut world = Self::empty();
        let home = world.path("jre");
        java(&home, "17.0.1");
        world.set("JAVA_HOME", &home);
        world
    }

    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<Path>) {
        self.vars
            .insert(name.into(), value.as_ref().as_os_str().to_owned());
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// The default cache directory.
    pub(crate) fn cache(&self) -> PathBuf {
        self.path("home/.cache/zk-harness")
    }

    pub(crate) fn search(&self) -> Search {
        Search::from_vars(self.vars.clone())
            .expect("the variables are good")
            .root(self.root())
    }

    /// Names in the cache, sorted; none if there is no cache.
    pub(crate) fn cached(&self) -> Vec<String> {
        names(&self.cache())
    }

    /// Replaces the directories of this world by `$W`.
    pub(crate) fn anonymous(&self, text: &dyn ToString) -> String {
        text.to_string()
            .replace(&self.dir.path().display().to_string(), "$W")
    }
}

/// A machine with Java, and a mirror with the archive of release 3.9.6.
pub(crate) struct Mirror {
    pub(crate) world: World,
    pub(crate) server: Server,
    pub(crate) archive: Vec<u8>,
}

impl Mirror {
    pub(crate) fn new() -> Self {
        Self::with(tarball("3.9.6").bytes())
    }

    /// A mirror with other bytes, whatever version is asked for.
    pub(crate) fn with(archive: Vec<u8>) -> Self {
        Self::answering(archive, |_, _, archive| Reply::whole(archive))
    }

    /// A mirror that gives the n-th request (from 0) this answer.
    pub(crate) fn answering(
        archive: Vec<u8>,
        answer: impl Fn(usize, &str, &[u8]) -> Reply + Send + 'static,
    ) -> Self {
        let served = archive.clone();
        let server = Server::start(move |number, path| answer(number, path, &served));
        let mut world = World::with_java();
        world.set("ZK_HARNESS_MIRROR", &server.url);
        Self {
            world,
            server,
            archive,
        }
    }

    pub(crate) fn search(&self) -> Search {
        let search = self.world.search();
        search.pin("3.9.6", &sha512(&self.archive))
    }

    /// Checks that a search provisions the release with this number of requests.
    pub(crate) fn check_provisioned(&self, requests: usize) {
        assert_eq!(self.search().find().unwrap().source, Source::Provisioned);
        assert_eq!(self.server.requests().len(), requests);
    }

    /// What a search says about the archive, after the other attempts.
    pub(crate) fn refusal(&self, search: &Search) -> String {
        let last = not_found(search).tried.pop().expect("something was tried");
        let said = self.world.anonymous(&last);
        said.replace(&self.server.url, "$MIRROR")
    }
}

/// The error of a search that finds nothing.
pub(crate) fn not_found(search: &Search) -> NotFound {
    match search.find().unwrap_err() {
        FindError::NotFound(not_found) => not_found,
        other => panic!("expected NotFound, got {other}"),
    }
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn program(path: &Path, script: &str) {
    write(path, script);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A runtime that says its version in its `release` file and cannot be run.
pub(crate) fn java(home: &Path, version: &str) {
    program(&home.join("bin/java"), "#!/bin/sh\nexit 1\n");
    write(
        &home.join("release"),
        &format!("JAVA_VERSION=\"{version}\"\n"),
    );
}

pub(crate) const RELEASE: [&str; 7] = [
    "zookeeper-3.9.6",
    "zookeeper-jute-3.9.6",
    "slf4j-api-1.7.30",
    "logback-classic-1.2.13",
    "logback-core-1.2.13",
    "metrics-core-4.1.12",
    "snappy-java-1.1.10",
];

/// An unpacked release in a directory.
pub(crate) fn release(home: &Path, version: &str) {
    for jar in RELEASE {
        write(
            &home.join(format!("lib/{}.jar", jar.replace("3.9.6", version))),
            jar,
        );
    }
}

/// Builds a `.tar.gz` by hand, so that it can hold what the tar crate would refuse to write.
pub(crate) struct Tarball(tar::Builder<GzEncoder<Vec<u8>>>);

impl Tarball {
    pub(crate) fn new() -> Self {
        Self(tar::Builder::new(GzEncoder::new(
            Vec::new(),
            Compression::fast(),
        )))
    }

    pub(crate) fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, "", content)
    }

    pub(crate) fn entry(mut self, kind: EntryType, path: &str, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let raw = header.as_old_mut();
        raw.name[..path.len()].copy_from_slice(path.as_bytes());
        raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut encoder = self.0.into_inner().unwrap();
        encoder.flush().unwrap();
        encoder.finish().unwrap()
    }
}

/// A whole release of about 300 kB.
pub(crate) fn tarball(version: &str) -> Tarball {
    let mut noise = 1_u32;
    let padding: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.to_be_bytes()[0]
    })
    .take(300_000)
    .collect();
    let top = format!("apache-zookeeper-{version}-bin");
    RELEASE
        .iter()
        .fold(Tarball::new(), |tarball, jar| {
            let jar = jar.replace("3.9.6", version);
            tarball.file(&format!("{top}/lib/{jar}.jar"), jar.as_bytes())
        })
        .file(&format!("{top}/LICENSE.txt"), &padding)
        .file(&format!("{top}/docs/index.html"), b"documentation")
}

pub(crate) fn sha512(bytes: &[u8]) -> String {
    Sha512::digest(bytes)
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Records the distinct steps of the progress.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Progress>>>);

impl Heard {
    pub(crate) fn listener(&self) -> Arc<dyn Fn(&Progress) + Send + Sync> {
        let heard = self.clone();
        Arc::new(move |progress| heard.0.lock().unwrap().push(progress.clone()))
    }

    pub(crate) fn all(&self) -> Vec<Progress> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn what(&self) -> Vec<String> {
        let mut what: Vec<String> = self
            .all()
            .into_iter()
            .map(|progress| progress.what)
            .collect();
        what.dedup();
        what
    }
}

/// Polls until there is a value; panics at the deadline with the condition and the last state.
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut poll: impl FnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match poll() {
            Ok(seen) => return seen,
            Err(last) => assert!(
                Instant::now() < deadline,
                "waited {limit:?} for {what}; last seen: {last}"
            ),
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the interval of a wait that has a deadline"
        )]
        thread::sleep(Duration::from_millis(20));
    }
}
