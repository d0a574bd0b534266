use std::time::{Duration, Instant};

use proptest::prelude::*;
use tokio::net::TcpListener;

use super::*;
use crate::health::Role;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("fixtures/", $name, ".txt"))
    };
}

/// Texts captured from real servers, each with a session that has an ephemeral node and two watches.
const SRVR: [(&str, Role, &str, u64); 6] = [
    ("3.8.0", Role::Leader, fixture!("srvr-3.8.0-leader"), 1),
    ("3.8.0", Role::Follower, fixture!("srvr-3.8.0-follower"), 1),
    (
        "3.8.0",
        Role::Standalone,
        fixture!("srvr-3.8.0-standalone"),
        0,
    ),
    ("3.9.3", Role::Leader, fixture!("srvr-3.9.3-leader"), 1),
    ("3.9.3", Role::Follower, fixture!("srvr-3.9.3-follower"), 1),
    (
        "3.9.3",
        Role::Standalone,
        fixture!("srvr-3.9.3-standalone"),
        0,
    ),
];

#[test]
fn version_mode_and_epoch_are_read_from_every_role() {
    for (version, mode, text, epoch) in SRVR {
        let srvr: Srvr = text
            .parse()
            .unwrap_or_else(|error| panic!("{version} {mode}: {error}"));
        assert_eq!(srvr.version, version);
        assert_eq!(srvr.mode, mode);
        assert_eq!(srvr.epoch(), epoch, "{version} {mode}");
        let with_unknown_line = format!("{text}Colour: blue\n");
        assert_eq!(with_unknown_line.parse::<Srvr>().unwrap(), srvr);
    }
}

#[test]
fn a_missing_or_malformed_line_is_named() {
    let (_, _, text, _) = SRVR[0];
    for (key, malformed) in [
        ("Zookeeper version", None),
        ("Received", Some("Received: many")),
        ("Received", Some("Received: -1")),
        ("Zxid", Some("Zxid: 0xfog")),
        ("Zxid", Some("Zxid: 0x+1")),
        ("Mode", Some("Mode: chief")),
        ("Mode", None),
    ] {
        let kept: Vec<_> = text.lines().filter(|line| !line.starts_with(key)).collect();
        let text = format!("{}\n{}\n", kept.join("\n"), malformed.unwrap_or_default());
        assert_eq!(
            text.parse::<Srvr>(),
            Err(AdminError::Unexpected {
                word: "srvr",
                line: malformed.unwrap_or_default().to_owned(),
                expected: key,
            })
        );
    }
}

#[test]
fn an_endless_line_is_shortened_in_the_error() {
    let text = "ä".repeat(1 << 20);
    let error = text.parse::<Wchs>().unwrap_err().to_string();
    assert!(error.len() < 600, "{} bytes", error.len());
}

#[test]
fn mntr_has_every_metric_by_its_key() {
    for (version, role, text) in [
        ("3.8.0", "leader", fixture!("mntr-3.8.0-leader")),
        ("3.9.3", "follower", fixture!("mntr-3.9.3-follower")),
    ] {
        let mntr: Mntr = text
            .parse()
            .unwrap_or_else(|error| panic!("{version} {role}: {error}"));
        assert_eq!(mntr.watches(), Some(2), "{version}");
        assert_eq!(mntr.number("zk_ephemerals_count"), Some(3), "{version}");
        assert_eq!(mntr.get("zk_server_state"), Some(role), "{version}");
        assert_eq!(mntr.number::<u64>("zk_version"), None);
        assert_eq!(mntr.get("zk_absent"), None);
    }
}

#[test]
fn mntr_without_version_or_tab_is_refused() {
    for (text, wanted) in [
        ("", "zk_version"),
        ("zk_server_state\tleader\n", "zk_version"),
        ("zk_version 3.9.3\n", "a tab"),
        ("\t3.9.3\n", "a key"),
    ] {
        let error = text.parse::<Mntr>().expect_err(text).to_string();
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
}

#[test]
fn cons_has_the_sessions() {
    for text in [
        fixture!("cons-3.8.0-leader"),
        fixture!("cons-3.8.0-follower"),
        fixture!("cons-3.9.3-leader"),
    ] {
        let cons: Cons = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cons.sessions.len(), 1, "{text}");
    }
    let text = " /[0:0:0:0:0:0:0:1]:53214[1](queued=1,recved=6,sent=5,sid=0xfffffffffffffff1,lop=PING)\n \
                /127.0.0.1:53215[0](queued=0,recved=1,sent=0)\n";
    let cons: Cons = text.parse().unwrap();
    assert_eq!(cons.sessions, [0xffff_ffff_ffff_fff1]);
}

#[test]
fn a_malformed_connection_is_quoted() {
    for line in [
        " /127.0.0.1:1[0](queued=0,recved=1,sent=0",
        " /127.0.0.1:1[0]queued=0,recved=1,sent=0)",
        " /127.0.0.1:1[0](queued=0,recved=1,sent=0,sid=first,lop=NA)",
    ] {
        let error = line.parse::<Cons>().expect_err(line);
        assert!(
            matches!(&error, AdminError::Unexpected { word: "cons", line: found, .. } if found == line),
            "{error:?}"
        );
    }
    assert!(matches!(
        "\n".parse::<Cons>(),
        Err(AdminError::Unexpected { .. })
    ));
}

#[test]
fn wchs_has_three_numbers() {
    for text in [
        fixture!("wchs-3.8.0-leader"),
        fixture!("wchs-3.9.3-leader"),
        fixture!("wchs-3.9.3-standalone"),
    ] {
        assert_eq!(
            text.parse::<Wchs>().unwrap(),
            Wchs {
                connections: 1,
                paths: 2,
                watches: 2
            }
        );
    }
    let many = "12 connections watching 345 paths\nTotal watches:6789\n";
    assert_eq!(
        many.parse::<Wchs>().unwrap(),
        Wchs {
            connections: 12,
            paths: 345,
            watches: 6789
        }
    );
    for text in [
        "",
        "1 connections watching 2 paths\n",
        "x connections watching 2 paths\nTotal watches:2\n",
        "Total watches:2\n",
    ] {
        assert!(
            matches!(
                text.parse::<Wchs>(),
                Err(AdminError::Unexpected { word: "wchs", .. })
            ),
            "{text:?}"
        );
    }
}

#[test]
fn every_word_reports_a_server_without_a_quorum() {
    fn check<T: std::str::FromStr<Err = AdminError>>() -> bool {
        matches!(
            fixture!("not-serving").parse::<T>(),
            Err(AdminError::NotServing)
        )
    }
    assert!(check::<Srvr>() && check::<Mntr>() && check::<Cons>() && check::<Wchs>());
}

#[test]
fn a_word_outside_the_whitelist_gets_the_remedy() {
    fn check<T: std::str::FromStr<Err = AdminError>>() -> Option<String> {
        fixture!("mntr-not-whitelisted")
            .parse::<T>()
            .err()
            .map(|error| error.to_string())
    }
    for error in [
        check::<Srvr>(),
        check::<Mntr>(),
        check::<Cons>(),
        check::<Wchs>(),
    ] {
        let error = error.expect("a refusal");
        assert!(
            error.contains("execute mntr:") && error.contains("4lw.commands.whitelist"),
            "{error}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in ".*") {
        parse_with_all(&text);
    }

    /// Real texts with one piece replaced reach further into the parsers than random text.
    #[test]
    fn no_damaged_answer_makes_a_parser_panic(which in 0..5_usize, from in 0..600_usize, len in 0..40_usize, piece in ".{0,12}") {
        let text = [
            fixture!("srvr-3.9.3-leader"),
            fixture!("cons-3.9.3-leader"),
            fixture!("wchs-3.9.3-leader"),
            fixture!("mntr-3.8.0-leader"),
            fixture!("mntr-not-whitelisted"),
        ][which];
        let from = from.min(text.len());
        let damaged = format!("{}{piece}{}", &text[..from], &text[(from + len).min(text.len())..]);
        parse_with_all(&damaged);
    }

    #[test]
    fn what_a_server_would_print_is_read_back(zxid: u64, count: u64, mode in 0..5_usize) {
        let mode = Role::ALL[mode];
        let text = format!(
            "Zookeeper version: 3.9.3-x, built on a day\nLatency min/avg/max: 0/0.5/1\nReceived: {count}\n\
             Zxid: {zxid:#x}\nMode: {mode}\n"
        );
        let srvr: Srvr = text.parse().expect("a well-formed text");
        prop_assert_eq!((srvr.zxid, srvr.received, srvr.mode), (zxid, count, mode));
        prop_assert_eq!(srvr.epoch(), zxid / (1 << 32));
    }
}

fn parse_with_all(text: &str) {
    drop((text.parse::<Srvr>(), text.parse::<Cons>()));
    drop((text.parse::<Mntr>(), text.parse::<Wchs>()));
}

/// The I/O, against a listener.
mod io {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Accepts one connection, reads four bytes, writes `answer` and closes; returns what it read.
    async fn serve(listener: TcpListener, answer: &[u8]) -> Vec<u8> {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut word = [0; 4];
        stream
            .read_exact(&mut word)
            .await
            .expect("a word of four bytes");
        stream.write_all(answer).await.expect("an open connection");
        word.to_vec()
    }

    async fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("a bound listener");
        (listener, addr)
    }

    #[tokio::test]
    async fn the_word_is_sent_and_the_answer_is_parsed() {
        let (listener, addr) = listen().await;
        let (sent, answer) = tokio::join!(
            serve(listener, fixture!("srvr-3.9.3-leader").as_bytes()),
            srvr(addr, LONG)
        );
        assert_eq!(sent, b"srvr");
        assert_eq!(answer.expect("a well-formed answer").mode, Role::Leader);
    }

    fn problem_at(addr: SocketAddr, error: AdminError) -> String {
        match error {
            AdminError::NoAnswer {
                addr: at, problem, ..
            } if at == addr => problem,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_reported_with_its_address() {
        let (listener, addr) = listen().await;
        drop(listener);
        let error = srvr(addr, LONG).await.expect_err("the port is closed");
        let problem = problem_at(addr, error);
        assert!(problem.contains("refused"), "{problem}");
    }

    #[tokio::test]
    async fn a_silent_server_times_out_at_the_deadline() {
        let (listener, addr) = listen().await;
        let started = Instant::now();
        let error = srvr(addr, Duration::from_millis(50))
            .await
            .expect_err("a listener that accepts nothing");
        drop(listener);
        assert!(started.elapsed() < Duration::from_secs(10));
        assert_eq!(
            problem_at(addr, error),
            "still waiting for the end of the answer after 50ms"
        );
    }

    #[tokio::test]
    async fn an_empty_answer_is_reported_as_no_answer() {
        let (listener, addr) = listen().await;
        let (_, answer) = tokio::join!(serve(listener, b""), four_letter(addr, "srvx", LONG));
        let problem = problem_at(addr, answer.unwrap_err());
        assert!(problem.contains("closed the connection"), "{problem}");
    }

    #[tokio::test]
    async fn invalid_utf8_is_an_unexpected_answer() {
        let (listener, addr) = listen().await;
        let (_, answer) = tokio::join!(serve(listener, &[0xff, 0xfe, 0, 1]), srvr(addr, LONG));
        assert!(
            matches!(answer, Err(AdminError::Unexpected { .. })),
            "{answer:?}"
        );
    }

    #[tokio::test]
    async fn an_invalid_word_is_not_sent() {
        let (listener, addr) = listen().await;
        for word in ["", "srv", "srvrs", "sr r", "äää", "\0\0\0\x08"] {
            let error = four_letter(addr, word, LONG).await.expect_err(word);
            assert!(matches!(error, AdminError::InvalidWord { .. }), "{error:?}");
        }
        let accepted = timeout(Duration::from_millis(20), listener.accept()).await;
        assert!(accepted.is_err(), "a connection was made");
    }
}
