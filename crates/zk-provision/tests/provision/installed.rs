//! Tests the search in explicit homes and among installed packages.

use std::fs;
use std::os::unix::fs::symlink;

use zk_provision::{FindError, Installed, Logging, Provisioning, Source};

use crate::world::{World, java, not_found, program, release, write};

const DEBIAN: [&str; 8] = [
    "zookeeper-3.8.0",
    "zookeeper-jute",
    "slf4j-api",
    "metrics-core",
    "snappy-java",
    "tomcat",
    "netty-all",
    "ant",
];

fn debian(world: &World, binding: &[&str]) {
    let dir = world.root().join("usr/share/java");
    for jar in DEBIAN.iter().chain(binding) {
        write(&dir.join(format!("{jar}.jar")), jar);
    }
    symlink("zookeeper-3.8.0.jar", dir.join("zookeeper.jar")).unwrap();
}

#[test]
fn debian_package_gets_a_short_class_path() {
    let world = World::with_java();
    debian(&world, &["slf4j-simple"]);
    let found = world.search().find().unwrap();
    assert_eq!(
        (found.version.as_str(), found.source, found.logging),
        ("3.8.0", Source::Installed, Logging::SlfSimple)
    );
    let names: Vec<_> = found
        .classpath
        .iter()
        .map(|jar| jar.file_name().unwrap().to_string_lossy())
        .collect();
    assert_eq!(
        names,
        [
            "zookeeper-jute.jar",
            "slf4j-api.jar",
            "metrics-core.jar",
            "snappy-java.jar",
            "slf4j-simple.jar",
            "zookeeper.jar"
        ]
    );
}

#[test]
fn debian_package_without_slf4j_simple_logs_through_log4j() {
    let world = World::with_java();
    debian(&world, &["slf4j-log4j12", "log4j-1.2"]);
    assert_eq!(world.search().find().unwrap().logging, Logging::Log4j1);
}

#[test]
fn incomplete_package_is_listed_and_the_search_goes_on() {
    let world = World::with_java();
    debian(&world, &["slf4j-log4j12"]);
    let never = world.search().provisioning(Provisioning::Never);
    let error = not_found(&never).to_string();
    assert!(
        error.contains("/usr/share/java: incomplete: no logging binding (slf4j-simple.jar,"),
        "{error}"
    );

    release(
        &world.root().join("opt/apache-zookeeper-3.9.6-bin"),
        "3.9.6",
    );
    let found = never.find().unwrap();
    assert_eq!(
        found.home,
        world.root().join("opt/apache-zookeeper-3.9.6-bin")
    );
}

#[test]
fn places_of_releases_and_homebrew_are_known() {
    for place in [
        "opt/zookeeper",
        "opt/apache-zookeeper-3.9.6-bin",
        "usr/local/zookeeper-3.9.6",
        "opt/homebrew/opt/zookeeper/libexec",
        "opt/homebrew/Cellar/zookeeper/3.9.6/libexec",
        "usr/local/Cellar/zookeeper/3.9.6/libexec",
        "home/linuxbrew/.linuxbrew/opt/zookeeper/libexec",
    ] {
        let world = World::with_java();
        release(&world.root().join(place), "3.9.6");
        let found = world.search().provisioning(Provisioning::Never).find();
        assert_eq!(found.unwrap().source, Source::Installed, "{place}");
    }
    let mut world = World::with_java();
    world.set("ZOOKEEPER_HOME", world.path("mine"));
    release(&world.path("mine"), "3.9.6");
    assert_eq!(world.search().find().unwrap().home, world.path("mine"));
    release(&world.path("home/apache-zookeeper-3.8.4-bin"), "3.8.4");
    assert_eq!(
        world.search().version("3.8").find().unwrap().version,
        "3.8.4"
    );
}

#[test]
fn home_that_is_named_may_be_a_release_with_a_known_loss() {
    let world = World::with_java();
    release(&world.path("mine"), "3.9.3");
    let search = world.search().home(world.path("mine"));
    let found = search.find().unwrap();
    assert_eq!(
        (found.version.as_str(), found.source),
        ("3.9.3", Source::Explicit)
    );
    assert!(found.warning().is_some());
    let error = search.version("3.9").find().unwrap_err();
    insta::assert_snapshot!(world.anonymous(&error), @"$W/mine is not a usable ZooKeeper home: it is ZooKeeper 3.9.3, which can lose acknowledged writes; 3.9.4 or later is wanted (3.9.3 is taken only if it is asked for by its exact version)");
}

#[test]
fn newest_release_of_a_directory_is_taken() {
    let world = World::with_java();
    for version in ["3.9.6", "3.9.10", "3.8.4"] {
        release(
            &world
                .root()
                .join(format!("opt/apache-zookeeper-{version}-bin")),
            version,
        );
    }
    assert_eq!(world.search().find().unwrap().version, "3.9.10");
    assert_eq!(
        world.search().version("3.8").find().unwrap().version,
        "3.8.4"
    );
}

#[test]
fn explicit_home_wins_and_is_never_passed_over() {
    let world = World::with_java();
    debian(&world, &["slf4j-simple"]);
    release(&world.path("mine"), "3.9.6");
    let found = world.search().home(world.path("mine")).find().unwrap();
    assert_eq!(
        (found.version.as_str(), found.source),
        ("3.9.6", Source::Explicit)
    );

    write(&world.path("jarless/lib/readme"), "");
    write(&world.path("two/zookeeper-3.8.0.jar"), "");
    write(&world.path("two/zookeeper-3.9.6.jar"), "");
    let said = |home: &str, version: Option<&str>| {
        let search = world.search().home(world.path(home));
        let error = version
            .map_or_else(|| search.clone(), |version| search.clone().version(version))
            .find()
            .unwrap_err();
        assert!(matches!(error, FindError::Home { .. }), "{error}");
        world.anonymous(&error)
    };
    insta::assert_snapshot!(said("absent", None), @"$W/absent is not a usable ZooKeeper home: no such directory");
    insta::assert_snapshot!(said("jarless", None), @"$W/jarless is not a usable ZooKeeper home: no zookeeper jar there, nor in its lib, libexec/lib or usr/share/java");
    insta::assert_snapshot!(said("two", None), @"$W/two is not a usable ZooKeeper home: it has jars of several versions (3.8.0, 3.9.6); keep those of one");
    insta::assert_snapshot!(said("mine", Some("3.8")), @"$W/mine is not a usable ZooKeeper home: it is ZooKeeper 3.9.6, but 3.8 is wanted");
    fs::remove_file(world.path("mine/lib/zookeeper-jute-3.9.6.jar")).unwrap();
    insta::assert_snapshot!(said("mine", None), @"$W/mine is not a usable ZooKeeper home: incomplete: zookeeper-jute.jar is missing");
}

#[test]
fn explicit_java_is_checked() {
    let world = World::with_java();
    release(&world.path("mine"), "3.9.6");
    java(&world.path("old"), "1.7.0_80");
    java(&world.path("eight"), "1.8.0_392");
    write(&world.path("text"), "no program");
    program(&world.path("silent"), "#!/bin/sh\n");
    program(
        &world.path("failing"),
        "#!/bin/sh\necho cannot find the virtual machine >&2\nexit 3\n",
    );
    program(
        &world.path("speaking"),
        "#!/bin/sh\necho 'openjdk version \"21-ea\" 2023' >&2\n",
    );
    let find = |java: &str| {
        world
            .search()
            .home(world.path("mine"))
            .java(world.path(java))
            .find()
    };
    for good in ["eight/bin/java", "speaking"] {
        assert_eq!(find(good).unwrap().java, world.path(good));
    }
    let said = |java: &str| world.anonymous(&find(java).unwrap_err());
    insta::assert_snapshot!(said("old/bin/java"), @"$W/old/bin/java is not a usable Java: Java 7, but Java 8 or newer is needed");
    insta::assert_snapshot!(said("absent"), @"$W/absent is not a usable Java: no such file");
    insta::assert_snapshot!(said("text"), @"$W/text is not a usable Java: not a program");
    insta::assert_snapshot!(said("silent"), @"$W/silent is not a usable Java: `java -version` said nothing");
    insta::assert_snapshot!(said("failing"), @"$W/failing is not a usable Java: `java -version`: failing failed (exit status: 3): cannot find the virtual machine");
}

#[test]
fn java_is_found_in_the_usual_places() {
    for place in [
        "usr/lib/jvm/java-17-openjdk-amd64",
        "opt/homebrew/opt/openjdk@17",
        "usr/local/opt/openjdk",
    ] {
        let world = World::empty();
        release(&world.root().join("opt/zookeeper"), "3.9.6");
        java(&world.root().join(place), "17.0.1");
        let found = world
            .search()
            .provisioning(Provisioning::Never)
            .find()
            .unwrap();
        assert_eq!(found.java, world.root().join(place).join("bin/java"));
    }
    let mut world = World::empty();
    release(&world.root().join("opt/zookeeper"), "3.9.6");
    java(&world.path("jre"), "11.0.2");
    world.set("PATH", world.path("jre/bin"));
    assert_eq!(
        world.search().find().unwrap().java,
        world.path("jre/bin/java")
    );
    assert!(
        world
            .search()
            .use_installed(Installed::Ignore)
            .provisioning(Provisioning::Never)
            .find()
            .is_err()
    );
}

#[test]
fn all_attempts_are_listed_with_the_command_that_helps() {
    let world = World::with_java();
    debian(&world, &[]);
    release(
        &world.root().join("opt/apache-zookeeper-3.8.4-bin"),
        "3.8.4",
    );
    let error = world
        .search()
        .version("3.9")
        .provisioning(Provisioning::Never)
        .find()
        .unwrap_err();
    insta::assert_snapshot!(world.anonymous(&error), @r"
    cannot find ZooKeeper 3.9; tried:
      - $ZOOKEEPER_HOME: not set
      - $W/root/usr/share/java: incomplete: no logging binding (slf4j-simple.jar, logback-classic.jar or slf4j-log4j12.jar), so a server would say nothing
      - $W/root/opt/apache-zookeeper-3.8.4-bin: it is ZooKeeper 3.8.4, but 3.9 is wanted
      - $W/root/opt/homebrew/opt/zookeeper, $W/root/usr/local/opt/zookeeper, $W/root/home/linuxbrew/.linuxbrew/opt/zookeeper, $W/root/opt/zookeeper, $W/root/usr/local/zookeeper, $W/root/usr/share/zookeeper, $W/root/usr/lib/zookeeper, $W/root/srv/zookeeper, $W/home/zookeeper: no such directory
      - cache $W/home/.cache/zk-harness: nothing for 3.9
      - provisioning: switched off
    to fix it, run: export ZK_HARNESS_PROVISION=when-missing
    ");
}

#[test]
fn missing_java_and_missing_zookeeper_differ() {
    let mut world = World::empty();
    release(&world.path("mine"), "3.9.6");
    world.set("JAVA_HOME", world.path("nojava"));
    write(&world.root().join("etc/os-release"), "ID=fedora\n");
    let error = world.search().home(world.path("mine")).find().unwrap_err();
    insta::assert_snapshot!(world.anonymous(&error), @r"
    cannot find Java 8 or newer; tried:
      - $JAVA_HOME ($W/nojava): no such file
      - java on PATH: none there
      - cache $W/home/.cache/zk-harness: nothing for Java
      - apt: this system is neither Debian nor Ubuntu nor like them
    to fix it, run: sudo dnf install java-latest-openjdk-headless
    ");
}
