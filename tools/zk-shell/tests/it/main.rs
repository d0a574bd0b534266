//! The shell against a real server.

#![cfg(test)]

mod config;
mod crawling;
mod failover;
mod interop;
mod large_values;
mod locks;
mod recipes;
mod scripts;
mod secure;
mod shell;
mod signals;
mod subtree;
mod terminal;
#[cfg(feature = "top")]
mod top;

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use zk_harness::{DataStore, Ensemble};

const MAX_WAIT: Duration = Duration::from_secs(60);

/// Starts one server, runs the test with its connect string and takes it down.
async fn with_ensemble(test: impl AsyncFnOnce(&str)) {
    let ensemble = Ensemble::builder()
        .servers(1)
        .start()
        .await
        .expect("a server starts");
    test(&ensemble.connect_string()).await;
    ensemble.down().await.expect("the server goes down");
}

/// Starts this many servers with their data in memory.
async fn in_memory(servers: usize) -> Ensemble {
    Ensemble::builder()
        .servers(servers)
        .data(DataStore::Memory)
        .start()
        .await
        .expect("the servers start")
}

fn command(connect: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk"));
    command
        .args(arguments)
        .env("ZK_CONNECT", connect)
        .env_remove("ZK_AUTH")
        .kill_on_drop(true);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Feeds `input` to the command and waits for its end.
async fn finish(mut command: Command, input: &[u8]) -> Output {
    let ended = tokio::time::timeout(MAX_WAIT, async {
        let mut child = command.spawn().expect("zk starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A command that does not read its input has gone before it is written.
        drop(stdin.write_all(input).await);
        drop(stdin);
        child.wait_with_output().await.expect("zk ends")
    });
    ended.await.expect("zk ends within a minute")
}

/// What a command said, standard output first, and its exit status.
async fn zk(connect: &str, arguments: &[&str]) -> String {
    let output = finish(command(connect, arguments), b"").await;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!(
        "{out}{err}exit {}",
        output.status.code().expect("it ended by itself")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_print_what_the_original_shell_prints() {
    with_ensemble(async |connect| {
        for (arguments, expected) in [
            (&["create", "/m", "hello"][..], "Created /m\nexit 0"),
            (&["get", "/m"], "hello\nexit 0"),
            (&["get", "--raw", "/m"], "helloexit 0"),
            (
                &["create", "-s", "/m/s-", "1"],
                "Created /m/s-0000000000\nexit 0",
            ),
            (&["create", "-p", "/m/b/c", "-5"], "Created /m/b/c\nexit 0"),
            (&["get", "/m/b/c"], "-5\nexit 0"),
            (&["create", "-c", "/m/a"], "Created /m/a\nexit 0"),
            (&["create", "-t", "3600000", "/m/t"], "Created /m/t\nexit 0"),
            (&["ls", "/m"], "[a, b, s-0000000000, t]\nexit 0"),
            (
                &["ls", "-R", "/m"],
                "/m\n/m/a\n/m/b\n/m/b/c\n/m/s-0000000000\n/m/t\nexit 0",
            ),
            (&["ls", "/m/a"], "[]\nexit 0"),
            (&["set", "/m", "bye"], "exit 0"),
            (&["set", "-v", "1", "/m", "again"], "exit 0"),
            (&["get", "/m"], "again\nexit 0"),
            (&["delete", "-v", "0", "/m/t"], "exit 0"),
            (&["deleteall", "/m/b"], "exit 0"),
            (&["delete", "-r", "/m"], "exit 0"),
            (&["ls"], "[zookeeper]\nexit 0"),
        ] {
            assert_eq!(zk(connect, arguments).await, expected, "{arguments:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_documents_when_json_is_asked_for() {
    with_ensemble(async |connect| {
        let json = async |arguments: &[&str], input: &[u8]| {
            let mut all = vec!["--json"];
            all.extend(arguments);
            let output = finish(command(connect, &all), input).await;
            let said = [output.stdout, output.stderr].concat();
            serde_json::from_slice::<serde_json::Value>(&said).expect("one document")
        };
        let created = json(&["create", "/j", "text"], b"").await;
        assert_eq!(created["path"], "/j");
        assert_eq!(created["stat"]["data_length"], 4);
        let got = json(&["get", "/j"], b"").await;
        assert_eq!([&got["data"], &got["encoding"]], ["text", "utf8"]);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, b"\xff\x00").expect("it is written");
        let name = file.path().to_str().expect("a path in UTF-8");
        let set = json(&["set", "/j", "--file", name], b"").await;
        assert_eq!(set["stat"]["version"], 1);
        assert_eq!(set["stat"]["czxid"], created["stat"]["czxid"]);
        let got = json(&["get", "/j"], b"").await;
        assert_eq!([&got["data"], &got["encoding"]], ["/wA=", "base64"]);
        let stat = json(&["stat", "/j"], b"").await;
        assert_eq!(stat["stat"], got["stat"]);
        let sequential = json(&["create", "-s", "/j/s-", "-"], b"one").await;
        assert_eq!(sequential["path"], "/j/s-0000000000");
        let listed = json(&["ls", "/j"], b"").await;
        assert_eq!(listed["children"], serde_json::json!(["s-0000000000"]));
        let refused = json(&["delete", "/j"], b"").await;
        assert_eq!(
            [&refused["kind"], &refused["exit"]],
            [&serde_json::json!("NotEmpty"), &serde_json::json!(1)]
        );
        let deleted = json(&["deleteall", "/j"], b"").await;
        assert_eq!(deleted, serde_json::json!({"path": "/j"}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_what_would_be_right() {
    with_ensemble(async |connect| {
        assert_eq!(zk(connect, &["create", "-p", "/m/x", "d"]).await, "Created /m/x\nexit 0");
        for (arguments, expected) in [
            (&["get", "/no"][..], "error: get /no: the node does not exist\n"),
            (&["stat", "/no"], "error: stat /no: the node does not exist\n"),
            (&["ls", "/no"], "error: list /no: the node does not exist\n"),
            (&["set", "/no", "x"], "error: set /no: the node does not exist\n"),
            (&["delete", "/no"], "error: delete /no: the node does not exist\n"),
            (&["deleteall", "/no"], "error: delete /no: the node does not exist\n"),
            (
                &["create", "/no/x"],
                "error: create /no/x: the parent node does not exist\nhelp: add -p to create the parents too\n",
            ),
            (
                &["create", "/m"],
                "error: create /m: the node already exists\n\
                 help: use `zk set` to change its data, or add -s for a numbered name\n",
            ),
            (
                &["delete", "/m"],
                "error: delete /m: the node has children\n\
                 help: use `zk deleteall` to delete everything below it too\n",
            ),
            (
                &["set", "-v", "9", "/m", "x"],
                "error: set /m: the node has another version\n\
                 help: `zk stat` prints the version it has, as dataVersion\n",
            ),
            (&["delete", "/"], "error: delete /: not possible (the root cannot be deleted)\n"),
        ] {
            assert_eq!(zk(connect, arguments).await, format!("{expected}exit 1"), "{arguments:?}");
        }
        assert_eq!(
            zk(&format!("{connect}/nowhere"), &["ls"]).await,
            "error: the chroot /nowhere does not exist; connect without it and create it first\nexit 1"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stat_has_the_eleven_lines_of_the_original() {
    with_ensemble(async |connect| {
        zk(connect, &["create", "/m", "hello"]).await;
        let stat = zk(connect, &["stat", "/m"]).await;
        let lines: Vec<_> = stat.lines().collect();
        let names: Vec<_> = lines
            .iter()
            .filter_map(|line| Some(line.split_once(" = ")?.0))
            .collect();
        assert_eq!(
            names,
            [
                "cZxid",
                "ctime",
                "mZxid",
                "mtime",
                "pZxid",
                "cversion",
                "dataVersion",
                "aclVersion",
                "ephemeralOwner",
                "dataLength",
                "numChildren"
            ]
        );
        let rest = &lines[5..];
        assert_eq!(
            rest,
            [
                "cversion = 0",
                "dataVersion = 0",
                "aclVersion = 0",
                "ephemeralOwner = 0x0",
                "dataLength = 5",
                "numChildren = 0",
                "exit 0"
            ]
        );
        assert!(lines[0].starts_with("cZxid = 0x"), "{stat}");
        let date: Vec<_> = lines[1].split_whitespace().collect();
        assert!(
            date.len() == 8 && date[6] == "UTC" && date[5].len() == 8,
            "{date:?}"
        );
        let body = stat.trim_end_matches("exit 0");
        assert_eq!(
            zk(connect, &["get", "-s", "/m"]).await,
            format!("hello\n{body}exit 0")
        );
        assert_eq!(
            zk(connect, &["ls", "-s", "/m"]).await,
            format!("[]\n{body}exit 0")
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_through_unchanged() {
    with_ensemble(async |connect| {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let created = finish(command(connect, &["create", "/raw", "-"]), &bytes).await;
        assert!(created.status.success(), "{created:?}");
        let read = finish(command(connect, &["get", "--raw", "/raw"]), b"").await;
        assert!(
            read.stdout == bytes,
            "{} bytes came back",
            read.stdout.len()
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_from_the_environment() {
    with_ensemble(async |connect| {
        let alice = async |arguments: &[&str]| {
            let mut command = command(connect, arguments);
            command.env("ZK_AUTH", "alice:hunter2");
            let output = finish(command, b"").await;
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        let builder = zk_core::Session::builder(connect).digest_auth("alice", "hunter2");
        let session = builder.connect().await.unwrap();
        session
            .create("/private", "data")
            .acl(zk_core::Acl::creator_only())
            .await
            .unwrap();
        assert_eq!(alice(&["get", "/private"]).await, b"data\n");
        assert_eq!(
            zk(connect, &["get", "/private"]).await,
            "error: get /private: not permitted; it needs READ on the node\n\
             help: put the credentials into the environment: ZK_AUTH=user:password\n\
             exit 1"
        );
    })
    .await;
}

/// Starts `create -e` and waits until it says that the node is there.
async fn holder(connect: &str, path: &str) -> Child {
    let mut child = command(connect, &["create", "-e", path])
        .spawn()
        .expect("zk starts");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
    let line = tokio::time::timeout(MAX_WAIT, lines.next_line());
    let line = line.await.expect("zk answers within a minute").unwrap();
    assert_eq!(line, Some(format!("Created {path}")));
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_node_lives_until_the_input_ends_or_a_signal_comes() {
    with_ensemble(async |connect| {
        for signal in [None, Some("TERM"), Some("INT"), Some("HUP")] {
            let mut child = holder(connect, "/held").await;
            assert_eq!(zk(connect, &["ls"]).await, "[held, zookeeper]\nexit 0", "{signal:?}");
            let open_input = child.stdin.take();
            match signal {
                None => drop(open_input),
                Some(signal) => {
                    let pid = child.id().expect("it runs").to_string();
                    let kill = Command::new("sh").args(["-c", "kill -s $0 $1", signal, &pid]).status().await.unwrap();
                    assert!(kill.success());
                    // The input stays open meanwhile.
                    let ended = tokio::time::timeout(MAX_WAIT, child.wait()).await;
                    drop(open_input);
                    assert!(ended.expect("the signal ends it within a minute").unwrap().success(), "{signal:?}");
                }
            }
            let output = tokio::time::timeout(MAX_WAIT, child.wait_with_output()).await;
            let output = output.expect("it ends within a minute").unwrap();
            assert!(output.status.success(), "{signal:?}: {output:?}");
            assert_eq!(
                String::from_utf8_lossy(&output.stderr),
                "note: the node is ephemeral: keeping its session until Ctrl-C, SIGTERM or the end of standard input\n"
            );
            assert_eq!(zk(connect, &["ls"]).await, "[zookeeper]\nexit 0", "{signal:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn reader_that_has_gone_is_not_an_error_worth_a_line() {
    with_ensemble(async |connect| {
        let (reader, writer) = std::io::pipe().expect("a pipe opens");
        drop(reader);
        let mut listing = command(connect, &["ls", "/"]);
        listing.stdout(writer);
        let output = finish(listing, b"").await;
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(1), b"".as_slice())
        );
    })
    .await;
}

#[tokio::test]
async fn ephemeral_node_lives_on_when_nobody_reads_standard_error() {
    with_ensemble(async |connect| {
        let (reader, writer) = std::io::pipe().expect("a pipe opens");
        drop(reader);
        let mut creation = command(connect, &["create", "-e", "/held"]);
        creation.stderr(writer);
        let output = finish(creation, b"").await;
        assert_eq!(output.status.code(), Some(0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_rules_are_given_and_printed_as_in_the_original_shell() {
    with_ensemble(async |connect| {
        let rules = "world:anyone:cr,ip:127.0.0.1:cdrwa";
        for (arguments, expected) in [
            (&["create", "/m", "data", rules][..], "Created /m\nexit 0"),
            (&["getAcl", "/m"], "world:anyone:cr\nip:127.0.0.1:cdrwa\nexit 0"),
            (&["create", "/m/x", "data", "world:anyone:x"], "error: the entry \"world:anyone:x\": 'x' is no permission; write letters of cdrwa\nhelp: as in world:anyone:r, auth::cdrwa or digest:user:HASH:cdrwa\nexit 2"),
            (&["setAcl", "/m", "world:anyone:cdrwa"], "exit 0"),
        ] {
            assert_eq!(zk(connect, arguments).await, expected, "{arguments:?}");
        }
        let stat = zk(connect, &["stat", "/m"]).await;
        assert!(stat.contains("aclVersion = 1\n"), "{stat}");
        assert_eq!(
            zk(connect, &["getacl", "-s", "/m"]).await,
            format!("world:anyone:cdrwa\n{stat}")
        );
        let changed = zk(connect, &["setacl", "-s", "/m", "world:anyone:cdrwa"]).await;
        assert_eq!(changed, stat.replace("aclVersion = 1", "aclVersion = 2"));
    })
    .await;
}
