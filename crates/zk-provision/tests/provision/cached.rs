//! Tests which directories of the cache count as complete.

use std::fs;

use zk_provision::{Provisioning, Search, Source};

use crate::http::Reply;
use crate::world::{Mirror, World, not_found, release, sha512, tarball};

#[test]
fn directory_without_a_record_does_not_count() {
    let world = World::with_java();
    release(&world.cache().join("zookeeper-3.9.6"), "3.9.6");
    let error = not_found(&world.search().provisioning(Provisioning::Never));
    let damaged = "$W/home/.cache/zk-harness/zookeeper-3.9.6: damaged: distribution.json: \
                   No such file or directory (os error 2)";
    let tried = world.anonymous(&error);
    assert!(tried.contains(damaged), "{tried}");
}

#[test]
fn damaged_directory_is_reported_and_then_replaced() {
    let mirror = Mirror::new();
    let search = mirror.search();
    let jar = search.find().unwrap().classpath[0].clone();
    for damage in ["", "truncated"] {
        if damage.is_empty() {
            fs::remove_file(&jar).unwrap();
        } else {
            fs::write(&jar, damage).unwrap();
        }
        let error = not_found(&search.clone().provisioning(Provisioning::Never)).to_string();
        assert!(
            error.contains("zookeeper-3.9.6: damaged: lib/zookeeper-3.9.6.jar"),
            "{error}"
        );
        assert_eq!(search.find().unwrap().source, Source::Provisioned);
        assert_eq!(search.find().unwrap().source, Source::Cached);
    }
    assert_eq!(mirror.world.cached(), ["lock", "zookeeper-3.9.6"]);
}

#[test]
fn directory_of_an_earlier_format_is_replaced() {
    let mirror = Mirror::new();
    let search = mirror.search();
    let record = search.find().unwrap().home.join("distribution.json");
    let text = fs::read_to_string(&record).unwrap();
    // In format 1, jars named others in their manifests.
    fs::write(&record, text.replace("\"format\": 2", "\"format\": 1")).unwrap();
    let error = not_found(&search.clone().provisioning(Provisioning::Never)).to_string();
    assert!(
        error.contains("distribution.json has format 1, this version reads 2"),
        "{error}"
    );
    assert_eq!(search.find().unwrap().source, Source::Provisioned);
    assert_eq!(fs::read_to_string(&record).unwrap(), text);
}

#[test]
fn cache_serves_the_version_that_is_wanted() {
    let mirror = Mirror::new();
    let search = mirror.search();
    assert_eq!(
        search.find().unwrap().version,
        "3.9.6",
        "3.9 is provisioned when any version will do"
    );
    let never = search.provisioning(Provisioning::Never);
    for wanted in ["3.9", "3.9.6"] {
        let found = never.clone().version(wanted).find().unwrap();
        assert_eq!(found.source, Source::Cached, "{wanted}");
    }
    for other in ["3.8", "3.9.4"] {
        let error = not_found(&never.clone().version(other)).to_string();
        assert!(error.contains(&format!("nothing for {other}")), "{error}");
    }
}

#[test]
fn release_with_a_known_loss_is_taken_only_by_name() {
    let mirror = Mirror::answering(tarball("3.9.3").bytes(), |_, request, archive| {
        if request.contains("3.9.3") {
            Reply::whole(archive)
        } else {
            Reply::status("404 Not Found")
        }
    });
    let search = mirror.search().pin("3.9.3", &sha512(&mirror.archive));
    let named = search.clone().version("3.9.3");
    for source in [Source::Provisioned, Source::Cached] {
        let found = named.find().unwrap();
        assert_eq!((found.version.as_str(), found.source), ("3.9.3", source));
        let warning = found.warning().unwrap();
        assert!(warning.contains("ZOOKEEPER-4925"), "{warning}");
    }

    // It is now both cached and installed.
    release(&mirror.world.root().join("opt/zookeeper"), "3.9.3");
    let refused = |search: &Search| {
        let error = mirror.world.anonymous(&not_found(search));
        let error = error.replace(&mirror.server.url, "$MIRROR");
        error.replace(&sha512(&mirror.archive), "$SHA512")
    };
    insta::assert_snapshot!(refused(&search), @r#"
    cannot find ZooKeeper; tried:
      - $ZOOKEEPER_HOME: not set
      - $W/root/opt/zookeeper: it is ZooKeeper 3.9.3, which can lose acknowledged writes; 3.9.4 or later is wanted (3.9.3 is taken only if it is asked for by its exact version)
      - $W/root/usr/share/java, $W/root/opt/homebrew/opt/zookeeper, $W/root/usr/local/opt/zookeeper, $W/root/home/linuxbrew/.linuxbrew/opt/zookeeper, $W/root/usr/local/zookeeper, $W/root/usr/share/zookeeper, $W/root/usr/lib/zookeeper, $W/root/srv/zookeeper, $W/home/zookeeper: no such directory
      - cache $W/home/.cache/zk-harness: nothing for 3.9
      - apt: this system is neither Debian nor Ubuntu nor like them
      - $MIRROR/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz: the server answered 404 Not Found
    to fix it, run: curl -fLO $MIRROR/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz && echo "$SHA512  apache-zookeeper-3.9.6-bin.tar.gz" | sha512sum -c && tar -xzf apache-zookeeper-3.9.6-bin.tar.gz && export ZK_HARNESS_HOME="$PWD/apache-zookeeper-3.9.6-bin"
    "#);
    let series = refused(&search.version("3.9"));
    assert!(series.starts_with("cannot find ZooKeeper 3.9;"), "{series}");
    let installed = named.find().unwrap();
    assert_eq!(installed.source, Source::Installed);
    assert!(installed.warning().is_some());
}

#[test]
fn older_series_is_used_unnamed_only_where_it_is_installed() {
    let mirror = Mirror::with(tarball("3.8.4").bytes());
    let search = mirror.search().pin("3.8.4", &sha512(&mirror.archive));
    let cached = search.clone().version("3.8").find().unwrap();
    assert_eq!(cached.version, "3.8.4");
    let unnamed = search.provisioning(Provisioning::Never);
    let error = not_found(&unnamed).to_string();
    assert!(error.contains("nothing for 3.9"), "{error}");

    release(&mirror.world.root().join("opt/zookeeper"), "3.8.4");
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
    insta::assert_snapshot!(world.anonymous(&error), @"cannot create the cache $W/home/.cache/zk-harness; set ZK_HARNESS_CACHE to a directory that can be written");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn always_ignores_an_installed_zookeeper_but_uses_java() {
    let mut mirror = Mirror::new();
    let home = mirror.world.path("opt");
    release(&home, "3.9.6");
    mirror.world.set("ZOOKEEPER_HOME", &home);
    let search = mirror.search();
    assert_eq!(search.find().unwrap().source, Source::Installed);
    let found = search.provisioning(Provisioning::Always).find().unwrap();
    assert_eq!(found.source, Source::Provisioned);
    assert_eq!(found.java, mirror.world.path("jre/bin/java"));
}
