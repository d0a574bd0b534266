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
            (first.clone(), 3),
            "{history}"
        );
        assert!(
            history.contains("unverified: /app/_history_/pool/"),
            "{history}"
        );
        let rollback = async |options: &[&str], expecting: &str, revision: &str| {
            let arguments = ["config", "rollback", "-e", expecting, "/app/pool", revision];
            zk(connect, &[&arguments, options].concat()).await
        };
        let roll_back = async |expecting: &str, revision: &str| {
            rollback(&["--unverified"], expecting, revision).await
        };
        // The data was written by something else in between.
        let unproven = rollback(&[], &bad.to_string(), &first).await;
        assert!(
            unproven.contains("not proven to be revision") && unproven.contains("--unverified"),
            "{unproven}"
        );
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

/// A tenant of the same ensemble, who may not touch the key, plants what its owner rolls back to.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_plants_nothing_that_its_owner_rolls_back_to() {
    with_ensemble(async |connect| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key.toml");
        let said = async |command: tokio::process::Command| {
            let output = finish(command, b"").await;
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        let owner = async |acl: &str, arguments: &[&str]| {
            let mut command = command(connect, arguments);
            command.env("ZK_AUTH", "owner:pw").env("ZK_ACL", acl);
            said(command).await
        };
        let tenant = async |arguments: &[&str]| said(command(connect, arguments)).await;
        let put = async |acl: &str, key: &str, value: &str| {
            std::fs::write(&file, value).unwrap();
            let put = owner(acl, &["config", "put", key, file.to_str().unwrap()]).await;
            revision(&put)
        };

        // The key was open to all when its history began.
        let first = put("", "/app/key", "v = 1\n").await;
        let planted = |key: &str| {
            let old = u64::from_str_radix(&first[2..], 16).unwrap();
            format!("/app/_history_/{key}/{old:016x}-7fffffffffffffff-00000000")
        };
        put("", "/app/key", "v = 2\n").await;
        let created = tenant(&["create", &planted("key"), "v = 666"]).await;
        assert!(created.starts_with("Created"), "{created}");
        owner("", &["setacl", "/app/key", "auth::cdrwa"]).await;
        let now = put("", "/app/key", "v = 3\n").await;
        let roll_back = ["config", "rollback", "-e", &now, "/app/key", &first];
        let refused = owner("", &roll_back).await;
        assert!(
            refused.contains("has 2 entries of revision") && refused.contains(&planted("key")),
            "{refused}"
        );
        let history = owner("", &["config", "history", "/app/key"]).await;
        let doubted: Vec<_> = history
            .lines()
            .filter(|line| line.contains("unverified: "))
            .collect();
        assert!(
            doubted.len() == 1 && doubted[0].contains(&planted("key")),
            "{history}"
        );
        for refused in [
            tenant(&["create", "/app/_history_/key/x", ""]).await,
            tenant(&["rm", "-r", "--yes", "/app/_history_/key"]).await,
        ] {
            assert!(refused.contains("not permitted"), "{refused}");
        }

        // One that was not, by the option.
        let first = put("auth::cdrwa", "/app/other", "v = 1\n").await;
        put("auth::cdrwa", "/app/other", "v = 2\n").await;
        let refused = tenant(&["create", &planted("other"), "v = 666"]).await;
        assert!(
            refused.contains("it needs CREATE on the parent"),
            "{refused}"
        );
        let acl = owner("", &["getacl", "/app/_history_/other"]).await;
        assert_eq!(acl, owner("", &["getacl", "/app/other"]).await);
        assert!(acl.starts_with("digest:owner:"), "{acl}");
        owner("", &["delete", "/app/other"]).await;
        let back = [
            "config",
            "rollback",
            "--unverified",
            "-e",
            "0",
            "/app/other",
            &first,
        ];
        let back = owner("", &back).await;
        assert!(back.starts_with("Created /app/other"), "{back}");
        assert_eq!(acl, owner("", &["getacl", "/app/other"]).await);
    })
    .await;
}
