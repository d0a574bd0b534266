//! What the shell says to input it cannot carry out, no server needed.

#![cfg(test)]

mod damaged_input;
#[cfg(feature = "top")]
mod top;

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs `zk` without input and answers its exit status and what it said, the standard output first.
fn zk(environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_zk"))
        .args(arguments)
        .env_remove("ZK_CONNECT")
        .env_remove("ZK_AUTH")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("zk starts");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!(
        "{out}{err}exit {}",
        output.status.code().expect("it ended by itself")
    )
}

#[test]
fn missing_connect_string_names_three_remedies() {
    let expected = "error: no ensemble to connect to\n\
                    help: give --connect host:port, set ZK_CONNECT, or run `cargo xtask ensemble up`\n\
                    exit 2";
    assert_eq!(zk(&[], &["ls", "/"]), expected);
    assert_eq!(zk(&[("ZK_CONNECT", "")], &["ls", "/"]), expected);
}

#[test]
fn malformed_connect_string_is_quoted_with_the_rule() {
    let expected = "error: host 2 of the connect string, \"b:x\": a port is a number from 1 to 65535\n\
                    help: as in --connect 127.0.0.1:2181,127.0.0.1:2182\n\
                    exit 2";
    assert_eq!(zk(&[], &["--connect", "a:1,b:x", "ls", "/"]), expected);
    assert_eq!(zk(&[("ZK_CONNECT", "a:1,b:x")], &["ls", "/"]), expected);
}

#[test]
fn a_target_is_not_encrypted_only_on_request() {
    let mirror = |variable| {
        let environment = [
            ("ZK_CONNECT", "127.0.0.1:1"),
            ("ZK_TLS_CA", "/none.pem"),
            (variable, ""),
        ];
        let to = "127.0.0.1:1/copy";
        zk(&environment, &["mirror", "--to", to, "/app"])
    };
    assert_eq!(
        mirror("ZK_TO_TLS_CERTIFICATE"),
        "error: the variables for TLS are incomplete\n\
         help: set ZK_TO_TLS_CA, and either both of ZK_TO_TLS_CERTIFICATE and ZK_TO_TLS_KEY or none\n\
         exit 2"
    );
    let dropped = mirror("ZK_TO_TLS_CA");
    let note =
        "note: the connection to the target is not encrypted, because ZK_TO_TLS_CA is empty\n";
    assert!(dropped.starts_with(note), "{dropped}");
}

#[test]
fn acl_of_what_everything_depends_on_is_not_changed_with_all_below() {
    for path in ["/", "/zookeeper", "/zookeeper/config"] {
        let said = zk(
            &[],
            &["--connect", "a:1", "setacl", "-R", path, "world:anyone:r"],
        );
        let problem = format!("error: no ACL is changed: {path} is protected, because ");
        assert!(
            said.contains(&problem) && said.ends_with("exit 2"),
            "{said}"
        );
    }
}

#[test]
fn bad_paths_are_refused_before_connecting() {
    for (path, message) in [
        ("", r#"path is empty; the root is "/""#),
        ("a", r#"path "a" does not start with '/'; write "/a""#),
        ("/a/", r#"path "/a/" ends with '/'; write "/a""#),
        (
            "/a//b",
            r#"path "/a//b" has an empty component at byte 3; write one '/' between names"#,
        ),
        (
            "/a/../b",
            r#"path "/a/../b" has the component ".."; write the path out, without "." and "..""#,
        ),
    ] {
        for command in ["ls", "get", "create", "delete", "deleteall", "stat"] {
            assert_eq!(
                zk(&[("ZK_CONNECT", "127.0.0.1:1")], &[command, path]),
                format!("error: {message}\nexit 2")
            );
        }
    }
}

#[test]
fn bad_arguments_are_usage_errors_that_name_the_argument() {
    for (arguments, part) in [
        (
            &["create", "-t", "soon", "/a"][..],
            "invalid value 'soon' for '-t <TTL>': write a number of milliseconds",
        ),
        (
            &["create", "-t"],
            "a value is required for '-t <TTL>' but none was supplied",
        ),
        (
            &["create", "-e", "-c", "/a"],
            "the argument '-e' cannot be used with '-c'",
        ),
        (
            &["create", "-e", "-t", "5", "/a"],
            "the argument '-e' cannot be used with '-t <TTL>'",
        ),
        (
            &["create", "-s", "-c", "/a"],
            "the argument '-s' cannot be used with '-c'",
        ),
        (
            &["set", "-v", "x", "/a", "d"],
            "invalid value 'x' for '-v <VERSION>'",
        ),
        (
            &["set", "/a"],
            "the following required arguments were not provided:\n  <DATA>",
        ),
        (
            &["get"],
            "the following required arguments were not provided:\n  <PATH>",
        ),
        (&["delete", "-r", "-v", "1", "/a"], "cannot be used with"),
        (
            &["--timeout", "10", "ls"],
            "invalid value '10' for '--timeout <TIME>': a unit is missing; write 10s or 10ms",
        ),
        (
            &["--timeout", "0", "ls"],
            "invalid value '0' for '--timeout <TIME>': it must be longer than zero",
        ),
        (
            &["set", "-v", "-1", "/a", "d"],
            "invalid value '-1' for '-v <VERSION>': -1 is not in 0..=2147483647",
        ),
        (
            &["delete", "-v", "-1", "/a"],
            "invalid value '-1' for '-v <VERSION>': -1 is not in 0..=2147483647",
        ),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
    ] {
        let said = zk(&[("ZK_CONNECT", "127.0.0.1:1")], arguments);
        assert!(
            said.contains(part) && said.ends_with("exit 2"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn malformed_credentials_are_not_repeated() {
    for value in ["hunter2", ":hunter2"] {
        assert_eq!(
            zk(
                &[("ZK_CONNECT", "127.0.0.1:1"), ("ZK_AUTH", value)],
                &["ls"]
            ),
            "error: ZK_AUTH is not user:password\nhelp: write alice:secret, or unset it\nexit 2"
        );
    }
}

#[test]
fn nobody_there_is_said_for_every_server() {
    let said = zk(
        &[],
        &[
            "--connect",
            "127.0.0.1:1,127.0.0.1:2",
            "--timeout",
            "4s",
            "ls",
        ],
    );
    assert_eq!(
        said,
        "error: no server granted a session within 4s: \
         127.0.0.1:1 refused the connection (nothing listens there), \
         127.0.0.1:2 refused the connection (nothing listens there)\n\
         help: start the servers, or correct --connect or ZK_CONNECT\n\
         exit 1"
    );
}

#[test]
fn credentials_in_the_connect_string_are_not_repeated() {
    let said = zk(&[], &["--connect", "user:hunter2@127.0.0.1:1", "ls"]);
    assert!(
        !said.contains("hunter2") && said.ends_with("exit 2"),
        "{said}"
    );
}

#[test]
fn closed_standard_error_does_not_change_the_exit_status() {
    let (reader, writer) = std::io::pipe().expect("a pipe opens");
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_zk"))
        .args(["get", "no-path"])
        .stderr(writer)
        .status()
        .expect("zk starts");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn endless_input_is_refused_before_it_fills_the_memory() {
    for command in ["create", "set"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_zk"))
            .args(["--connect", "127.0.0.1:1", "--timeout", "500ms"])
            .args([command, "/a", "-"])
            .env_remove("ZK_AUTH")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("zk starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // It may have gone before everything is written.
        drop(stdin.write_all(&vec![0; 4 << 20]));
        drop(stdin);
        let output = child.wait_with_output().expect("zk ends");
        assert_eq!(
            (
                String::from_utf8_lossy(&output.stderr).as_ref(),
                output.status.code()
            ),
            (
                "error: standard input goes on beyond 1048575 bytes, the limit of a request\n\
              help: store it in pieces, or elsewhere and its place in the node; if jute.maxbuffer of the servers is \
              higher, set --max-buffer or ZK_MAX_BUFFER to it\n",
                Some(1)
            )
        );
    }
}

#[test]
fn a_lock_is_broken_only_with_a_word() {
    for (arguments, part) in [
        (&["locks"][..], "<PATH>"),
        (&["locks", "--yes", "/a"], "--break"),
        (&["locks", "no-path"], "does not start with '/'"),
    ] {
        let said = zk(&[("ZK_CONNECT", "127.0.0.1:1")], arguments);
        assert!(
            said.contains(part) && said.ends_with("exit 2"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn a_release_is_two_numbers() {
    for release in ["3", "3.x", "3.4.13", "-1.4", ""] {
        let arguments = ["--assume-release", release, "ls", "/"];
        let said = zk(&[("ZK_CONNECT", "127.0.0.1:1")], &arguments);
        assert!(said.ends_with("exit 2"), "{release}: {said}");
        let variables = [
            ("ZK_CONNECT", "127.0.0.1:1"),
            ("ZK_ASSUME_RELEASE", release),
        ];
        let said = zk(&variables, &["ls", "/"]);
        let rule = "it must be two numbers, as in 3.4";
        assert!(
            said.contains(rule) && said.ends_with("exit 2"),
            "{release}: {said}"
        );
    }
}

#[test]
fn what_the_ensemble_needs_is_never_deleted_as_a_subtree() {
    for (chroot, path) in [
        ("", "/"),
        ("", "/zookeeper"),
        ("", "/zookeeper/quota"),
        ("/app", "/"),
        ("/zookeeper", "/quota"),
    ] {
        let connect = format!("127.0.0.1:1{chroot}");
        for arguments in [
            &["rm", "-r", "--yes"][..],
            &["deleteall"],
            &["delete", "-r"],
        ] {
            let arguments = [arguments, &[path]].concat();
            let said = zk(&[("ZK_CONNECT", &connect)], &arguments);
            assert!(
                said.contains(" is not deleted: ") && said.ends_with("exit 2"),
                "{chroot} {arguments:?}: {said}"
            );
        }
    }
}

#[test]
fn failures_are_documents_when_json_is_asked_for() {
    let connect = &[("ZK_CONNECT", "127.0.0.1:1")][..];
    for (environment, arguments, error, help) in [
        (
            &[][..],
            &["--json", "ls"][..],
            "no ensemble to connect to",
            "\"give --connect",
        ),
        (
            connect,
            &["get", "--json", "a"],
            r#"path \"a\" does not start"#,
            "null",
        ),
        (
            connect,
            &["frobnicate", "--json"],
            "error: unrecognized subcommand",
            "\"see `zk --help`",
        ),
    ] {
        let said = zk(environment, arguments);
        assert!(
            said.starts_with(&format!("{{\"error\":\"{error}")),
            "{said}"
        );
        assert!(said.contains(&format!("\"help\":{help}")), "{said}");
        assert!(said.ends_with(",\"kind\":null}\nexit 2"), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}
