use proptest::prelude::*;

use super::*;

fn reply(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}").into_bytes()
}

fn figures_of(word: Word, body: &str) -> Figures {
    match parse(word, &reply(body)).unwrap() {
        Reading::Figures(figures) => figures,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_command_is_read_from_json() {
    let monitor = figures_of(
        Word::Mntr,
        r#"{"version":"3.9.3-c26634f3, built on 2024-10-17","server_state":"leader","watch_count":7,
            "avg_latency":0.5,"packets_received":12,"max_fsynctime":3,"command":"monitor","error":null}"#,
    );
    assert_eq!(monitor.version.as_deref(), Some("3.9.3"));
    assert_eq!(monitor.role.as_deref(), Some("leader"));
    assert_eq!((monitor.watches, monitor.received), (Some(7), Some(12)));
    assert_eq!(
        (monitor.average_latency, monitor.max_fsync),
        (Some(0.5), Some(3.0))
    );

    let stats = figures_of(
        Word::Srvr,
        r#"{"version":"3.8.0-5a02a05","read_only":false,"node_count":9,
            "server_stats":{"packets_received":4,"max_latency":8,"last_processed_zxid":4294967303,
            "outstanding_requests":1,"server_state":"follower","num_alive_client_connections":2}}"#,
    );
    assert_eq!((stats.zxid, stats.nodes), (Some(0x1_0000_0007), Some(9)));
    assert_eq!((stats.received, stats.max_latency), (Some(4), Some(8.0)));
    assert_eq!((stats.outstanding, stats.connections), (Some(1), Some(2)));
    assert_eq!(stats.role.as_deref(), Some("follower"));

    let conf = figures_of(Word::Conf, r#"{"max_client_cnxns":60}"#);
    assert_eq!(conf.max_connections_per_host, Some(60));
    let dirs = figures_of(Word::Dirs, r#"{"datadir_size":5,"logdir_size":6}"#);
    assert_eq!((dirs.snapshot_bytes, dirs.log_bytes), (Some(5), Some(6)));
}

#[test]
fn lists_of_sessions_are_read_from_json() {
    let connections = parse(
        Word::Cons,
        &reply(
            r#"{"connections":[{"remote_socket_address":"127.0.0.1:5001","outstanding_requests":1,
            "packets_received":9,"session_id":-72057594037927935,"last_operation":"PING","established":1700,
            "session_timeout":10000,"avg_latency":2,"max_latency":5},{"remote_socket_address":7}],
            "secure_connections":[{"remote_socket_address":"/10.0.0.7:5002"}]}"#,
        ),
    );
    let Ok(Reading::Connections(connections)) = connections else {
        panic!("{connections:?}");
    };
    let hosts: Vec<_> = connections
        .iter()
        .map(|connection| {
            (
                connection.host.as_str(),
                connection.port,
                connection.session,
            )
        })
        .collect();
    assert_eq!(
        hosts,
        [
            ("127.0.0.1", 5_001, Some(0xff00_0000_0000_0001)),
            ("10.0.0.7", 5_002, None)
        ]
    );
    assert_eq!(connections[0].timeout, Some(10_000));
    let watches = parse(
        Word::Wchp,
        &reply(r#"{"path_to_session_ids":{"/a":[1,-1]}}"#),
    );
    let expected = BTreeMap::from([("/a".to_owned(), vec![1, u64::MAX])]);
    assert_eq!(watches, Ok(Reading::Watches(expected)));
    let dump = parse(
        Word::Dump,
        &reply(r#"{"session_id_to_ephemeral_paths":{"-1":["/e"],"x":["/f"]}}"#),
    );
    let expected = BTreeMap::from([(u64::MAX, vec!["/e".to_owned()])]);
    assert_eq!(dump, Ok(Reading::Ephemerals(expected)));
}

#[test]
fn refusals_and_other_servers_are_told_apart() {
    for word in Word::ALL {
        let error = r#"{"error":"This ZooKeeper instance is not currently serving requests"}"#;
        assert_eq!(
            parse(word, &reply(error)),
            Err(Refusal::NoQuorum),
            "{word:?}"
        );
        for other in [
            &b"HTTP/1.1 404 Not Found\r\n\r\n{\"version\":\"3.9.6\",\"max_client_cnxns\":1,\
               \"logdir_size\":1,\"connections\":[],\"path_to_session_ids\":{},\
               \"session_id_to_ephemeral_paths\":{}}"[..],
            b"HTTP/1.1 200 OK\r\n\r\n<html>",
            b"HTTP/1.1 200 OK\r\n\r\n{\"error\":\"no\"}",
            b"HTTP/1.1 200 OK\r\n\r\n[]",
            b"SSH-2.0-OpenSSH 200 \r\n\r\n{}",
            b"",
        ] {
            assert_eq!(parse(word, other), Err(Refusal::UnknownWord), "{word:?}");
        }
    }
}

#[test]
fn a_request_names_the_command() {
    let text = request(Word::Mntr, "zk1");
    assert!(
        text.starts_with("GET /commands/monitor HTTP/1.0\r\nHost: zk1\r\n"),
        "{text}"
    );
    assert!(text.ends_with("\r\n\r\n"), "{text}");
}

proptest! {
    #[test]
    fn any_body_is_parsed_without_a_panic(
        key in prop::sample::select(vec![
            "server_stats", "connections", "path_to_session_ids", "session_id_to_ephemeral_paths", "version",
            "max_client_cnxns", "datadir_size", "error",
        ]),
        value in prop::sample::select(vec![
            "null", "[]", "{}", "1", "-1", "1e99", "\"x\"", "[[]]", "[{}]", "{\"\":[null]}", "{\"1\":{}}",
            "[{\"remote_socket_address\":\":\"}]", "{\"last_processed_zxid\":-1}",
        ]),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        for word in Word::ALL {
            drop(parse(word, &reply(&format!("{{\"{key}\":{value}}}"))));
            drop(parse(word, &noise));
        }
    }
}
