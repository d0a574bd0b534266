//! Tests the download, verification and unpacking of the release archive.

use std::net::TcpListener;
use std::path::Path;

use tar::EntryType;
use zk_provision::{Logging, Source};

use crate::http::Reply;
use crate::world::{Heard, Mirror, RELEASE, Tarball, World, not_found, sha512, tarball, write};

/// The archive of release 3.9.6.
const ARCHIVE: &str = "$MIRROR/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz";

#[test]
fn whole_download_is_provisioned_and_then_cached() {
    let mirror = Mirror::new();
    let world = &mirror.world;
    let heard = Heard::default();
    let search = mirror.search().version("3.9").progress(heard.listener());

    let first = search.find().unwrap();
    assert_eq!(
        (first.version.as_str(), first.source),
        ("3.9.6", Source::Provisioned)
    );
    assert_eq!(first.logging, Logging::Logback);
    assert_eq!(first.home, world.cache().join("zookeeper-3.9.6"));
    assert_eq!(first.java, world.path("jre/bin/java"));
    assert!(
        first.classpath.iter().all(|jar| jar.is_file()),
        "{:?}",
        first.classpath
    );
    assert_eq!(
        first.classpath[0],
        first.home.join("lib/zookeeper-3.9.6.jar")
    );
    assert_eq!(
        mirror.server.requests()[0],
        "/dist/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz"
    );
    assert_eq!(
        heard.what(),
        [
            "downloading apache-zookeeper-3.9.6-bin.tar.gz",
            "unpacking apache-zookeeper-3.9.6-bin.tar.gz"
        ]
    );
    let total = mirror.archive.len() as u64;
    assert!(
        heard
            .all()
            .iter()
            .any(|progress| (progress.done, progress.total) == (total, Some(total)))
    );

    let second = search.find().unwrap();
    assert_eq!(second.source, Source::Cached);
    assert_eq!(
        (second.classpath, &second.home),
        (first.classpath, &first.home)
    );
    assert_eq!(
        mirror.server.requests().len(),
        1,
        "a cached release is not fetched again"
    );
    assert_eq!(
        world.cached(),
        ["lock", "zookeeper-3.9.6"],
        "the archive is not kept"
    );
    assert!(
        !second.home.join("docs").exists(),
        "the documentation is not unpacked"
    );
}

#[test]
fn broken_download_begins_again() {
    let mirror = Mirror::answering(tarball("3.9.6").bytes(), |number, _, archive| {
        let reply = Reply::whole(archive);
        if number == 0 {
            reply.cut(100_000)
        } else {
            reply
        }
    });
    mirror.check_provisioned(2);
}

#[test]
fn download_that_breaks_again_and_again_leaves_nothing() {
    let mirror = Mirror::answering(tarball("3.9.6").bytes(), |_, _, archive| {
        Reply::whole(archive).cut(10_000)
    });
    let said = mirror.refusal(&mirror.search());
    assert!(said.contains("the download broke off 4 times"), "{said}");
    assert_eq!(mirror.world.cached(), ["lock"]);
}

#[test]
fn directory_of_a_killed_process_is_removed() {
    let mirror = Mirror::new();
    let unpacked = "tmp-1-0/zookeeper/lib/zookeeper-3.9.6.jar";
    write(&mirror.world.cache().join(unpacked), "half unpacked");
    mirror.check_provisioned(1);
    assert_eq!(mirror.world.cached(), ["lock", "zookeeper-3.9.6"]);
}

#[test]
fn wrong_checksum_leaves_nothing_and_names_both() {
    let mirror = Mirror::new();
    let pinned = "ab".repeat(64);
    let search = mirror.search().pin("3.9.6", &pinned);
    let actual = sha512(&mirror.archive);
    for _ in 0..2 {
        assert_eq!(
            mirror.refusal(&search),
            format!("{ARCHIVE}: its SHA-512 is {actual}, expected {pinned}")
        );
        assert_eq!(mirror.world.cached(), ["lock"]);
    }
}

#[test]
fn refusals_of_the_server_are_reported() {
    for status in [
        "206 Partial Content",
        "404 Not Found",
        "503 Service Unavailable",
    ] {
        let mirror = Mirror::answering(Vec::new(), move |_, _, _| Reply::status(status));
        let said = mirror.refusal(&mirror.search());
        assert_eq!(said, format!("{ARCHIVE}: the server answered {status}"));
        assert_eq!(mirror.server.requests().len(), 1);
    }
}

#[test]
fn redirect_is_followed() {
    let mirror = Mirror::answering(
        tarball("3.9.6").bytes(),
        |number, _, archive| match number {
            0 => Reply::status("302 Found").with_header("Location: /elsewhere.tar.gz"),
            _ => Reply::whole(archive),
        },
    );
    mirror.check_provisioned(2);
    assert_eq!(mirror.server.requests()[1], "/elsewhere.tar.gz");
}

#[test]
fn refused_connection_is_reported() {
    let mut world = World::with_java();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    world.set("ZK_HARNESS_MIRROR", format!("http://{free}"));
    let error = not_found(&world.search());
    let last = error.tried.last().unwrap();
    assert!(last.outcome.contains("Connection refused"), "{last}");
}

#[test]
fn archive_that_leads_out_of_its_directory_is_refused() {
    let lib = "apache-zookeeper-3.9.6-bin/lib";
    let evil = format!("{lib}/evil");
    let link = |kind, to| Tarball::new().entry(kind, lib, to, b"");
    let cases = [
        Tarball::new().file("apache/../../evil", b"x"),
        Tarball::new().file("/etc/evil", b"x"),
        link(EntryType::Symlink, "/tmp").file(&evil, b"x"),
        link(EntryType::Symlink, "../../..").file(&evil, b"x"),
        link(EntryType::Link, "/etc/passwd"),
        link(EntryType::Fifo, ""),
    ];
    for (case, tarball) in cases.into_iter().enumerate() {
        let mirror = Mirror::with(tarball.bytes());
        let said = mirror.refusal(&mirror.search());
        assert!(
            said.contains("it cannot be unpacked: ") || said.contains("is not a release: "),
            "{case}: {said}"
        );
        let cache = mirror.world.cache();
        assert_eq!(mirror.world.cached(), ["lock"], "{case}");
        for outside in ["/etc", "/tmp"]
            .map(Path::new)
            .into_iter()
            .chain(cache.ancestors())
        {
            assert!(
                !outside.join("evil").exists(),
                "{case}: {}",
                outside.display()
            );
        }
    }
}

#[test]
fn archive_with_wrong_content_is_refused() {
    let top = "apache-zookeeper-3.9.6-bin";
    let other = RELEASE.iter().fold(Tarball::new(), |tarball, jar| {
        let jar = jar.replace("3.9.6", "3.8.4");
        tarball.file(&format!("{top}/lib/{jar}.jar"), b"x")
    });
    let whole = tarball("3.9.6").bytes();
    let cases = [
        (
            Tarball::new().file(&format!("{top}/README"), b"x").bytes(),
            "its content is not a release: ",
        ),
        (other.bytes(), "it contains ZooKeeper 3.8.4, expected 3.9.6"),
        (whole[..whole.len() / 2].to_vec(), "it cannot be unpacked: "),
        (
            b"<html>please log in</html>".to_vec(),
            "it cannot be unpacked: ",
        ),
    ];
    for (archive, reported) in cases {
        let mirror = Mirror::with(archive);
        let said = mirror.refusal(&mirror.search());
        assert!(said.contains(reported), "{said}");
        assert_eq!(mirror.world.cached(), ["lock"], "{reported}");
    }
}

#[test]
fn version_without_a_pinned_checksum_is_not_fetched() {
    let mirror = Mirror::new();
    let said = mirror.refusal(&mirror.search().version("3.9.9"));
    assert_eq!(
        said,
        "release archive $MIRROR: no SHA-512 is pinned for 3.9.9; pinned are 3.8.4, 3.9.3, 3.9.5, 3.9.6"
    );
    assert!(mirror.server.requests().is_empty());
}
