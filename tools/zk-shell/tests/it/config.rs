//! Configuration as the terminal publishes, compares and follows it.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use zk_core::Session;

use crate::{MAX_WAIT, command, finish, with_ensemble, zk};

/// The revision in what was printed.
fn revision(said: &str) -> String {
    let word = said.split_whitespace().find(|word| word.starts_with("0x"));
    word.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn document_is_put_compared_followed_and_rolled_back() {
    with_ensemble(async |connect| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pool.toml");
        let name = file.to_str().unwrap();
        let write = |text: &str| std::fs::write(&file, text).unwrap();

        write("size = 1 # small\n");
        let put = zk(connect, &["config", "put", "/app/pool", name]).await;
        assert!(
            put.starts_with("Created /app/pool, version 0, revision 0x"),
            "{put}"
        );
        let first = revision(&put);
        let same = zk(connect, &["config", "put", "/app/pool", name]).await;
        assert!(
            same.starts_with("Unchanged: /app/pool, version 0"),
            "{same}"
        );
        // As it is, with its comments.
        assert_eq!(
            zk(connect, &["config", "get", "/app/pool"]).await,
            "size = 1 # small\nexit 0"
        );
        assert_eq!(
            zk(connect, &["config", "diff", "/app/pool", name]).await,
            "exit 0"
        );

        let mut following = command(connect, &["config", "follow", "/app/pool"])
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
        let mut line = async || {
            let line = tokio::time::timeout(MAX_WAIT, lines.next_line()).await;
            line.expect("it prints within a minute").unwrap().unwrap()
        };
        assert!(
            line()
                .await
                .contains("/app/pool is there: version 0, revision 0x")
        );
        while line().await != "+size = 1 # small" {}

        assert_eq!(
            zk(connect, &["config", "history", "/app/pool"]).await,
            "note: /app/pool has no history: no put or rollback has replaced anything there\nexit 0"
        );
        write("size = 2\n");
        let diff = zk(connect, &["config", "diff", "/app/pool", name]).await;
        assert_eq!(
            diff,
            format!("--- /app/pool\n+++ {name}\n@@ -1 +1 @@\n-size = 1 # small\n+size = 2\nexit 1")
        );
        let stale = zk(
            connect,
            &["config", "put", "--expecting", "0x7", "/app/pool", name],
        )
        .await;
        assert!(
            stale.ends_with("`zk config diff` shows what\nexit 1"),
            "{stale}"
        );
        let put = zk(
            connect,
            &["config", "put", "--expecting", &first, "/app/pool", name],
        )
        .await;
        assert!(put.starts_with("Replaced /app/pool, version 1"), "{put}");
        assert!(line().await.contains("/app/pool changed: version 1"));
        while line().await != "+size = 2" {}

        write("size = = 3\n");
        assert_eq!(
            zk(connect, &["config", "put", "/app/pool", name]).await,
            format!(
                "error: {name}:1:8: extra `=`, expected nothing\n\
                 help: correct the file; nothing was published\nexit 1"
            )
        );
        let session = Session::builder(connect).connect().await.unwrap();
        let bad = session
            .set("/app/pool", "size = = 3\n")
            .await
            .unwrap()
            .mzxid;
        assert!(line().await.contains("changed: version 2"));
        assert!(
            line()
                .await
                .contains("is not valid TOML at line 1, column 8")
        );

        let history = zk(connect, &["config", "history", "/app/pool"]).await;
        assert_eq!(
            (revision(&history), history.lines().count()),
            (first.clone(), 2),
            "{history}"
        );
        let roll_back = async |expecting: &str, revision: &str| {
            let arguments = ["config", "rollback", "-e", expecting, "/app/pool", revision];
            zk(connect, &arguments).await
        };
        let unseen = roll_back(&first, &first).await;
        assert!(unseen.contains("/app/pool is not as expected"), "{unseen}");
        let back = roll_back(&bad.to_string(), &first).await;
        assert!(back.starts_with("Replaced /app/pool, version 3"), "{back}");
        let copy = directory.path().join("copy.toml");
        let got = zk(
            connect,
            &["config", "get", "/app/pool", copy.to_str().unwrap()],
        )
        .await;
        assert_eq!(got, "exit 0");
        assert_eq!(
            std::fs::read_to_string(&copy).unwrap(),
            "size = 1 # small\n"
        );
        let gone = roll_back("0", "0x7").await;
        assert!(
            gone.ends_with("help: `zk config history` lists the revisions\nexit 1"),
            "{gone}"
        );
        following.kill().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn following_prints_documents_with_names_that_stay() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let mut following = command(connect, &["--json", "config", "follow", "/key"])
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
        let mut next = async || {
            let line = tokio::time::timeout(MAX_WAIT, lines.next_line()).await;
            let line = line.expect("it prints within a minute").unwrap().unwrap();
            serde_json::from_str::<serde_json::Value>(&line).unwrap()
        };
        let event = next().await;
        assert_eq!(event, json!({"event": "absent", "path": "/key"}));
        session.create("/key", "size = 1\n").await.unwrap();
        let event = next().await;
        assert_eq!(
            [&event["event"], &event["data"], &event["version"]],
            [&json!("created"), &json!("size = 1\n"), &json!(0)]
        );
        session.set("/key", "size = = 2\n").await.unwrap();
        let event = next().await;
        assert_eq!(event["event"], "changed");
        let problem = event["problem"].as_str().unwrap();
        assert!(problem.contains("not valid TOML"), "{event}");
        session.set("/key", b"\xff".to_vec()).await.unwrap();
        assert_eq!(next().await["event"], "invalid");
        session.delete("/key").await.unwrap();
        let event = next().await;
        assert_eq!(event, json!({"event": "deleted", "path": "/key"}));
        following.kill().await.unwrap();
        let noted = finish(
            command(connect, &["--json", "config", "history", "/key"]),
            b"",
        )
        .await;
        let note: serde_json::Value = serde_json::from_slice(&noted.stderr).unwrap();
        let note = note["note"].as_str().unwrap();
        assert!(note.starts_with("/key has no history"), "{note}");
        session.close().await.unwrap();
    })
    .await;
}
