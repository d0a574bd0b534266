use proptest::prelude::*;

use super::*;

fn parsed(word: Word, reply: &str) -> Reading {
    parse(word, reply.as_bytes()).unwrap()
}

fn figures_of(word: Word, reply: &str) -> Figures {
    match parsed(word, reply) {
        Reading::Figures(figures) => figures,
        other => panic!("{other:?}"),
    }
}

/// Replies of 3.4.13, 3.8.0 and 3.9.6 to a word.
macro_rules! replies {
    ($word:literal) => {
        [
            include_str!(concat!("../fixtures/", $word, "-3.4.13.txt")),
            include_str!(concat!("../fixtures/", $word, "-3.8.0.txt")),
            include_str!(concat!("../fixtures/", $word, "-3.9.6.txt")),
        ]
    };
}

#[test]
fn srvr_is_read_from_each_release() {
    let all = replies!("srvr").map(|reply| figures_of(Word::Srvr, reply));
    let versions = all.each_ref().map(|figures| figures.version.as_deref());
    assert_eq!(versions, [Some("3.4.13"), Some("3.8.0"), Some("3.9.6")]);
    let roles = all.each_ref().map(|figures| figures.role.as_deref());
    assert_eq!(
        roles,
        [Some("standalone"), Some("standalone"), Some("follower")]
    );
    let [old, _, new] = all;
    assert_eq!(
        (old.zxid, old.received, old.connections),
        (Some(7), Some(17), Some(2))
    );
    assert_eq!(
        (old.average_latency, old.max_latency),
        (Some(5.0), Some(17.0))
    );
    assert_eq!((old.outstanding, old.nodes), (Some(0), Some(7)));
    assert!(new.zxid.is_some_and(|zxid| zxid >> 32 == 1), "{new:?}");
}

#[test]
fn mntr_is_read_from_each_release() {
    for (reply, version, has_fsync) in replies!("mntr")
        .into_iter()
        .zip(["3.4.13", "3.8.0", "3.9.6"])
        .zip([false, true, true])
        .map(|((reply, version), has_fsync)| (reply, version, has_fsync))
    {
        let figures = figures_of(Word::Mntr, reply);
        assert_eq!(figures.version.as_deref(), Some(version));
        for (name, is_there) in [
            ("watches", figures.watches.is_some()),
            ("ephemerals", figures.ephemerals.is_some()),
            ("data", figures.data_bytes.is_some()),
            (
                "files",
                figures.open_files.is_some() && figures.max_files.is_some(),
            ),
            ("received", figures.received.is_some()),
            ("role", figures.role.is_some()),
        ] {
            assert!(is_there, "{version}: {name}");
        }
        assert_eq!(figures.average_fsync.is_some(), has_fsync, "{version}");
        assert_eq!(figures.max_fsync.is_some(), has_fsync, "{version}");
    }
}

#[test]
fn limits_and_disks_are_read_where_a_release_has_them() {
    for reply in replies!("conf") {
        assert_eq!(
            figures_of(Word::Conf, reply).max_connections_per_host,
            Some(0)
        );
    }
    let [old, middle, new] = replies!("dirs");
    assert_eq!(parse(Word::Dirs, old.as_bytes()), Err(Refusal::UnknownWord));
    for (reply, snapshots, logs) in [(middle, 67_108_880, 457), (new, 1_330, 67_108_880)] {
        let figures = figures_of(Word::Dirs, reply);
        assert_eq!(
            (figures.snapshot_bytes, figures.log_bytes),
            (Some(snapshots), Some(logs))
        );
    }
}

#[test]
fn connections_are_read_from_each_release() {
    for reply in replies!("cons") {
        let Reading::Connections(connections) = parsed(Word::Cons, reply) else {
            panic!("{reply}");
        };
        assert_eq!(connections.len(), 2, "{reply}");
        let with_session: Vec<_> = connections
            .iter()
            .filter(|connection| connection.session.is_some())
            .collect();
        let [connection] = with_session[..] else {
            panic!("{connections:?}");
        };
        assert_eq!(connection.host, "127.0.0.1");
        assert_eq!(connection.timeout, Some(10_000));
        assert_eq!(connection.last_operation.as_deref(), Some("PING"));
        assert!(
            connection.received > 0 && connection.port > 1_024,
            "{connection:?}"
        );
        assert!(
            connection.established > Some(1_700_000_000_000),
            "{connection:?}"
        );
        assert!(
            connection.average_latency <= connection.max_latency,
            "{connection:?}"
        );
    }
}

#[test]
fn watches_and_ephemerals_are_read_from_each_release() {
    for reply in replies!("wchp") {
        let Reading::Watches(watches) = parsed(Word::Wchp, reply) else {
            panic!("{reply}");
        };
        let paths: Vec<_> = watches.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/app", "/app/missing"]);
        assert!(
            watches.values().all(|sessions| sessions.len() == 1),
            "{watches:?}"
        );
    }
    for reply in replies!("dump") {
        let Reading::Ephemerals(ephemerals) = parsed(Word::Dump, reply) else {
            panic!("{reply}");
        };
        let other = |paths: &&Vec<String>| paths.contains(&"/app/other".to_owned());
        let paths = ephemerals.values().find(other).unwrap();
        assert_eq!(paths.len(), 2, "{paths:?}");
        // The list of connections that follows in newer releases is not taken for sessions.
        assert!(!ephemerals.contains_key(&0), "{ephemerals:?}");
    }
}

#[test]
fn a_server_without_watches_has_none() {
    assert_eq!(parsed(Word::Wchp, "\n"), Reading::Watches(BTreeMap::new()));
}

#[test]
fn refusals_are_told_apart() {
    for word in Word::ALL {
        let name = word.as_str();
        let not_listed = format!("{name} is not executed because it is not in the whitelist.\n");
        assert_eq!(
            parse(word, not_listed.as_bytes()),
            Err(Refusal::NotWhitelisted)
        );
        let not_serving = b"This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(parse(word, not_serving), Err(Refusal::NoQuorum));
        assert_eq!(
            parse(word, b"\x15\x03\x01\x00\x02"),
            Err(Refusal::UnknownWord),
            "{name}"
        );
    }
}

#[test]
fn addresses_of_both_families_are_read() {
    for (address, expected) in [
        ("/10.0.0.7:53214", Some(("10.0.0.7", 53_214))),
        ("/[0:0:0:0:0:0:0:1]:5", Some(("0:0:0:0:0:0:0:1", 5))),
        ("/0:0:0:0:0:0:0:1:5", Some(("0:0:0:0:0:0:0:1", 5))),
        ("host.example/10.0.0.7:1", Some(("10.0.0.7", 1))),
        ("10.0.0.7:1", Some(("10.0.0.7", 1))),
        ("10.0.0.7", None),
        ("10.0.0.7:70000", None),
        ("", None),
    ] {
        let expected = expected.map(|(host, port)| (host.to_owned(), port));
        assert_eq!(host_and_port(address), expected, "{address}");
    }
}

#[test]
fn numbers_that_servers_never_print_are_not_read() {
    for text in ["-1", "NaN", "inf", "", "x"] {
        assert_eq!(decimal(text), None, "{text}");
    }
    for text in ["+1f", "", "0x", "-1", "0x1g", "11111111111111111"] {
        assert_eq!(hexadecimal(text), None, "{text}");
    }
    assert_eq!(hexadecimal("0xffffffffffffffff"), Some(u64::MAX));
    assert_eq!(
        (whole("12.0"), whole("-3"), decimal(" 0.25 ")),
        (Some(12), None, Some(0.25))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for word in Word::ALL {
            drop(parse(word, &bytes));
        }
    }

    #[test]
    fn a_damaged_reply_is_parsed_without_a_panic(
        which in 0..15_usize,
        at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let replies = [
            replies!("srvr"), replies!("mntr"), replies!("cons"), replies!("wchp"), replies!("dump"),
        ];
        let mut bytes = replies.concat()[which].as_bytes().to_vec();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(cut.index(bytes.len()) + 1);
        for word in Word::ALL {
            drop(parse(word, &bytes));
        }
    }
}
