//! Tests provisioning by the machine's apt from a local test repository.

use std::fs;
use std::path::{Path, PathBuf};

use zk_provision::{FindError, Installed, Logging, Provisioning, Search, Source};

use crate::world::{Heard, World, not_found, program, write};

/// A Debian whose configured mirror is a copy of `repository/`, and whose archive keys are that repository's.
struct Debian {
    world: World,
    repository: PathBuf,
}

impl Debian {
    fn new() -> Self {
        let mut world = World::empty();
        let repository = world.path("repository");
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/provision/repository"),
            &repository,
        );
        write(
            &world.root().join("etc/os-release"),
            "ID=debian\nVERSION_CODENAME=bookworm\n",
        );
        let path = std::env::join_paths(
            std::iter::once(world.path("bin"))
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        world.set("PATH", path.unwrap());
        // No archive can be reached.
        world.set("ZK_HARNESS_MIRROR", "http://127.0.0.1:1");
        let debian = Self { world, repository };
        debian.use_apt("");
        fs::create_dir_all(debian.keyring().parent().unwrap()).unwrap();
        fs::copy(debian.repository.join("keyring.gpg"), debian.keyring()).unwrap();
        debian
    }

    /// Uses the machine's apt, after these commands of the shell.
    fn use_apt(&self, first: &str) {
        let target = format!("file:{}|bookworm|main", self.repository.display());
        let program_text = format!(
            "#!/bin/sh\nreadlink /proc/self/fd/0 >> {}\n{first}\ncase $1 in indextargets) echo '{target}';; *) exec {} \"$@\";; esac\n",
            self.world.path("inputs").display(),
            real("apt-get")
        );
        program(&self.world.path("bin/apt-get"), &program_text);
    }

    fn search(&self) -> Search {
        self.world
            .search()
            .version("3.8")
            .provisioning(Provisioning::Always)
    }

    fn refusal(&self) -> String {
        let error = not_found(&self.search());
        let cached = self.world.cached();
        let unfinished = |name: &String| name.starts_with("zookeeper-") || name.starts_with("tmp-");
        assert!(!cached.iter().any(unfinished), "{cached:?}");
        let apt = error
            .tried
            .iter()
            .find(|tried| tried.what == "apt, suite bookworm")
            .expect("apt was tried");
        self.world.anonymous(&apt.outcome)
    }

    fn keyring(&self) -> PathBuf {
        let keyrings = self.world.root().join("usr/share/keyrings");
        keyrings.join("debian-archive-keyring.gpg")
    }
}

fn real(name: &str) -> String {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file());
    found
        .unwrap_or_else(|| panic!("these tests need {name} on PATH"))
        .display()
        .to_string()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn packages_are_unpacked_without_installing_them() {
    let debian = Debian::new();
    let heard = Heard::default();
    let search = debian.search().use_installed(Installed::Ignore);
    let found = search.clone().progress(heard.listener()).find().unwrap();
    assert_eq!(
        (found.version.as_str(), found.source, found.logging),
        ("3.8.0", Source::Provisioned, Logging::SlfSimple)
    );
    assert_eq!(found.home, debian.world.cache().join("zookeeper-3.8.0"));
    assert!(found.classpath.iter().all(|jar| jar.is_file()));
    assert!(
        !found.home.join("usr/share/maven-repo").exists(),
        "what no server needs is not kept"
    );
    assert!(
        !found.home.join("usr/share/java/tools.jar").exists(),
        "packages off the class path are not fetched"
    );
    assert_eq!(
        heard.what(),
        [
            "fetching the package lists of bookworm",
            "downloading ZooKeeper from bookworm",
            "downloading Java 17 from bookworm"
        ],
        "one update serves both"
    );

    let runtime = format!("java-17-bookworm-{}", std::env::consts::ARCH);
    assert_eq!(
        debian.world.cached(),
        [runtime.as_str(), "lock", "zookeeper-3.8.0"]
    );
    let home = found.java.parent().and_then(Path::parent).unwrap();
    assert!(home.starts_with(debian.world.cache()));
    let inside = home.join("conf/net.properties");
    assert!(
        fs::read_link(&inside).unwrap().is_relative(),
        "links into the tree are made relative"
    );
    assert_eq!(fs::read_to_string(inside).unwrap(), "a=b\n");
    let outside = fs::read_link(home.join("lib/cacerts")).unwrap();
    assert_eq!(
        outside,
        Path::new("/etc/ssl/certs/java/cacerts"),
        "links out of the tree stay"
    );

    let inputs = fs::read_to_string(debian.world.path("inputs")).unwrap();
    let lock = debian.world.cache().join("lock").display().to_string();
    assert!(
        inputs.lines().all(|input| input == lock),
        "apt holds the lock should this process die: {inputs}"
    );

    let again = search.find().unwrap();
    assert_eq!((again.source, again.java), (Source::Cached, found.java));
}

#[test]
fn unsigned_repository_is_refused() {
    let debian = Debian::new();
    fs::remove_file(debian.repository.join("dists/bookworm/InRelease")).unwrap();
    let refusal = debian.refusal();
    insta::assert_snapshot!(refusal, @"apt-get failed (exit status: 100): The repository 'file:$W/repository bookworm Release' is not signed.");
}

#[test]
fn repository_signed_by_a_stranger_is_refused() {
    let debian = Debian::new();
    fs::write(debian.keyring(), "").unwrap();
    let refusal = debian.refusal();
    assert!(refusal.contains("is not signed"), "{refusal}");
}

#[test]
fn altered_package_list_is_refused() {
    let debian = Debian::new();
    for architecture in ["amd64", "arm64"] {
        let list = debian.repository.join(format!(
            "dists/bookworm/main/binary-{architecture}/Packages"
        ));
        let text = fs::read_to_string(&list)
            .unwrap()
            .replace("3.8.0-1+test", "3.8.0-2+test");
        fs::write(list, text).unwrap();
    }
    let refusal = debian.refusal();
    assert!(
        refusal.contains("Hash Sum mismatch") || refusal.contains("unexpected size"),
        "{refusal}"
    );
}

#[test]
fn altered_package_is_refused() {
    let debian = Debian::new();
    let package = debian.repository.join("pool/libzookeeper-java.deb");
    let mut bytes = fs::read(&package).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(package, bytes).unwrap();
    let refusal = debian.refusal();
    assert!(refusal.contains("Hash Sum mismatch"), "{refusal}");
}

#[test]
fn suite_with_another_version_is_passed_over() {
    let debian = Debian::new();
    let error = not_found(&debian.search().version("3.8.9")).to_string();
    assert!(
        error.contains("apt, suite bookworm: it has ZooKeeper 3.8.0, but 3.8.9 is wanted"),
        "{error}"
    );
    assert!(
        error.contains("no SHA-512 is pinned for 3.8.9; pinned are 3.8.4, 3.9.3"),
        "{error}"
    );
}

#[test]
fn apt_without_a_source_for_the_release_is_reported() {
    let debian = Debian::new();
    program(&debian.world.path("bin/apt-get"), "#!/bin/sh\n");
    let error = not_found(&debian.search()).to_string();
    assert!(
        error.contains("apt: apt has no source configured for bookworm, so no mirror is known"),
        "{error}"
    );
}

#[test]
fn wanted_packages_are_unpacked_each_for_itself() {
    let debian = Debian::new();
    let names = ["libnone-java | libtools-java", "libslf4j-java"];
    let heard = Heard::default();
    let search = debian.search().progress(heard.listener());
    let roots = search.packages(names).unwrap();
    let tag = format!("bookworm-{}", std::env::consts::ARCH);
    let expected = ["libtools-java", "libslf4j-java"]
        .map(|name| debian.world.cache().join(format!("package-{tag}-{name}")));
    assert_eq!(roots, expected);
    assert!(roots[0].join("usr/share/java/tools.jar").is_file());
    assert!(roots[1].join("usr/share/java/slf4j-api.jar").is_file());
    assert_eq!(
        heard.what(),
        [
            "fetching the package lists of bookworm",
            "downloading libtools-java from bookworm",
            "downloading libslf4j-java from bookworm"
        ]
    );

    program(&debian.world.path("bin/apt-get"), "#!/bin/sh\nexit 1\n");
    assert_eq!(debian.search().packages(names).unwrap(), expected);
    fs::remove_file(roots[1].join("usr/share/java/slf4j-api.jar")).unwrap();
    let error = debian.search().packages(names).unwrap_err().to_string();
    assert!(
        error.contains("damaged: usr/share/java/slf4j-api"),
        "{error}"
    );
}

#[test]
fn damaged_package_is_provisioned_again() {
    let debian = Debian::new();
    let roots = debian.search().packages(["libtools-java"]).unwrap();
    let jar = roots[0].join("usr/share/java/tools.jar");
    let content = fs::read(&jar).unwrap();
    fs::write(&jar, "").unwrap();
    assert_eq!(debian.search().packages(["libtools-java"]).unwrap(), roots);
    assert_eq!(fs::read(&jar).unwrap(), content);
}

#[test]
fn missing_packages_are_reported_with_all_attempts() {
    let debian = Debian::new();
    let refusal = |search: Search| {
        let error = search.packages(["libnone-java | libno-java"]).unwrap_err();
        debian.world.anonymous(&error)
    };
    let search = debian.search().provisioning(Provisioning::WhenMissing);
    insta::assert_snapshot!(refusal(search.clone()), @r"
    cannot find the package libnone-java | libno-java; tried:
      - cache $W/home/.cache/zk-harness: nothing for libnone-java | libno-java
      - apt, suite bookworm: it has no libnone-java | libno-java
    no command is known that would change this on this system
    ");
    insta::assert_snapshot!(refusal(search.provisioning(Provisioning::Never)), @r"
    cannot find the package libnone-java | libno-java; tried:
      - cache $W/home/.cache/zk-harness: nothing for libnone-java | libno-java
      - provisioning: switched off
    to fix it, run: export ZK_HARNESS_PROVISION=when-missing
    ");

    write(
        &debian.world.root().join("etc/os-release"),
        "ID=fedora\nVERSION_CODENAME=x\n",
    );
    insta::assert_snapshot!(refusal(debian.search()), @r"
    cannot find the package libnone-java | libno-java; tried:
      - cache $W/home/.cache/zk-harness: nothing for libnone-java | libno-java
      - apt: this system is neither Debian nor Ubuntu nor like them
    no command is known that would change this on this system
    ");

    let error = debian.search().packages(["--simulate"]).unwrap_err();
    assert!(matches!(error, FindError::Setting(_)), "{error}");
}

#[test]
fn package_lists_that_cannot_be_fetched_are_asked_for_once() {
    let debian = Debian::new();
    let asked = debian.world.path("asked");
    debian.use_apt(&format!(
        "case \"$*\" in *update*) echo once >> {}; echo 'E: no network' >&2; exit 100;; esac",
        asked.display()
    ));
    let FindError::NotFound(error) = debian.search().packages(["first", "second"]).unwrap_err()
    else {
        panic!("the packages were searched for");
    };
    assert!(error.to_string().contains("no network"), "{error}");
    assert_eq!(fs::read_to_string(asked).unwrap(), "once\n");
}
