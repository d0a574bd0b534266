//! What counts as installed in the cache.

use std::fs;

use zk_harness::dist::FindError;
use zk_harness::dist::Provisioning;
use zk_harness::dist::Source;

use crate::http::Reply;
use crate::http::Server;
use crate::world::World;
use crate::world::release;
use crate::world::sha512;
use crate::world::tarball;

#[test]
fn directory_without_a_record_does_not_count() {
    let world = World::with_java();
    release(&world.cache().join("zookeeper-3.9.3"), "3.9.3");
    let search = world.search().provisioning(Provisioning::Never);
    let FindError::NotFound(not_found) = search.find().unwrap_err() else {
        panic!("expected NotFound")
    };
    let tried: Vec<String> = not_found
        .tried
        .iter()
        .map(|tried| world.anonymous(&tried))
        .collect();
    let damaged = "$W/home/.cache/zk-harness/zookeeper-3.9.3: damaged: distribution.json: \
                   No such file or directory (os error 2)";
    assert!(tried.iter().any(|line| line == damaged), "{tried:#?}");
}

#[test]
fn damaged_directory_is_told_and_then_replaced() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let search = world
        .search()
        .version("3.9")
        .mirror(&server.url)
        .pin("3.9.3", &sha512(&archive));
    let jar = search.find().unwrap().classpath[0].clone();

    for damage in ["", "truncated"] {
        if damage.is_empty() {
            fs::remove_file(&jar).unwrap();
        } else {
            fs::write(&jar, damage).unwrap();
        }
        let error = search
            .clone()
            .provisioning(Provisioning::Never)
            .find()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("zookeeper-3.9.3: damaged: lib/zookeeper-3.9.3.jar"),
            "{error}"
        );
        assert_eq!(search.find().unwrap().source, Source::Provisioned);
        assert_eq!(search.find().unwrap().source, Source::Cached);
    }
    assert_eq!(world.cached(), ["downloads", "lock", "zookeeper-3.9.3"]);
}

#[test]
fn cache_serves_the_version_that_is_wanted() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let search = world
        .search()
        .mirror(&server.url)
        .pin("3.9.3", &sha512(&archive));
    assert_eq!(
        search.find().unwrap().version,
        "3.9.3",
        "3.9 is provisioned when any version will do"
    );

    let never = search.provisioning(Provisioning::Never);
    for wanted in ["3.9", "3.9.3"] {
        assert_eq!(
            never.clone().version(wanted).find().unwrap().source,
            Source::Cached,
            "{wanted}"
        );
    }
    for other in ["3.8", "3.9.4"] {
        let error = never.clone().version(other).find().unwrap_err();
        assert!(
            error.to_string().contains(&format!("nothing for {other}")),
            "{error}"
        );
    }
}

#[test]
fn cache_that_cannot_be_made_is_named() {
    let world = World::with_java();
    fs::write(world.path("home/.cache"), "a file").unwrap();
    let error = world.search().find().unwrap_err();
    insta::assert_snapshot!(world.anonymous(&error), @"cannot create $W/home/.cache/zk-harness in the cache; set ZK_HARNESS_CACHE to a directory that can be written");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn always_ignores_what_is_installed() {
    let archive = tarball().bytes();
    let mut world = World::with_java();
    let home = world.path("opt");
    release(&home, "3.9.3");
    world.set("ZOOKEEPER_HOME", &home);
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let search = world
        .search()
        .mirror(&server.url)
        .pin("3.9.3", &sha512(&archive));

    assert_eq!(search.find().unwrap().source, Source::Installed);
    let always = search.provisioning(Provisioning::Always);
    let error = always.find().unwrap_err().to_string();
    assert!(
        error.starts_with("Java 8 or newer was not found"),
        "the installed Java is ignored as well: {error}"
    );
    let found = always.java(world.path("jre/bin/java")).find().unwrap();
    assert_eq!(found.source, Source::Cached, "an explicit Java is used");
}
