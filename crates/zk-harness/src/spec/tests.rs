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

#[test]
fn an_invalid_value_is_reported_with_field_and_rule() {
    insta::assert_snapshot!(refused(|s| s.servers = 0), @"servers = 0: must be 1 to 254");
    insta::assert_snapshot!(refused(|s| s.servers = 255), @"servers = 255: must be 1 to 254");
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(1), ServerSpec::new(0)]),
        @"server[1].id = 0: must be 1 to 254"
    );
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(255)]),
        @"server[0].id = 255: must be 1 to 254"
    );
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(7), ServerSpec::new(8), ServerSpec::new(7)]),
        @"server[2].id = 7: another server has the same id"
    );
    insta::assert_snapshot!(
        refused(|s| s.server = vec![ServerSpec::new(1).with_client_port(0)]),
        @"server[0].client_port = 0: must be 1 to 65535; omit it for a free port"
    );
    insta::assert_snapshot!(
        refused(|s| {
            let (quorum_port, election_port) = (Some(2888), Some(2888));
            let first = ServerSpec { quorum_port, ..ServerSpec::new(1) };
            s.server = vec![first, ServerSpec { election_port, ..ServerSpec::new(2) }];
        }),
        @"server[1].election_port = 2888: server[0].quorum_port has the same port"
    );
    insta::assert_snapshot!(
        refused(|s| s.init_limit = 0),
        @"init_limit = 0: must be at least 1 tick"
    );
    insta::assert_snapshot!(
        refused(|s| s.sync_limit = 0),
        @"sync_limit = 0: must be at least 1 tick"
    );
    insta::assert_snapshot!(
        refused(|s| s.tick_time = Duration::ZERO),
        @"tick_time = 0s: must be a whole number of milliseconds, at least 1 ms and below 25 days"
    );
    insta::assert_snapshot!(
        refused(|s| s.container_check_interval = Duration::from_micros(1500)),
        @"container_check_interval = 1ms 500us: must be a whole number of milliseconds, at least 1 ms and below 25 days"
    );
    insta::assert_snapshot!(
        refused(|s| s.max_session_timeout = Duration::from_millis(300)),
        @"max_session_timeout = 300ms: must be at least min_session_timeout, which is 400ms"
    );
    insta::assert_snapshot!(
        refused(|s| s.four_letter_words = vec!["ruok".into()]),
        @r#"four_letter_words = ["ruok"]: must contain "srvr" or "*", because the harness sends `srvr`"#
    );
    insta::assert_snapshot!(
        refused(|s| s.four_letter_words = vec!["srvr".into(), "status".into()]),
        @r#"four_letter_words = "status": must be four lowercase letters, or "*" for all"#
    );
    insta::assert_snapshot!(
        refused(|s| { s.properties.insert("tickTime".into(), "5".into()); }),
        @r#"properties.tickTime = "5": the harness sets this key itself; use the setting of the harness"#
    );
    insta::assert_snapshot!(
        refused(|s| { s.properties.insert("server.9".into(), "x:1:2".into()); }),
        @r#"properties.server.9 = "x:1:2": the harness sets this key itself; use the setting of the harness"#
    );
    insta::assert_snapshot!(
        refused(|s| { s.properties.insert("a".into(), "b\nc=d".into()); }),
        @r#"properties.a = "b\nc=d": must be one line: a key of letters, digits, `.`, `_` and `-`, and a value without control characters"#
    );
    insta::assert_snapshot!(
        refused(|s| s.sasl_digest = Some(SaslDigest::default())),
        @"sasl_digest.users = {}: must have a user"
    );
    insta::assert_snapshot!(
        refused(|s| s.sasl_digest = Some(SaslDigest::new([("a b", "x")]))),
        @r#"sasl_digest.users = "a b": must be letters, digits and `_`"#
    );
    insta::assert_snapshot!(
        refused(|s| s.sasl_digest = Some(SaslDigest::new([("a", "x\"y")]))),
        @r#"sasl_digest.users.a = (secret): the password must be visible ASCII characters other than `"` and `\`"#
    );
    // Each of them would start another line or another key.
    for (key, value) in [
        ("a", "b\rc=d"),
        ("a:b", ""),
        ("a\tb", ""),
        ("!a", ""),
        ("a\\", ""),
        ("", "b"),
    ] {
        let message = refused(|s| drop(s.properties.insert(key.into(), value.into())));
        assert!(message.contains("must be one line"), "{message}");
    }
}

#[test]
fn no_message_and_no_debug_output_contains_a_password() {
    let wrong = "users = { alice = \"secret\", bob = 3 }";
    insta::assert_snapshot!(
        parse_error(&format!("servers = 3\n[sasl_digest]\n{wrong}\n")),
        @"line 3 = (secret): invalid type: integer `3`, expected a string"
    );
    insta::assert_snapshot!(
        parse_error(&format!("sasl_digest = {{ {wrong} }}\n")),
        @"line 1 = (secret): invalid type: integer `3`, expected a string"
    );
    let spec = Spec {
        sasl_digest: Some(SaslDigest::new([("alice", "secret")])),
        ..Spec::default()
    };
    let printed = format!("{spec:?}");
    assert!(
        printed.contains("alice") && !printed.contains("secret"),
        "{printed}"
    );
}

#[test]
fn an_unknown_key_or_a_wrong_type_is_reported_with_its_line() {
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
        max_buffer = 4194304
        container_check_interval = "2s"
        extended_types = false
        read_only_mode = true
        four_letter_words = ["srvr", "ruok"]
        data = "memory"
        directory = "here"
        zookeeper = "3.8"
        java = "/opt/java/bin/java"
        jvm_flags = ["-Xmx64m"]
        start_timeout = "20s"
        movable_clock = true
        tls = true
        superuser = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

        [[server]]
        id = 4
        client_port = 1
        quorum_port = 2
        election_port = 3

        [sasl_digest]
        users = { alice = "secret" }
        required = true

        [properties]
        snapCount = "1000"
    "#;
    let expected = Spec {
        servers: 5,
        server: vec![ServerSpec {
            id: 4,
            client_port: Some(1),
            quorum_port: Some(2),
            election_port: Some(3),
        }],
        tick_time: Duration::from_millis(500),
        init_limit: 7,
        sync_limit: 3,
        min_session_timeout: Some(Duration::from_secs(1)),
        max_session_timeout: Duration::from_secs(30),
        max_client_connections: 60,
        max_buffer: Some(4_194_304),
        container_check_interval: Duration::from_secs(2),
        extended_types: false,
        read_only_mode: true,
        four_letter_words: vec!["srvr".into(), "ruok".into()],
        data: DataStore::Memory,
        directory: Some("here".into()),
        zookeeper: Some("3.8".into()),
        java: Some("/opt/java/bin/java".into()),
        jvm_flags: Some(vec!["-Xmx64m".into()]),
        start_timeout: Duration::from_secs(20),
        movable_clock: true,
        tls: true,
        superuser: Some(superuser_digest("secret")),
        sasl_digest: Some(SaslDigest::new([("alice", "secret")]).required()),
        properties: [("snapCount".to_owned(), "1000".to_owned())].into(),
    };
    assert_eq!(Spec::from_toml(text), Ok(expected.clone()));
    assert_eq!(
        Spec::from_toml(&toml::to_string(&expected).unwrap()),
        Ok(expected)
    );
}

#[test]
fn single_and_even_numbers_of_servers_give_a_warning() {
    for servers in 1..=254 {
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
        @"1 server tolerates no failure; 3 tolerate the loss of 1"
    );
    insta::assert_snapshot!(
        Warning::Even { servers: 4 },
        @"4 servers tolerate the loss of 1, as 3 do; use an odd number"
    );
}

#[cfg(feature = "tls")]
#[test]
fn keys_for_tls_are_refused_only_with_certificates() {
    let mut spec = Spec::default();
    spec.properties
        .insert("secureClientPort".into(), "2281".into());
    assert!(spec.validate().is_ok());
    spec.tls = true;
    let refused = spec.validate().expect_err("the harness sets this key");
    assert_eq!(refused.field, "properties.secureClientPort");
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_its_feature_is_refused() {
    insta::assert_snapshot!(
        refused(|s| s.tls = true),
        @"tls = true: this program was built without the feature `tls` of zk-harness; enable it"
    );
}
