use super::*;

fn refused(change: impl FnOnce(&mut Spec)) -> String {
    let mut spec = Spec::default();
    change(&mut spec);
    spec.validate()
        .expect_err("the setting was accepted")
        .to_string()
}

fn parse_error(text: &str) -> String {
    Spec::from_toml(text)
        .expect_err("the text was accepted")
        .to_string()
}

// covers: H1
#[test]
fn default_is_valid_and_has_three_servers() {
    let spec = Spec::default();
    assert_eq!(spec.validate(), Ok(vec![]));
    assert_eq!(
        spec.server_specs()
            .iter()
            .map(|server| server.id)
            .collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(spec.min_session_timeout(), Duration::from_millis(400));
}

// covers: H1
#[test]
fn every_bad_value_names_field_value_and_rule() {
    insta::assert_snapshot!(refused(|s| s.servers = 0), @"servers = 0: an ensemble has 1 to 255 servers");
    insta::assert_snapshot!(refused(|s| s.servers = 256), @"servers = 256: an ensemble has 1 to 255 servers");
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(1), ServerSpec::new(0)]),
        @"server[1].id = 0: a server id is between 1 and 255"
    );
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(256)]),
        @"server[0].id = 256: a server id is between 1 and 255"
    );
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(7), ServerSpec::new(8), ServerSpec::new(7)]),
        @"server[2].id = 7: a server id is used once"
    );
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(1).with_client_port(0)]),
        @"server[0].client_port = 0: a port is between 1 and 65535; leave it out for a free one"
    );
    insta::assert_snapshot!(
        refused(|s| {
            s.server = vec![ServerSpec::new(1).with_quorum_port(2888), ServerSpec::new(2).with_election_port(2888)];
        }),
        @"server[1].election_port = 2888: a port is used once; server[0].quorum_port has it"
    );
    insta::assert_snapshot!(
        refused(|s| s.init_limit = 0),
        @"init_limit = 0: the limit is a number of ticks, at least 1"
    );
    insta::assert_snapshot!(
        refused(|s| s.sync_limit = 0),
        @"sync_limit = 0: the limit is a number of ticks, at least 1"
    );
    insta::assert_snapshot!(
        refused(|s| s.tick_time = Duration::ZERO),
        @"tick_time = 0s: a whole number of milliseconds, at least 1 ms and below 25 days"
    );
    insta::assert_snapshot!(
        refused(|s| s.container_check_interval = Duration::from_micros(1500)),
        @"container_check_interval = 1ms 500us: a whole number of milliseconds, at least 1 ms and below 25 days"
    );
    insta::assert_snapshot!(
        refused(|s| s.max_session_timeout = Duration::from_millis(300)),
        @"max_session_timeout = 300ms: it is at least min_session_timeout, which is 400ms"
    );
    insta::assert_snapshot!(
        refused(|s| s.four_letter_words = vec!["ruok".into()]),
        @r#"four_letter_words = ["ruok"]: the harness asks servers with `srvr`, so the list has "srvr" or "*""#
    );
    insta::assert_snapshot!(
        refused(|s| s.four_letter_words = vec!["srvr".into(), "status".into()]),
        @r#"four_letter_words = "status": a word is four small letters, or "*" for all"#
    );
    insta::assert_snapshot!(
        refused(|s| { s.properties.insert("tickTime".into(), "5".into()); }),
        @r#"properties.tickTime = "5": the harness writes this key itself; use its own setting"#
    );
    insta::assert_snapshot!(
        refused(|s| { s.properties.insert("server.9".into(), "x:1:2".into()); }),
        @r#"properties.server.9 = "x:1:2": the harness writes this key itself; use its own setting"#
    );
    insta::assert_snapshot!(
        refused(|s| { s.properties.insert("a".into(), "b\nc=d".into()); }),
        @r#"properties.a = "b\nc=d": a property is one line: a key of letters, digits, `.`, `_` and `-`, and a value without control characters"#
    );
    // Each of them would begin another line, or another key.
    for (key, value) in [
        ("a", "b\rc=d"),
        ("a:b", ""),
        ("a\tb", ""),
        ("!a", ""),
        ("a\\", ""),
        ("", "b"),
    ] {
        let said = refused(|s| drop(s.properties.insert(key.into(), value.into())));
        assert!(said.contains("a property is one line"), "{said}");
    }
}

// covers: H1
#[test]
fn unknown_key_and_wrong_type_name_their_line() {
    let message = parse_error("servers = 3\nticktime = \"2s\"\n");
    assert!(
        message
            .starts_with("line 2 = `ticktime = \"2s\"`: unknown field `ticktime`, expected one of"),
        "{message}"
    );
    insta::assert_snapshot!(
        parse_error("init_limit = \"many\"\n"),
        @r#"line 1 = `init_limit = "many"`: invalid type: string "many", expected u32"#
    );
    let message = parse_error("tick_time = 200\n");
    assert!(
        message.starts_with("line 1 = `tick_time = 200`: invalid type: integer `200`, expected"),
        "{message}"
    );
    let message = parse_error("[[server]]\nid = 1\nport = 2181\n");
    assert!(
        message.starts_with("line 3 = `port = 2181`: unknown field `port`, expected one of `id`"),
        "{message}"
    );
    let message = parse_error("data = \"tape\"\n");
    assert!(
        message.contains("unknown variant `tape`, expected `memory` or `disk`"),
        "{message}"
    );
}

// covers: H1
#[test]
fn every_field_can_be_set_from_the_file() {
    let text = r#"
        servers = 5
        tick_time = "500ms"
        init_limit = 7
        sync_limit = 3
        min_session_timeout = "1s"
        max_session_timeout = "30s"
        max_client_connections = 60
        container_check_interval = "2s"
        extended_types = false
        four_letter_words = ["srvr", "ruok"]
        data = "memory"
        directory = "here"
        zookeeper = "3.8"
        java = "/opt/java/bin/java"
        jvm_flags = ["-Xmx64m"]
        start_timeout = "20s"
        movable_clock = true

        [[server]]
        id = 4
        client_port = 1
        quorum_port = 2
        election_port = 3

        [properties]
        snapCount = "1000"
    "#;
    let expected = Spec {
        servers: 5,
        server: vec![
            ServerSpec::new(4)
                .with_client_port(1)
                .with_quorum_port(2)
                .with_election_port(3),
        ],
        tick_time: Duration::from_millis(500),
        init_limit: 7,
        sync_limit: 3,
        min_session_timeout: Some(Duration::from_secs(1)),
        max_session_timeout: Duration::from_secs(30),
        max_client_connections: 60,
        container_check_interval: Duration::from_secs(2),
        extended_types: false,
        four_letter_words: vec!["srvr".into(), "ruok".into()],
        data: DataStore::Memory,
        directory: Some("here".into()),
        zookeeper: Some("3.8".into()),
        java: Some("/opt/java/bin/java".into()),
        jvm_flags: Some(vec!["-Xmx64m".into()]),
        start_timeout: Duration::from_secs(20),
        movable_clock: true,
        properties: [("snapCount".to_owned(), "1000".to_owned())].into(),
    };
    assert_eq!(Spec::from_toml(text), Ok(expected.clone()));
    // And what is written is read back the same.
    assert_eq!(
        Spec::from_toml(&toml::to_string(&expected).unwrap()),
        Ok(expected)
    );
}

// covers: H2
#[test]
fn sizes_that_tolerate_no_more_than_a_smaller_one_are_warned_of() {
    for servers in 1..=255 {
        let spec = Spec {
            servers,
            ..Spec::default()
        };
        let warnings = spec.validate().expect("the size is allowed");
        let expected = match servers {
            1 => vec![Warning::Single],
            servers if servers % 2 == 0 => vec![Warning::Even { servers }],
            _ => vec![],
        };
        assert_eq!(warnings, expected);
    }
    insta::assert_snapshot!(
        Warning::Single,
        @"1 server tolerates no failure: when it stops, the service stops; 3 tolerate the loss of 1"
    );
    insta::assert_snapshot!(
        Warning::Even { servers: 4 },
        @"4 servers tolerate the loss of 1, no more than 3 would; use an odd number"
    );
}
