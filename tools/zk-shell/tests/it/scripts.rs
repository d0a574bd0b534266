//! Several commands from a file, data from files, and results for programs.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use zk_core::Session;
use zk_harness::Ensemble;

use crate::{MAX_WAIT, command, finish, with_ensemble, zk};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_commands_runs_in_one_session_up_to_a_failure() {
    with_ensemble(async |connect| {
        let script = "# made by a test\n\
                      create /s 'first value'\n\
                      \n\
                      cd s\n\
                      create -e held   # lives as long as the script\n\
                      ls\n\
                      get .\n\
                      delete nothing\n\
                      create never\n";
        let output = finish(command(connect, &["run", "-"]), script.as_bytes()).await;
        let (out, err) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert_eq!(out, "Created /s\nCreated /s/held\n[held]\nfirst value\n");
        assert_eq!(
            err,
            "error: standard input, line 8: delete /s/nothing: the node does not exist\n"
        );
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(zk(connect, &["ls", "/s"]).await, "[]\nexit 0");

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            &file,
            "delete /no\nset /s\nquit now\ncreate /t\nquit\ncreate /never\n",
        )
        .unwrap();
        let name = file.path().to_str().unwrap();
        let said = zk(connect, &["run", "--keep-going", name]).await;
        assert!(said.starts_with("Created /t\n"), "{said}");
        for part in [
            format!("error: {name}, line 1: delete /no: the node does not exist\n"),
            format!("error: {name}, line 2: the following required arguments"),
            format!("error: {name}, line 3: unexpected argument 'now'"),
            "error: 3 of 4 commands failed\nexit 1".to_owned(),
        ] {
            assert!(said.contains(&part), "{part} is not in {said}");
        }
        assert_eq!(zk(connect, &["ls"]).await, "[s, t, zookeeper]\nexit 0");
        // A wrong line is a usage error if the script stops there.
        std::fs::write(&file, "ls /s\nset /s\n").unwrap();
        let said = zk(connect, &["run", name]).await;
        assert!(
            said.starts_with("[]\nerror: ") && said.ends_with("exit 2"),
            "{said}"
        );
        std::fs::write(&file, format!("run {name}\n")).unwrap();
        let said = zk(connect, &["run", name]).await;
        assert!(said.contains("cannot run another"), "{said}");
        for script in ["set /s -\n", "import - /x\n"] {
            let output = finish(command(connect, &["run", "-"]), script.as_bytes()).await;
            let err = String::from_utf8(output.stderr).unwrap();
            assert!(err.contains("standard input was read already"), "{err}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_print_a_document_for_each_result() {
    with_ensemble(async |connect| {
        let script = "create /j 'a\"b'\nget /j\n--timeout 5s ls /\ngetacl /j\nget /no\n";
        let output = finish(command(connect, &["--json", "run", "-"]), script.as_bytes()).await;
        let out = String::from_utf8(output.stdout).unwrap();
        let documents: Vec<Value> = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(documents.len(), 4, "{out}");
        assert_eq!(documents[1]["data"], "a\"b");
        assert_eq!(documents[2]["children"], json!(["j", "zookeeper"]));
        assert_eq!(
            documents[3]["acl"],
            json!([{"scheme": "world", "id": "anyone", "permissions": "cdrwa"}])
        );
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(
            error["error"],
            "standard input, line 5: get /no: the node does not exist"
        );
        assert_eq!(
            (&error["kind"], &error["exit"]),
            (&json!("NoNode"), &json!(1))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_applied_whole_or_says_what_was_refused() {
    with_ensemble(async |connect| {
        let said = zk(
            connect,
            &[
                "txn",
                "create /t 'x y'",
                "create -s /t/n- 1",
                "set -v 0 /t z",
                "check -v 1 /t",
            ],
        )
        .await;
        assert_eq!(
            said,
            "Created /t\nCreated /t/n-0000000000\nSet /t, version 1\nChecked /t\nexit 0"
        );
        let said = zk(
            connect,
            &["txn", "set /t lost", "delete -v 7 /t/n-0000000000"],
        )
        .await;
        assert!(
            said.starts_with(
                "error: operation 2 of 2, `delete -v 7 /t/n-0000000000`: \
                 transaction /t/n-0000000000: the node has another version"
            ),
            "{said}"
        );
        assert!(
            said.contains("help: nothing was changed") && said.ends_with("exit 1"),
            "{said}"
        );
        assert_eq!(zk(connect, &["get", "/t"]).await, "z\nexit 0");
        let said = zk(connect, &["txn", "check /t", "move /t /u"]).await;
        assert!(
            said.starts_with("error: operation 2, `move /t /u`: unrecognized")
                && said.ends_with("exit 2"),
            "{said}"
        );
        let lines = "# both or none\ndelete /t/n-0000000000\n\ndelete /t\n";
        let output = finish(
            command(connect, &["--json", "txn", "--file", "-"]),
            lines.as_bytes(),
        )
        .await;
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            document["results"],
            json!([
                {"operation": "delete", "path": "/t/n-0000000000"},
                {"operation": "delete", "path": "/t"},
            ])
        );
        // Its session is kept, as that of `create -e`.
        assert_eq!(
            zk(connect, &["txn", "create /t", "create -e /t/held"]).await,
            "Created /t\nCreated /t/held\nnote: the node is ephemeral: \
             keeping its session until Ctrl-C, SIGTERM or the end of standard input\nexit 0"
        );
        let script = b"txn 'create -e /t/held'\nls /t\ndelete /t/held\ndelete /t\n";
        let output = finish(command(connect, &["run", "-"]), script).await;
        assert_eq!(output.stdout, b"Created /t/held\n[held]\n", "{output:?}");
        assert_eq!(zk(connect, &["ls"]).await, "[zookeeper]\nexit 0");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_commands_whose_session_is_lost_fails() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = "create -e /held\nwatch /held --for 1m\ncreate /next\ncreate /after\n";
    std::fs::write(&file, script).unwrap();
    let name = file.path().to_str().unwrap();
    let mut run = command(&connect, &["run", "--keep-going", name])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let watching = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("watching /held") {
                break;
            }
        }
    };
    let watching = tokio::time::timeout(MAX_WAIT, watching).await;
    watching.expect("it watches within a minute");
    let session = Session::builder(&connect).connect().await.unwrap();
    let owner = session
        .stat("/held")
        .await
        .unwrap()
        .ephemeral_owner
        .unwrap();
    ensemble.expire(owner.as_i64()).await.unwrap();
    let output = tokio::time::timeout(MAX_WAIT, run.wait_with_output()).await;
    let output = output.expect("it ends within a minute").unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    for part in [
        format!("error: {name}, line 2: "),
        format!(
            "error: {name}, line 3: session {owner} of this file is over, and its ephemeral nodes with it\n"
        ),
        "error: 2 of 4 commands failed\n".to_owned(),
    ] {
        assert!(err.contains(&part), "{part} is not in {err}");
    }
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(session.exists("/next").await.unwrap(), None);
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}
