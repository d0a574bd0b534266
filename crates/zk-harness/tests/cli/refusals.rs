//! Tests that invalid input is an error with the value and the remedy.

use crate::support::EnsembleDir;

#[test]
fn invalid_settings_are_reported() {
    let dir = EnsembleDir::new();
    insta::assert_snapshot!(
        dir.fails(&["up", "--servers", "0"]),
        @"error: servers = 0: must be 1 to 254"
    );
    insta::assert_snapshot!(
        dir.fails(&["up", "--servers", "255"]),
        @"error: servers = 255: must be 1 to 254"
    );
    insta::assert_snapshot!(
        dir.fails(&["up", "--zookeeper", "3"]),
        @r#"
    starting 3 servers
    error: zookeeper = "3": must be a version like 3.9 or 3.9.6, or a directory (./3 if its name looks like a version)
    "#
    );
    assert!(!dir.ensembles().exists(), "something was left behind");
}

#[test]
fn an_invalid_file_is_reported_with_the_line() {
    let dir = EnsembleDir::new();
    let error = |text: &str| {
        let file = dir.file("ensemble.toml", text);
        dir.fails(&["up", "--config", file.to_str().unwrap()])
            .replace(file.to_str().unwrap(), "ensemble.toml")
    };
    insta::assert_snapshot!(error("[[server]]\nid = 0\n"), @"error: server[0].id = 0: must be 1 to 254");
    insta::assert_snapshot!(
        error("[[server]]\nid = 1\n[[server]]\nid = 1\n"),
        @"error: server[1].id = 1: another server has the same id"
    );
    insta::assert_snapshot!(error("sync_limit = 0\n"), @"error: sync_limit = 0: must be at least 1 tick");
    let text = error("servers = 3\nsize = 4\n");
    assert!(
        text.starts_with(
            "error: ensemble.toml is not valid\n  because: line 2 = `size = 4`: unknown field"
        ),
        "{text}"
    );
    insta::assert_snapshot!(
        error("directory = \"x\"\n"),
        @"error: directory: not supported, because a named ensemble is stored in --dir; omit the setting"
    );
    let missing = dir.fails(&["up", "--config", "no-such-file"]);
    insta::assert_snapshot!(missing, @r"
    error: cannot read no-such-file
      because: No such file or directory (os error 2)
    ");
}

#[test]
fn missing_ensembles_and_servers_are_reported() {
    let dir = EnsembleDir::new();
    for command in [
        &["down"][..],
        &["status"],
        &["kill", "1"],
        &["logs"],
        &["env"],
    ] {
        assert_eq!(
            dir.fails(command),
            "error: there is no ensemble named default; start it with `up`\n"
        );
    }
    assert!(!dir.ensembles().exists(), "something was left behind");
    let up = ["up", "--servers", "1", "--data", "memory", "--name", "mine"];
    dir.ok(&[&up[..], &["--max-buffer", "2097152"]].concat());
    let env = dir.ok(&["env", "--name", "mine"]);
    assert!(env.contains("export ZK_MAX_BUFFER=2097152\n"), "{env}");
    insta::assert_snapshot!(
        dir.fails(&["status"]),
        @"error: there is no ensemble named default; existing ensembles: mine; start it with `up --name default`"
    );
    insta::assert_snapshot!(
        dir.fails(&["kill", "2", "--name", "mine"]),
        @"error: there is no server 2; this ensemble has server 1 only"
    );
    insta::assert_snapshot!(
        dir.fails(&["up", "--name", "mine", "--servers", "3", "--data", "disk"]),
        @"error: the ensemble mine already exists with other settings: it has 1 server, its data is in memory; take it down first, or choose another --name"
    );
    insta::assert_snapshot!(
        dir.fails(&["up", "--name", "mine", "--max-buffer", "4194304"]),
        @"error: the ensemble mine already exists with other settings: its servers accept requests of 2097152 bytes; take it down first, or choose another --name"
    );
}

#[test]
fn invalid_arguments_are_usage_errors() {
    let dir = EnsembleDir::new();
    for (command, expected) in [
        (
            &["kill", "boss"][..],
            "use an id, `leader`, `follower` or `all`",
        ),
        (&["up", "--name", "a/b"], "use 1 to 64 letters, digits"),
        (&["up", "--servers", "three"], "invalid digit"),
        (&["up", "--data", "tape"], "[possible values: memory, disk]"),
        (&["explode"], "unrecognized subcommand 'explode'"),
    ] {
        let printed = dir.run(command);
        assert_eq!(printed.code, Some(2), "{printed:?}");
        assert!(printed.err.contains(expected), "{printed:?}");
    }
}

#[test]
fn a_single_server_gives_a_warning() {
    let dir = EnsembleDir::new();
    let printed = dir.run(&["up", "--servers", "1", "--data", "memory"]);
    insta::assert_snapshot!(printed.err, @r"
    note: 1 server tolerates no failure; 3 tolerate the loss of 1
    starting 1 server
    ");
}

#[cfg(feature = "containers")]
#[test]
fn up_without_a_container_engine_reports_the_remedy() {
    let dir = EnsembleDir::new();
    let up = dir
        .command(&["up", "--backend", "containers", "--servers", "1"])
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&up.stderr);
    assert_eq!(up.status.code(), Some(1), "{error}");
    assert!(
        error.contains("a server in a container is not possible here: ")
            && error.contains("start a container engine, and set DOCKER_HOST"),
        "{error}"
    );
    assert!(!dir.ensembles().exists(), "something was left behind");
}
