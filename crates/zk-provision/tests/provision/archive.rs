//! Tests the download, resumption, verification and unpacking of the release archive.

use std::fs;
use std::net::TcpListener;

use tar::EntryType;
use zk_provision::FindError;
use zk_provision::Logging;
use zk_provision::Search;
use zk_provision::Source;

use crate::http::Reply;
use crate::http::Server;
use crate::world::Heard;
use crate::world::Tarball;
use crate::world::World;
use crate::world::names;
use crate::world::sha512;
use crate::world::tarball;
use crate::world::write;

const PART: &str = "downloads/apache-zookeeper-3.9.6-bin.tar.gz.part";

fn search(world: &World, server: &Server, archive: &[u8]) -> Search {
    world
        .search()
        .version("3.9")
        .mirror(&server.url)
        .pin("3.9.6", &sha512(archive))
}

/// The error of the archive, without the other attempts.
fn last_try(world: &World, server: &Server, error: &FindError) -> String {
    let FindError::NotFound(not_found) = error else {
        panic!("expected NotFound, got {error}")
    };
    let last = not_found
        .tried
        .last()
        .expect("something was tried")
        .to_string();
    world.anonymous(&last).replace(&server.url, "$MIRROR")
}

// covers: H2
#[test]
fn whole_download_is_provisioned_and_then_cached() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let heard = Heard::default();
    let search = search(&world, &server, &archive).progress(heard.listener());

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
        server.requests()[0].path,
        "/dist/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz"
    );
    assert_eq!(
        heard.what(),
        [
            "downloading apache-zookeeper-3.9.6-bin.tar.gz",
            "unpacking apache-zookeeper-3.9.6-bin.tar.gz"
        ]
    );
    let total = archive.len() as u64;
    assert!(
        heard
            .all()
            .iter()
            .any(|progress| (progress.done, progress.total) == (total, Some(total)))
    );

    let second = search.find().unwrap();
    assert_eq!(second.source, Source::Cached);
    assert_eq!(
        (second.classpath, second.home),
        (first.classpath, first.home)
    );
    assert_eq!(
        server.requests().len(),
        1,
        "a cached release is not fetched again"
    );
    assert_eq!(world.cached(), ["downloads", "lock", "zookeeper-3.9.6"]);
    assert!(
        names(&world.cache().join("downloads")).is_empty(),
        "the archive is not kept"
    );
    assert!(
        !second_has_docs(&world),
        "the documentation is not unpacked"
    );
}

fn second_has_docs(world: &World) -> bool {
    world.cache().join("zookeeper-3.9.6/docs").exists()
}

// covers: H2
#[test]
fn broken_connection_is_resumed_where_it_broke() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |number, request| {
        let reply = Reply::range(&served, request.from);
        if number == 0 {
            reply.cut(100_000)
        } else {
            reply
        }
    });

    let found = search(&world, &server, &archive).find().unwrap();
    assert_eq!(found.source, Source::Provisioned);
    assert_eq!(server.ranges(), [None, Some(100_000)]);
}

#[test]
fn download_that_breaks_again_and_again_goes_on_in_the_next_run() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |number, request| {
        let reply = Reply::range(&served, request.from);
        if number < 4 { reply.cut(10_000) } else { reply }
    });
    let search = search(&world, &server, &archive);

    let error = search.find().unwrap_err();
    let said = last_try(&world, &server, &error);
    assert!(said.contains("the download broke off 4 times"), "{said}");
    assert!(
        said.ends_with("40000 bytes are kept, run it again to go on"),
        "{said}"
    );
    assert_eq!(
        world.cached(),
        ["downloads", "lock"],
        "half a download does not count as installed"
    );

    assert_eq!(search.find().unwrap().source, Source::Provisioned);
    assert_eq!(
        server.ranges(),
        [None, Some(10_000), Some(20_000), Some(30_000), Some(40_000)]
    );
}

#[test]
fn part_left_by_a_killed_process_is_completed() {
    let archive = tarball().bytes();
    let world = World::with_java();
    fs::create_dir_all(world.cache().join("downloads")).unwrap();
    fs::write(world.cache().join(PART), &archive[..12_345]).unwrap();
    write(
        &world
            .cache()
            .join("tmp-1-0/zookeeper/lib/zookeeper-3.9.6.jar"),
        "half unpacked",
    );
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));

    assert_eq!(
        search(&world, &server, &archive).find().unwrap().source,
        Source::Provisioned
    );
    assert_eq!(server.ranges(), [Some(12_345)]);
    assert_eq!(
        world.cached(),
        ["downloads", "lock", "zookeeper-3.9.6"],
        "the dead process's directory is gone"
    );
}

#[test]
fn part_that_is_already_whole_needs_no_body() {
    let archive = tarball().bytes();
    let world = World::with_java();
    fs::create_dir_all(world.cache().join("downloads")).unwrap();
    fs::write(world.cache().join(PART), &archive).unwrap();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));

    assert_eq!(
        search(&world, &server, &archive).find().unwrap().source,
        Source::Provisioned
    );
    assert_eq!(server.ranges(), [Some(archive.len())]);
}

#[test]
fn part_of_another_file_is_thrown_away() {
    let archive = tarball().bytes();
    for stale in [vec![7; 5_000], vec![7; archive.len() + 10]] {
        let world = World::with_java();
        fs::create_dir_all(world.cache().join("downloads")).unwrap();
        fs::write(world.cache().join(PART), &stale).unwrap();
        let served = archive.clone();
        let server = Server::start(move |_, request| Reply::range(&served, request.from));

        assert_eq!(
            search(&world, &server, &archive).find().unwrap().source,
            Source::Provisioned
        );
        assert_eq!(server.ranges(), [Some(stale.len()), None]);
    }
}

#[test]
fn server_without_ranges_sends_the_whole_file_again() {
    let archive = tarball().bytes();
    let world = World::with_java();
    fs::create_dir_all(world.cache().join("downloads")).unwrap();
    fs::write(world.cache().join(PART), &archive[..50_000]).unwrap();
    let served = archive.clone();
    let server = Server::start(move |_, _| Reply::whole(&served));

    assert_eq!(
        search(&world, &server, &archive).find().unwrap().source,
        Source::Provisioned
    );
    assert_eq!(server.ranges(), [Some(50_000)]);
}

#[test]
fn answer_with_another_range_than_asked_for_is_not_appended() {
    let archive = tarball().bytes();
    let world = World::with_java();
    fs::create_dir_all(world.cache().join("downloads")).unwrap();
    fs::write(world.cache().join(PART), &archive[..50_000]).unwrap();
    let served = archive.clone();
    let server = Server::start(move |number, request| match number {
        0 => Reply::range(&served, Some(10)),
        _ => Reply::range(&served, request.from),
    });

    assert_eq!(
        search(&world, &server, &archive).find().unwrap().source,
        Source::Provisioned
    );
    assert_eq!(server.ranges(), [Some(50_000), None]);
}

// covers: H2
#[test]
fn wrong_checksum_leaves_nothing_and_names_both() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let pinned = "ab".repeat(64);
    let search = world
        .search()
        .version("3.9")
        .mirror(&server.url)
        .pin("3.9.6", &pinned);

    let error = search.find().unwrap_err();
    assert_eq!(
        last_try(&world, &server, &error),
        format!(
            "$MIRROR/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz: \
             its SHA-512 is {}, expected {pinned}; it was deleted",
            sha512(&archive)
        )
    );
    assert_eq!(world.cached(), ["downloads", "lock"]);
    assert!(names(&world.cache().join("downloads")).is_empty());
    search.find().unwrap_err();
    assert_eq!(
        server.ranges(),
        [None, None],
        "the next run starts from the first byte"
    );
}

#[test]
fn refusals_of_the_server_are_reported() {
    let archive = tarball().bytes();
    for (status, reported) in [
        ("404 Not Found", "the server answered 404 Not Found"),
        (
            "503 Service Unavailable",
            "the server answered 503 Service Unavailable",
        ),
    ] {
        let world = World::with_java();
        let server = Server::start(move |_, _| Reply::status(status));
        let error = search(&world, &server, &archive).find().unwrap_err();
        let expected =
            format!("$MIRROR/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz: {reported}");
        assert_eq!(last_try(&world, &server, &error), expected);
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn redirect_is_followed() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |number, request| match number {
        0 => Reply::status("302 Found").with_header("Location: /elsewhere.tar.gz"),
        _ => Reply::range(&served, request.from),
    });
    assert_eq!(
        search(&world, &server, &archive).find().unwrap().source,
        Source::Provisioned
    );
    assert_eq!(server.requests()[1].path, "/elsewhere.tar.gz");
}

#[test]
fn refused_connection_is_reported() {
    let world = World::with_java();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let search = world
        .search()
        .version("3.9")
        .mirror(format!("http://{free}"));
    let FindError::NotFound(not_found) = search.find().unwrap_err() else {
        panic!("expected NotFound")
    };
    let last = not_found.tried.last().unwrap();
    assert!(last.outcome.contains("Connection refused"), "{last}");
}

#[test]
fn archive_that_leads_out_of_its_directory_is_refused() {
    let top = "apache-zookeeper-3.9.6-bin";
    let cases = [
        (
            Tarball::new().file("apache/../../evil", b"x"),
            "it is refused: apache/../../evil leads out of the archive's own directory",
        ),
        (
            Tarball::new().file("/etc/evil", b"x"),
            "it is refused: /etc/evil leads out of the archive's own directory",
        ),
        (
            Tarball::new().entry(EntryType::Symlink, &format!("{top}/lib"), "/etc", b""),
            "it is refused: /etc leads out of the archive's own directory",
        ),
        (
            Tarball::new().entry(EntryType::Symlink, &format!("{top}/lib"), "../../..", b""),
            "it is refused: ../../.. leads out of the archive's own directory",
        ),
        (
            Tarball::new().entry(EntryType::Link, &format!("{top}/lib"), "/etc/passwd", b""),
            "it is refused: apache-zookeeper-3.9.6-bin/lib has the type Link",
        ),
        (
            Tarball::new().entry(EntryType::Fifo, &format!("{top}/pipe"), "", b""),
            "it is refused: apache-zookeeper-3.9.6-bin/pipe has the type Fifo",
        ),
    ];
    for (tarball, reported) in cases {
        let archive = tarball.bytes();
        let world = World::with_java();
        let served = archive.clone();
        let server = Server::start(move |_, request| Reply::range(&served, request.from));
        let error = search(&world, &server, &archive).find().unwrap_err();
        let said = last_try(&world, &server, &error);
        assert_eq!(
            said,
            format!("$MIRROR/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz: {reported}")
        );
        assert_eq!(world.cached(), ["downloads", "lock"], "{reported}");
        assert!(!world.path("home/.cache/evil").exists() && !world.cache().join("evil").exists());
    }
}

#[test]
fn archive_with_wrong_content_is_refused() {
    let top = "apache-zookeeper-3.9.6-bin";
    let other = crate::world::RELEASE
        .iter()
        .fold(Tarball::new(), |tarball, jar| {
            tarball.file(
                &format!("{top}/lib/{}.jar", jar.replace("3.9.6", "3.8.4")),
                b"x",
            )
        });
    let whole = tarball().bytes();
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
        let world = World::with_java();
        let served = archive.clone();
        let server = Server::start(move |_, request| Reply::range(&served, request.from));
        let error = search(&world, &server, &archive).find().unwrap_err();
        let said = last_try(&world, &server, &error);
        assert!(said.contains(reported), "{said}");
        assert_eq!(world.cached(), ["downloads", "lock"], "{reported}");
    }
}

#[test]
fn version_without_a_pinned_checksum_is_not_fetched() {
    let world = World::with_java();
    let server = Server::start(|_, _| Reply::status("500 Internal Server Error"));
    let error = world
        .search()
        .version("3.9.9")
        .mirror(&server.url)
        .find()
        .unwrap_err();
    insta::assert_snapshot!(
        last_try(&world, &server, &error),
        @"release archive $MIRROR: no SHA-512 is pinned for 3.9.9; pinned are 3.8.4, 3.9.3, 3.9.5"
    );
    assert!(server.requests().is_empty());
}
