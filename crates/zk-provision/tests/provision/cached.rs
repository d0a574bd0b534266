//! Tests which directories of the cache count as complete.

use std::fs;

use zk_provision::FindError;
use zk_provision::Provisioning;
use zk_provision::Search;
use zk_provision::Source;

use crate::http::Reply;
use crate::http::Server;
use crate::world::World;
use crate::world::release;
use crate::world::sha512;
use crate::world::tarball;
use crate::world::tarball_of;

#[test]
fn directory_without_a_record_does_not_count() {
    let world = World::with_java();
    release(&world.cache().join("zookeeper-3.9.6"), "3.9.6");
    let search = world.search().provisioning(Provisioning::Never);
    let FindError::NotFound(not_found) = search.find().unwrap_err() else {
        panic!("expected NotFound")
    };
    let tried: Vec<String> = not_found
        .tried
        .iter()
        .map(|tried| world.anonymous(&tried))
        .collect();
    let damaged = "$W/home/.cache/zk-harness/zookeeper-3.9.6: damaged: distribution.json: \
                   No such file or directory (os error 2)";
    assert!(tried.iter().any(|line| line == damaged), "{tried:#?}");
}

#[test]
fn damaged_directory_is_reported_and_then_replaced() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let search = world
        .search()
        .version("3.9")
        .mirror(&server.url)
        .pin("3.9.6", &sha512(&archive));
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
            error.contains("zookeeper-3.9.6: damaged: lib/zookeeper-3.9.6.jar"),
            "{error}"
        );
        assert_eq!(search.find().unwrap().source, Source::Provisioned);
        assert_eq!(search.find().unwrap().source, Source::Cached);
    }
    assert_eq!(world.cached(), ["downloads", "lock", "zookeeper-3.9.6"]);
}

#[test]
fn directory_of_an_earlier_format_is_replaced() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let sum = sha512(&archive);
    let server = Server::start(move |_, request| Reply::range(&archive, request.from));
    let search = world.search().mirror(&server.url).pin("3.9.6", &sum);
    let home = search.find().unwrap().home;
    let record = home.join("distribution.json");
    let text = fs::read_to_string(&record).unwrap();
    // In format 1, jars named others in their manifests.
    fs::write(&record, text.replace("\"format\": 2", "\"format\": 1")).unwrap();
    let never = search.clone().provisioning(Provisioning::Never);
    let error = never.find().unwrap_err().to_string();
    assert!(
        error.contains("distribution.json has format 1, this version reads 2"),
        "{error}"
    );
    assert_eq!(search.find().unwrap().source, Source::Provisioned);
    assert_eq!(fs::read_to_string(&record).unwrap(), text);
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
        .pin("3.9.6", &sha512(&archive));
    assert_eq!(
        search.find().unwrap().version,
        "3.9.6",
        "3.9 is provisioned when any version will do"
    );

    let never = search.provisioning(Provisioning::Never);
    for wanted in ["3.9", "3.9.6"] {
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
fn release_with_a_known_loss_is_taken_only_by_name() {
    let archive = tarball_of("3.9.3").bytes();
    let world = World::with_java();
    let sum = sha512(&archive);
    let server = Server::start(move |_, request| {
        if request.path.contains("3.9.3") {
            Reply::range(&archive, request.from)
        } else {
            Reply::status("404 Not Found")
        }
    });
    let search = world.search().mirror(&server.url).pin("3.9.3", &sum);
    let named = search.clone().version("3.9.3");
    for source in [Source::Provisioned, Source::Cached] {
        let found = named.find().unwrap();
        assert_eq!((found.version.as_str(), found.source), ("3.9.3", source));
        let warning = found.warning().unwrap();
        assert!(warning.contains("ZOOKEEPER-4925"), "{warning}");
    }

    // It is now both cached and installed.
    release(&world.root().join("opt/zookeeper"), "3.9.3");
    let refused = |search: Search| {
        let error = search.find().unwrap_err();
        world.anonymous(&error).replace(&server.url, "$MIRROR")
    };
    insta::assert_snapshot!(refused(search.clone()), @r#"
    ZooKeeper was not found; tried:
      - $ZOOKEEPER_HOME: not set
      - /opt/zookeeper: it is ZooKeeper 3.9.3, which can lose acknowledged writes; 3.9.4 or later is wanted (3.9.3 is taken only if it is asked for by its exact version)
      - /usr/share/java, /opt/homebrew/opt/zookeeper, /usr/local/opt/zookeeper, /home/linuxbrew/.linuxbrew/opt/zookeeper, /usr/local/zookeeper, /usr/share/zookeeper, /usr/lib/zookeeper, /srv/zookeeper, $W/home/zookeeper: no such directory
      - cache $W/home/.cache/zk-harness: nothing for 3.9
      - apt: this system is neither Debian nor Ubuntu nor like them
      - $MIRROR/zookeeper-3.9.5/apache-zookeeper-3.9.5-bin.tar.gz: the server answered 404 Not Found
    to fix it, run: curl -fL $MIRROR/zookeeper-3.9.5/apache-zookeeper-3.9.5-bin.tar.gz | tar -xz && export ZK_HARNESS_HOME="$PWD/apache-zookeeper-3.9.5-bin"
    "#);
    let series = refused(search.version("3.9"));
    assert!(
        series.starts_with("ZooKeeper 3.9 was not found"),
        "{series}"
    );
    let installed = named.find().unwrap();
    assert_eq!(installed.source, Source::Installed);
    assert!(installed.warning().is_some());
}

#[test]
fn older_series_is_used_unnamed_only_where_it_is_installed() {
    let archive = tarball_of("3.8.4").bytes();
    let world = World::with_java();
    let sum = sha512(&archive);
    let server = Server::start(move |_, request| Reply::range(&archive, request.from));
    let search = world.search().mirror(&server.url).pin("3.8.4", &sum);
    let cached = search.clone().version("3.8").find().unwrap();
    assert_eq!(cached.version, "3.8.4");
    let unnamed = search.provisioning(Provisioning::Never);
    let error = unnamed.find().unwrap_err().to_string();
    assert!(error.contains("nothing for 3.9"), "{error}");

    release(&world.root().join("opt/zookeeper"), "3.8.4");
    let installed = unnamed.find().unwrap();
    assert_eq!(installed.source, Source::Installed);
    let warning = installed.warning().unwrap();
    assert!(warning.contains("ZOOKEEPER-4394"), "{warning}");
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
fn always_ignores_an_installed_zookeeper_but_uses_java() {
    let archive = tarball().bytes();
    let mut world = World::with_java();
    let home = world.path("opt");
    release(&home, "3.9.6");
    world.set("ZOOKEEPER_HOME", &home);
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let search = world
        .search()
        .mirror(&server.url)
        .pin("3.9.6", &sha512(&archive));

    assert_eq!(search.find().unwrap().source, Source::Installed);
    let always = search.provisioning(Provisioning::Always);
    let found = always.find().unwrap();
    assert_eq!(found.source, Source::Provisioned);
    assert_eq!(found.java, world.path("jre/bin/java"));
}
