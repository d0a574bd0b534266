//! Tests settings from the environment and from setters.

use std::ffi::OsString;

use zk_provision::{FindError, Search};

use crate::world::{World, release, write};

fn wrong(variable: &str, value: &str) -> String {
    Search::from_vars([(OsString::from(variable), OsString::from(value))])
        .unwrap_err()
        .to_string()
}

#[test]
fn bad_variables_are_named_with_value_and_rule() {
    insta::assert_snapshot!(wrong("ZK_HARNESS_HOME", "/no/such/dir"), @r#"ZK_HARNESS_HOME is "/no/such/dir"; it must be an existing directory with ZooKeeper in it"#);
    insta::assert_snapshot!(wrong("ZK_HARNESS_VERSION", "latest"), @r#"ZK_HARNESS_VERSION is "latest"; it must be a series like 3.9 or an exact version like 3.9.6"#);
    insta::assert_snapshot!(wrong("ZK_HARNESS_PROVISION", "yes"), @r#"ZK_HARNESS_PROVISION is "yes"; it must be when-missing, never or always"#);
    insta::assert_snapshot!(wrong("ZK_HARNESS_MIRROR", "ftp://mirror"), @r#"ZK_HARNESS_MIRROR is "ftp://mirror"; it must be an http:// or https:// URL under which zookeeper-3.9.6/ and its like are found"#);
    let world = World::empty();
    write(&world.path("file"), "");
    let said = wrong(
        "ZK_HARNESS_CACHE",
        &world.path("file").display().to_string(),
    );
    insta::assert_snapshot!(world.anonymous(&said), @r#"ZK_HARNESS_CACHE is "$W/file"; it must be a directory, or a path where one can be made"#);
}

#[test]
fn mirror_that_is_no_http_url_is_refused() {
    for bad in [
        "host/dist",
        "https://",
        "http:///",
        "ftp://host",
        "http://ho st/",
    ] {
        assert!(wrong("ZK_HARNESS_MIRROR", bad).contains("an http:// or https:// URL"));
    }
}

#[test]
fn what_looks_like_a_version_is_one_and_the_rest_is_a_directory() {
    let world = World::with_java();
    let said = |text: &str| match world.search().zookeeper(text) {
        Ok(search) => search.find().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    for version in ["3.7", "3.9.99", "10.0.12"] {
        let said = said(version);
        assert!(
            said.contains(&format!("cannot find ZooKeeper {version};")),
            "{said}"
        );
    }
    for home in [
        "/opt/no",
        "./3",
        "zookeeper-3.9.3",
        "v3.9",
        ".",
        "..",
        "+3.9",
        "3.9.x",
    ] {
        let said = said(home);
        assert!(
            said.starts_with(&format!("{home} is not a usable ZooKeeper home")),
            "{said}"
        );
    }
    insta::assert_snapshot!(said("3"), @r#"the wanted ZooKeeper is "3"; it must be a version like 3.9 or 3.9.6, or a directory (./3 if its name looks like a version)"#);
    for neither in ["", "3.9.3.1", "3.", ".9", "3..9", "99999999999.1"] {
        assert!(
            said(neither).starts_with("the wanted ZooKeeper is"),
            "{neither}"
        );
    }
}

#[test]
fn bad_setters_are_reported_by_find() {
    let said = |search: Search| {
        let error = search.find().unwrap_err();
        assert!(matches!(error, FindError::Setting(_)), "{error}");
        error.to_string()
    };
    insta::assert_snapshot!(said(Search::new().version("three")), @r#"the wanted version is "three"; it must be a series like 3.9 or an exact version like 3.9.6"#);
    insta::assert_snapshot!(said(Search::new().pin("3.9", "")), @r#"the pinned version is "3.9"; it must be exact, like 3.9.6"#);
    insta::assert_snapshot!(said(Search::new().pin("3.9.4", "abc")), @r#"the pinned SHA-512 is "abc"; it must be 128 hexadecimal digits"#);
}

#[test]
fn machine_without_a_home_needs_a_cache_directory() {
    let world = World::empty();
    let error = Search::from_vars([])
        .unwrap()
        .root(world.root())
        .find()
        .unwrap_err();
    insta::assert_snapshot!(error.to_string(), @r#"ZK_HARNESS_CACHE is ""; it must be set where neither XDG_CACHE_HOME nor HOME names an absolute directory"#);
}

#[test]
fn variables_do_what_the_setters_do() {
    let mut world = World::with_java();
    release(&world.path("three-nine"), "3.9.6");
    release(&world.path("three-eight"), "3.8.4");
    world.set("ZK_HARNESS_HOME", world.path("three-nine"));
    world.set("ZK_HARNESS_CACHE", "");
    assert_eq!(
        world.search().find().unwrap().version,
        "3.9.6",
        "and an empty variable counts as not set"
    );
    assert_eq!(
        world
            .search()
            .home(world.path("three-eight"))
            .find()
            .unwrap()
            .version,
        "3.8.4"
    );
    world.set("ZK_HARNESS_VERSION", "3.8");
    assert!(matches!(world.search().find(), Err(FindError::Home { .. })));

    let mut world = World::with_java();
    world.set("ZK_HARNESS_PROVISION", "never");
    world.set("ZK_HARNESS_VERSION", "3.7");
    world.set("XDG_CACHE_HOME", world.path("xdg"));
    let error = world.anonymous(&world.search().find().unwrap_err());
    if cfg!(not(target_os = "macos")) {
        assert!(
            error.contains("cache $W/xdg/zk-harness: nothing for 3.7"),
            "{error}"
        );
    }
    assert!(error.contains("provisioning: switched off"), "{error}");
    world.set("ZK_HARNESS_CACHE", world.path("own"));
    let error = world.anonymous(&world.search().find().unwrap_err());
    assert!(error.contains("cache $W/own: nothing for 3.7"), "{error}");

    let mut world = World::with_java();
    world.set("ZK_HARNESS_MIRROR", "http://127.0.0.1:1/dist/");
    let error = world.search().find().unwrap_err().to_string();
    assert!(
        error.contains("http://127.0.0.1:1/dist/zookeeper-3.9.5/apache-"),
        "{error}"
    );
}

#[test]
fn debug_output_does_not_show_the_environment() {
    let vars = [(OsString::from("TOKEN"), OsString::from("s3cret"))];
    let search = Search::from_vars(vars).unwrap();
    assert!(!format!("{search:?}").contains("s3cret"));
}

#[test]
fn tests_run_on_versions_of_their_own() {
    // The environment of the test run chooses the value; without one, installed packages would be used.
    assert!(
        std::env::var_os("ZK_HARNESS_PROVISION").is_some(),
        "`.cargo/config.toml` sets it: run cargo in a directory of the workspace"
    );
}
