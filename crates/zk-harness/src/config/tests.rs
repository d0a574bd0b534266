use super::*;
use crate::spec::{SaslDigest, ServerSpec};

fn plan(servers: u32, logging: Logging) -> Plan {
    let distribution = serde_json::from_value(serde_json::json!({
        "version": "3.9.3",
        "classpath": ["/zk/lib/zookeeper.jar", "/zk/lib/it's.jar"],
        "java": "/usr/bin/java",
        "logging": logging,
        "home": "/zk",
        "source": "explicit",
    }))
    .expect("the fields of a distribution");
    let base = |id: u32| 20_000 + 3 * u16::try_from(id).expect("a small id");
    Plan {
        spec: Spec {
            server: (1..=servers).map(ServerSpec::new).collect(),
            ..Spec::default()
        },
        distribution,
        directory: "/tmp/an ensemble".into(),
        memory_directory: None,
        port_file: None,
        class_data: None,
        clock_library: None,
        containers: None,
        members: (1..=servers)
            .map(|id| Member {
                id,
                client_port: base(id),
                quorum_port: base(id) + 1,
                election_port: base(id) + 2,
                secure_port: None,
                proxy_port: None,
                relays: Vec::new(),
            })
            .collect(),
    }
}

#[test]
fn configuration_has_every_server_and_every_setting() {
    let plan = plan(3, Logging::SlfSimple);
    insta::assert_snapshot!(plan.render_config(&plan.members[1]), @r"
    tickTime=200
    initLimit=50
    syncLimit=10
    dataDir=/tmp/an ensemble/server-2/data
    dataLogDir=/tmp/an ensemble/server-2/txlog
    clientPort=20006
    clientPortAddress=127.0.0.1
    maxClientCnxns=0
    minSessionTimeout=400
    maxSessionTimeout=60000
    4lw.commands.whitelist=*
    admin.enableServer=false
    server.1=127.0.0.1:20004:20005;127.0.0.1:20003
    server.2=127.0.0.1:20007:20008;127.0.0.1:20006
    server.3=127.0.0.1:20010:20011;127.0.0.1:20009
    ");
}

#[test]
fn servers_before_35_have_no_client_port_among_their_addresses() {
    let mut plan = plan(3, Logging::SlfSimple);
    plan.distribution.version = "3.4.13".to_owned();
    let text = plan.render_config(&plan.members[0]);
    assert!(text.contains("server.1=127.0.0.1:20004:20005\n"), "{text}");
}

#[test]
fn a_longer_request_is_a_setting_of_the_jvm_and_needs_a_larger_heap() {
    let mut plan = plan(1, Logging::SlfSimple);
    plan.spec.max_buffer = Some(4 << 20);
    let flags = plan.jvm_flags();
    assert!(flags.ends_with(&["-Djute.maxbuffer=4194304".into(), "-Xmx384m".into()]));
    plan.spec.jvm_flags = Some(vec!["-Xmx1g".into()]);
    let flags = plan.jvm_flags().concat();
    assert!(flags.contains("-Djute.maxbuffer=4194304") && !flags.contains("-Xmx384m"));
}

#[test]
fn settings_are_written_to_the_configuration() {
    let mut plan = plan(1, Logging::SlfSimple);
    plan.spec.four_letter_words = vec!["srvr".into(), "ruok".into()];
    plan.spec.max_client_connections = 7;
    plan.spec
        .properties
        .insert("snapCount".into(), "1000".into());
    plan.memory_directory = Some("/dev/shm/zk".into());
    let text = plan.render_config(&plan.members[0]);
    for line in [
        "4lw.commands.whitelist=srvr,ruok",
        "maxClientCnxns=7",
        "snapCount=1000",
        "dataDir=/dev/shm/zk/server-1/data",
        "dataLogDir=/dev/shm/zk/server-1/txlog",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
    assert!(
        !text.contains("server."),
        "a single server has no peers:\n{text}"
    );
}

#[test]
fn read_only_mode_is_a_flag_and_needs_local_sessions() {
    let mut plan = plan(3, Logging::SlfSimple);
    let rendered = |plan: &Plan| {
        let member = &plan.members[0];
        plan.render_config(member) + &plan.render_start_script(member)
    };
    let settings = [
        "localSessionsEnabled=true",
        "localSessionsUpgradingEnabled=true",
        "-Dreadonlymode.enabled=true",
    ];
    let without = rendered(&plan);
    plan.spec.read_only_mode = true;
    let with = rendered(&plan);
    for setting in settings {
        assert!(with.contains(setting), "{setting} is not in\n{with}");
        assert!(!without.contains(setting), "{setting}");
    }
}

#[test]
fn the_start_script_quotes_special_characters() {
    let plan = plan(3, Logging::SlfSimple);
    insta::assert_snapshot!(plan.render_start_script(&plan.members[0]), @r#"
    #!/bin/sh
    # Starts server 1 of this ensemble in the foreground; Ctrl-C stops it. It logs to server.log.
    set -eu
    # No other user may read what it writes.
    umask 077
    cd '/tmp/an ensemble/server-1'
    if [ -s server.pid ] && grep -qsF -e '-Dzk.harness.ensemble=/tmp/an ensemble/server-1/' "/proc/$(cat server.pid)/cmdline"; then
        echo "server 1 already runs as process $(cat server.pid)" >&2
        exit 1
    fi
    echo $$ > server.pid
    # In the C locale Java cannot open a file whose name is not ASCII.
    export LC_ALL=C.UTF-8
    exec /usr/bin/java \
        -Xshare:auto \
        -XX:TieredStopAtLevel=1 \
        -XX:+UseSerialGC \
        -XX:-UsePerfData \
        -Xss512k \
        -Xmx128m \
        -Dznode.container.checkIntervalMs=1000 \
        -Dzookeeper.extendedTypesEnabled=true \
        '-Dzk.harness.ensemble=/tmp/an ensemble/server-1/' \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=info \
        -Dorg.slf4j.simpleLogger.showDateTime=true \
        '-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'\''T'\''HH:mm:ss.SSS' \
        -cp '/zk/lib/zookeeper.jar:/zk/lib/it'\''s.jar' \
        org.apache.zookeeper.server.quorum.QuorumPeerMain '/tmp/an ensemble/server-1/zoo-1.cfg' >> server.log 2>&1
    "#);
}

#[test]
fn a_release_gets_its_logging_configuration() {
    for (logging, file, flag) in [
        (
            Logging::Logback,
            "logback.xml",
            "-Dlogback.configurationFile=/tmp/an ensemble/server-1/logback.xml",
        ),
        (
            Logging::Log4j1,
            "log4j.properties",
            "-Dlog4j.configuration=file:log4j.properties",
        ),
    ] {
        let plan = plan(1, logging);
        assert_eq!(plan.render_logging().map(|(name, _)| name), Some(file));
        assert!(plan.render_start_script(&plan.members[0]).contains(flag));
    }
    assert_eq!(plan(1, Logging::SlfSimple).render_logging(), None);
}

#[test]
fn properties_are_escaped_for_java() {
    for (text, written) in [
        ("/plain/an ensemble:=#!", "/plain/an ensemble:=#!"),
        (r"a\b\", r"a\\b\\"),
        ("  two", r"\  two"),
        ("/ü/€/😀", r"/\u00fc/\u20ac/\ud83d\ude00"),
        ("", ""),
    ] {
        assert_eq!(property(text), written);
    }
}

#[test]
fn the_shell_reads_quoted_text_unchanged() {
    for text in [
        "plain",
        "",
        "two words",
        "it's",
        "$HOME `x` \\ \"",
        "*;&|<>(){}",
        "-n",
        "line\nbreak",
    ] {
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("printf %s {}", shell_quote(text))])
            .output()
            .expect("the shell runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), text);
    }
}

#[test]
fn a_plan_round_trips_through_json() {
    let plan = plan(3, Logging::SlfSimple);
    let text = serde_json::to_string(&plan).expect("a plan can be written");
    assert_eq!(
        serde_json::from_str::<Plan>(&text).expect("a plan can be read"),
        plan
    );
}

#[test]
fn tls_has_its_port_and_its_files_in_the_configuration() {
    let mut plan = plan(3, Logging::SlfSimple);
    plan.spec.tls = true;
    plan.members[1].secure_port = Some(20_100);
    let text = plan.render_config(&plan.members[1]);
    let secure: Vec<_> = text
        .lines()
        .filter(|line| {
            ["secure", "server", "ssl"]
                .iter()
                .any(|key| line.starts_with(key))
        })
        .filter(|line| !line.starts_with("server."))
        .collect();
    insta::assert_snapshot!(secure.join("\n"), @r"
    secureClientPort=20100
    secureClientPortAddress=127.0.0.1
    serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
    ssl.keyStore.location=/tmp/an ensemble/server-2/certificate.pem
    ssl.keyStore.type=PEM
    ssl.trustStore.location=/tmp/an ensemble/certificates/ca.pem
    ssl.trustStore.type=PEM
    ssl.clientAuth=need
    sslQuorum=true
    ssl.quorum.keyStore.location=/tmp/an ensemble/server-2/peer-certificate.pem
    ssl.quorum.keyStore.type=PEM
    ssl.quorum.trustStore.location=/tmp/an ensemble/certificates/ca.pem
    ssl.quorum.trustStore.type=PEM
    ");
    assert!(plan.ports().contains(&20_100));
}

#[test]
fn sasl_has_its_users_in_a_file_of_their_own() {
    let mut plan = plan(1, Logging::SlfSimple);
    assert_eq!(plan.render_jaas(), None);
    plan.spec.sasl_digest = Some(SaslDigest::new([("alice", "secret"), ("bob", "it's")]));
    insta::assert_snapshot!(plan.render_jaas().unwrap(), @r#"
    Server {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        user_alice="secret"
        user_bob="it's";
    };
    "#);
    let text = plan.render_config(&plan.members[0]);
    for line in [
        "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "fips-mode=false",
        "sessionRequireClientSASLAuth=false",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
    let script = plan.render_start_script(&plan.members[0]);
    assert!(script.contains("-Djava.security.auth.login.config=jaas.conf"));
}
