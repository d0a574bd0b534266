use std::time::Duration;
use std::time::Instant;

use proptest::prelude::*;
use tokio::net::TcpListener;

use super::*;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("fixtures/", $name, ".txt"))
    };
}

/// Texts captured from real servers, one session with an ephemeral node and two watches on each.
const SRVR: [(&str, Mode, &str, u64); 6] = [
    ("3.8.0", Mode::Leader, fixture!("srvr-3.8.0-leader"), 1),
    ("3.8.0", Mode::Follower, fixture!("srvr-3.8.0-follower"), 1),
    (
        "3.8.0",
        Mode::Standalone,
        fixture!("srvr-3.8.0-standalone"),
        0,
    ),
    ("3.9.3", Mode::Leader, fixture!("srvr-3.9.3-leader"), 1),
    ("3.9.3", Mode::Follower, fixture!("srvr-3.9.3-follower"), 1),
    (
        "3.9.3",
        Mode::Standalone,
        fixture!("srvr-3.9.3-standalone"),
        0,
    ),
];

mod srvr_text {
    use super::*;

    // covers: H2
    #[test]
    fn version_mode_and_epoch_are_read_from_every_role() {
        for (version, mode, text, epoch) in SRVR {
            let srvr: Srvr = text
                .parse()
                .unwrap_or_else(|error| panic!("{version} {mode}: {error}"));
            assert_eq!(srvr.version, version);
            assert!(srvr.build.contains(", built on "), "{}", srvr.build);
            assert_eq!(srvr.mode, mode);
            assert_eq!(srvr.epoch(), epoch, "{version} {mode}");
            assert_eq!(
                srvr.connections, 2,
                "{version} {mode}: one session and the asker"
            );
            assert_eq!(
                srvr.proposal_sizes.is_some(),
                mode == Mode::Leader,
                "{version} {mode}"
            );
        }
    }

    #[test]
    fn every_field_of_a_leader_is_read() {
        let srvr: Srvr = "Zookeeper version: 3.9.3-c26634f3, built on 2024-10-17 23:21 UTC\n\
             Latency min/avg/max: 1/2.3333/5\nReceived: 9\nSent: 8\nConnections: 2\nOutstanding: 3\n\
             Zxid: 0x700000006\nMode: leader\nNode count: 11\nProposal sizes last/min/max: 90/-1/96\n"
            .parse()
            .unwrap();
        let expected = Srvr {
            version: "3.9.3".to_owned(),
            build: "3.9.3-c26634f3, built on 2024-10-17 23:21 UTC".to_owned(),
            latency: Latency {
                min: 1,
                avg: 2.3333,
                max: 5,
            },
            received: 9,
            sent: 8,
            connections: 2,
            outstanding: 3,
            zxid: 0x7_0000_0006,
            mode: Mode::Leader,
            node_count: 11,
            proposal_sizes: Some(ProposalSizes {
                last: 90,
                min: -1,
                max: 96,
            }),
        };
        assert_eq!(srvr, expected);
        assert_eq!(srvr.epoch(), 7);
    }

    #[test]
    fn a_count_of_requests_below_zero_counts_as_none() {
        let (_, _, text, _) = SRVR[0];
        let mut lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("Outstanding"))
            .collect();
        lines.push("Outstanding: -1\n");
        let srvr: Srvr = lines.join("\n").parse().unwrap();
        assert_eq!(srvr.outstanding, 0);
    }

    #[test]
    fn unknown_lines_are_skipped() {
        let (_, _, text, _) = SRVR[0];
        let text = format!("{text}Colour: blue\n");
        assert!(text.parse::<Srvr>().is_ok());
    }

    #[test]
    fn a_missing_line_is_named() {
        let (_, _, text, _) = SRVR[0];
        for key in [
            "Zookeeper version",
            "Latency",
            "Received",
            "Sent",
            "Connections",
            "Outstanding",
            "Zxid",
            "Mode",
            "Node count",
        ] {
            let kept: Vec<_> = text.lines().filter(|line| !line.starts_with(key)).collect();
            let cut = kept.join("\n");
            let error = cut
                .parse::<Srvr>()
                .expect_err("a line is missing")
                .to_string();
            assert!(
                error.contains(key) && error.contains("srvr"),
                "{key}: {error}"
            );
        }
    }

    #[test]
    fn a_malformed_line_is_quoted_with_what_it_should_be() {
        let (_, _, text, _) = SRVR[0];
        for (line, wanted) in [
            ("Latency min/avg/max: 1/2", "0/0.5/3"),
            ("Latency min/avg/max: 1/2/3/4", "0/0.5/3"),
            ("Received: many", "a number"),
            ("Received: -1", "a number"),
            ("Zxid: 0xfog", "hexadecimal"),
            ("Zxid: 0x+1", "hexadecimal"),
            ("Mode: chief", "leader, follower"),
            ("Proposal sizes last/min/max: 1", "90/48/90"),
            ("nothing of the kind", "key: value"),
        ] {
            let error = format!("{text}{line}\n").parse::<Srvr>().expect_err(line);
            assert!(
                matches!(&error, AdminError::Unexpected { line: found, .. } if found == line),
                "{error:?}"
            );
            assert!(error.to_string().contains(wanted), "{line}: {error}");
        }
    }

    #[test]
    fn an_endless_line_is_shortened_in_the_error() {
        let error = "ä"
            .repeat(1 << 20)
            .parse::<Srvr>()
            .expect_err("no colon")
            .to_string();
        assert!(error.len() < 600, "{} bytes", error.len());
    }
}

#[test]
fn modes_are_printed_as_the_server_prints_them() {
    for mode in [
        Mode::Leader,
        Mode::Follower,
        Mode::Observer,
        Mode::Standalone,
        Mode::ReadOnly,
    ] {
        assert_eq!(mode.to_string().parse::<Mode>().unwrap(), mode);
    }
    assert_eq!(Mode::ReadOnly.to_string(), "read-only");
    assert_eq!(format!("{:<9}|", Mode::Leader), "leader   |");
}

// covers: H2
#[test]
fn mntr_of_every_role_has_the_usual_keys() {
    for (mode, version, text) in [
        (Mode::Leader, "3.8.0", fixture!("mntr-3.8.0-leader")),
        (Mode::Follower, "3.8.0", fixture!("mntr-3.8.0-follower")),
        (Mode::Standalone, "3.8.0", fixture!("mntr-3.8.0-standalone")),
        (Mode::Leader, "3.9.3", fixture!("mntr-3.9.3-leader")),
        (Mode::Follower, "3.9.3", fixture!("mntr-3.9.3-follower")),
        (Mode::Standalone, "3.9.3", fixture!("mntr-3.9.3-standalone")),
    ] {
        let mntr: Mntr = text
            .parse()
            .unwrap_or_else(|error| panic!("{version} {mode}: {error}"));
        assert_eq!((mntr.mode(), mntr.version()), (mode, version));
        let ephemerals = if mode == Mode::Standalone { 1 } else { 3 };
        assert_eq!(mntr.ephemerals(), Some(ephemerals), "{version} {mode}");
        assert_eq!(mntr.node_count(), Some(5 + ephemerals), "{version} {mode}");
        assert_eq!(mntr.watches(), Some(2), "{version} {mode}");
        assert_eq!(mntr.sessions(), Some(ephemerals), "{version} {mode}");
        assert_eq!(mntr.connections(), Some(2), "{version} {mode}");
        assert_eq!(mntr.outstanding(), Some(0), "{version} {mode}");
        assert_eq!(mntr.received(), mntr.number("zk_packets_received"));
        for metric in [
            mntr.received(),
            mntr.sent(),
            mntr.data_size(),
            mntr.open_files(),
            mntr.max_latency(),
        ] {
            assert!(
                metric.is_some_and(|value| value > 0),
                "{version} {mode}: {metric:?}"
            );
        }
        assert!(
            mntr.avg_latency().is_some_and(|latency| latency > 0.0),
            "{version} {mode}"
        );
        assert!(
            mntr.uptime()
                .is_some_and(|uptime| uptime > Duration::from_secs(1)),
            "{version} {mode}"
        );
        let leads = (mode == Mode::Leader).then_some(2);
        assert_eq!(
            (mntr.learners(), mntr.synced_followers()),
            (leads, leads),
            "{version} {mode}"
        );
    }
}

#[test]
fn mntr_keeps_every_metric() {
    let text = fixture!("mntr-3.9.3-leader");
    let mntr: Mntr = text.parse().unwrap();
    assert_eq!(mntr.metrics().len(), text.lines().count());
    assert_eq!(mntr.peer_state(), Some("leading - broadcast"));
    assert_eq!(mntr.get("zk_quorum_size"), Some("3"));
    assert_eq!(mntr.number::<u64>("zk_version"), None);
    assert_eq!(mntr.get("zk_absent"), None);
}

#[test]
fn mntr_without_role_version_or_tab_is_refused() {
    for (text, wanted) in [
        ("", "zk_version"),
        ("zk_version\t3.9.3\n", "zk_server_state"),
        ("zk_server_state\tleader\n", "zk_version"),
        (
            "zk_version\t3.9.3\nzk_server_state\tchief\n",
            "leader, follower",
        ),
        ("zk_version 3.9.3\n", "a tab"),
        ("\t3.9.3\n", "a key"),
    ] {
        let error = text.parse::<Mntr>().expect_err(text).to_string();
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
}

#[test]
fn stat_has_the_server_and_its_clients() {
    for (mode, text) in [
        (Mode::Follower, fixture!("stat-3.8.0-follower")),
        (Mode::Leader, fixture!("stat-3.9.3-leader")),
        (Mode::Standalone, fixture!("stat-3.9.3-standalone")),
    ] {
        let stat: Stat = text
            .parse()
            .unwrap_or_else(|error| panic!("{mode}: {error}"));
        assert_eq!(stat.server.mode, mode);
        assert_eq!(stat.clients.len(), 2, "{mode}");
        assert!(
            stat.clients.iter().all(|client| client.session.is_none()),
            "{mode}"
        );
        assert!(
            stat.clients
                .iter()
                .any(|client| client.received == 6 && client.sent == 6),
            "{mode}"
        );
    }
}

#[test]
fn cons_tells_the_sessions() {
    for text in [
        fixture!("cons-3.8.0-leader"),
        fixture!("cons-3.8.0-follower"),
        fixture!("cons-3.9.3-leader"),
    ] {
        let cons: Cons = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cons.connections.len(), 2);
        assert!(cons.connections.iter().all(|client| {
            client
                .peer_addr()
                .is_some_and(|addr| addr.ip().is_loopback())
        }));
        let sessions: Vec<_> = cons
            .connections
            .iter()
            .filter_map(|client| client.session.as_ref())
            .collect();
        let [session] = sessions[..] else {
            panic!("one session is expected: {sessions:?}")
        };
        assert_eq!(session.timeout, Duration::from_secs(10));
        assert_eq!(session.last_operation, "GETC");
        assert_eq!(session.last_cxid, Some(5));
        assert_eq!(session.last_zxid.map(|zxid| zxid >> 32), Some(1));
    }
}

#[test]
fn every_field_of_a_connection_is_read() {
    let text = " /[0:0:0:0:0:0:0:1]:53214[1](queued=1,recved=6,sent=5,sid=0xfffffffffffffff1,lop=PING,est=1795271545360,\
                to=4000,lcxid=0xfffffffffffffffe,lzxid=0xffffffffffffffff,lresp=6257753,llat=1,minlat=2,avglat=3,maxlat=4)\n";
    let cons: Cons = text.parse().unwrap();
    let expected = ConnectionInfo {
        peer: "[0:0:0:0:0:0:0:1]:53214".to_owned(),
        queued: 1,
        received: 6,
        sent: 5,
        session: Some(ConnectionSession {
            id: 0xffff_ffff_ffff_fff1,
            last_operation: "PING".to_owned(),
            established: 1_795_271_545_360,
            timeout: Duration::from_secs(4),
            last_cxid: Some(0xffff_ffff_ffff_fffe),
            last_zxid: None,
            last_latency: 1,
            min_latency: 2,
            avg_latency: 3,
            max_latency: 4,
        }),
    };
    assert_eq!(cons.connections, [expected]);
    assert_eq!(
        cons.connections[0].peer_addr(),
        Some("[::1]:53214".parse().unwrap())
    );
}

#[test]
fn a_malformed_connection_is_quoted() {
    for line in [
        " /127.0.0.1:1[0](queued=0,recved=1,sent=0",
        " /127.0.0.1:1[0]queued=0,recved=1,sent=0)",
        " /127.0.0.1:1(queued=0,recved=1,sent=0)",
        " 127.0.0.1:1[0](queued=0,recved=1,sent=0)",
        " /127.0.0.1:1[0](recved=1,sent=0)",
        " /127.0.0.1:1[0](queued=0,recved=one,sent=0)",
        " /127.0.0.1:1[0](queued=0,recved=1,sent=0,sid=0x1)",
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
fn wchs_is_three_numbers() {
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
fn ruok_is_imok_and_nothing_else() {
    assert_eq!(fixture!("ruok").parse::<Ruok>().unwrap(), Ruok);
    assert!(matches!(
        "imo".parse::<Ruok>(),
        Err(AdminError::Unexpected { word: "ruok", .. })
    ));
}

// covers: H2
#[test]
fn a_server_without_a_quorum_is_not_serving_in_every_word() {
    fn check<T: std::str::FromStr<Err = AdminError>>() -> bool {
        matches!(
            fixture!("not-serving").parse::<T>(),
            Err(AdminError::NotServing)
        )
    }
    assert!(
        check::<Srvr>() && check::<Mntr>() && check::<Stat>() && check::<Cons>() && check::<Wchs>()
    );
}

#[test]
fn a_word_outside_the_whitelist_is_named_with_the_remedy() {
    fn check<T: std::str::FromStr<Err = AdminError>>() -> Option<String> {
        fixture!("mntr-not-whitelisted")
            .parse::<T>()
            .err()
            .map(|error| error.to_string())
    }
    for error in [
        check::<Srvr>(),
        check::<Mntr>(),
        check::<Stat>(),
        check::<Cons>(),
        check::<Wchs>(),
        check::<Ruok>(),
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

    /// Real texts with one piece replaced reach further into the parsers than noise does.
    #[test]
    fn no_damaged_answer_makes_a_parser_panic(which in 0..6_usize, from in 0..600_usize, len in 0..40_usize, piece in ".{0,12}") {
        let text = [
            fixture!("srvr-3.9.3-leader"),
            fixture!("stat-3.9.3-leader"),
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
    fn what_a_server_would_print_is_read_back(min: u64, max: u64, zxid: u64, count: u64, last: i64) {
        let text = format!(
            "Zookeeper version: 3.9.3-x, built on a day\nLatency min/avg/max: {min}/0.5/{max}\nReceived: {count}\n\
             Sent: 0\nConnections: 1\nOutstanding: 0\nZxid: {zxid:#x}\nMode: observer\nNode count: {count}\n\
             Proposal sizes last/min/max: {last}/{last}/{last}\n"
        );
        let srvr: Srvr = text.parse().expect("a well-formed text");
        prop_assert_eq!((srvr.latency.min, srvr.latency.max, srvr.zxid, srvr.received), (min, max, zxid, count));
        prop_assert_eq!(srvr.epoch(), zxid / (1 << 32));
        prop_assert_eq!(srvr.proposal_sizes, Some(ProposalSizes { last, min: last, max: last }));
    }
}

fn parse_with_all(text: &str) {
    drop((
        text.parse::<Srvr>(),
        text.parse::<Stat>(),
        text.parse::<Cons>(),
    ));
    drop((
        text.parse::<Mntr>(),
        text.parse::<Wchs>(),
        text.parse::<Ruok>(),
        text.parse::<Mode>(),
    ));
}

/// The I/O part, against a listener that plays one server.
mod asking {
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
    async fn the_word_is_sent_and_the_answer_parsed() {
        let (listener, addr) = listen().await;
        let (sent, answer) = tokio::join!(
            serve(listener, fixture!("srvr-3.9.3-leader").as_bytes()),
            srvr(addr, LONG)
        );
        assert_eq!(sent, b"srvr");
        assert_eq!(answer.expect("a well-formed answer").mode, Mode::Leader);
    }

    #[tokio::test]
    async fn each_word_asks_for_its_own_text() {
        macro_rules! asks {
            ($($word:ident = $text:literal),+) => {$({
                let (listener, addr) = listen().await;
                let (sent, answer) = tokio::join!(serve(listener, fixture!($text).as_bytes()), $word(addr, LONG));
                assert_eq!(sent, stringify!($word).as_bytes());
                assert!(answer.is_ok(), "{answer:?}");
            })+};
        }
        asks!(
            mntr = "mntr-3.8.0-leader",
            stat = "stat-3.9.3-leader",
            cons = "cons-3.9.3-leader"
        );
        asks!(wchs = "wchs-3.9.3-leader", ruok = "ruok");
    }

    #[tokio::test]
    async fn a_closed_port_is_refused_with_the_address() {
        let (listener, addr) = listen().await;
        drop(listener);
        let error = srvr(addr, LONG).await.expect_err("nobody listens");
        assert!(matches!(error, AdminError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_silent_server_is_given_up_at_the_deadline() {
        let (listener, addr) = listen().await;
        let started = Instant::now();
        let error = srvr(addr, Duration::from_millis(50))
            .await
            .expect_err("a listener that accepts nothing");
        drop(listener);
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(matches!(error, AdminError::TimedOut { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains(&addr.to_string()) && text.contains("the end of the answer"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn an_empty_answer_is_an_error_of_its_own() {
        let (listener, addr) = listen().await;
        let (_, answer) = tokio::join!(serve(listener, b""), four_letter(addr, "srvx", LONG));
        assert!(
            matches!(&answer, Err(AdminError::NoAnswer { word, .. }) if word == "srvx"),
            "{answer:?}"
        );
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_unexpected_not_fatal() {
        let (listener, addr) = listen().await;
        let (_, answer) = tokio::join!(serve(listener, &[0xff, 0xfe, 0, 1]), srvr(addr, LONG));
        assert!(
            matches!(answer, Err(AdminError::Unexpected { .. })),
            "{answer:?}"
        );
    }

    #[tokio::test]
    async fn a_word_that_is_none_never_reaches_the_network() {
        let (listener, addr) = listen().await;
        for word in ["", "srv", "srvrs", "sr r", "äää", "\0\0\0\x08"] {
            let error = four_letter(addr, word, LONG).await.expect_err(word);
            assert!(matches!(error, AdminError::InvalidWord { .. }), "{error:?}");
        }
        let accepted = timeout(Duration::from_millis(20), listener.accept()).await;
        assert!(accepted.is_err(), "a connection was made");
    }
}
