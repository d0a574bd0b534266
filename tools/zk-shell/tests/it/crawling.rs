//! Commands on whole subtrees.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use zk_core::{Acl, Session};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, command, finish, with_ensemble, zk};

/// A small application: 9 nodes, one of them ephemeral, and one whose children only alice may list.
async fn application(connect: &str) -> Session {
    let builder = Session::builder(connect).digest_auth("alice", "hunter2");
    let session = builder.connect().await.expect("a session");
    for (path, data) in [
        ("/app", &b"shop"[..]),
        ("/app/config", b"size=7\ncolour=red\n"),
        ("/app/items", b""),
        ("/app/items/item-0000000001", b"Red shoes"),
        ("/app/items/item-0000000002", b"blue shoes"),
        ("/app/raw", b"\xff\x00red\x1b[2J"),
    ] {
        session.create(path, data).await.expect("a node");
    }
    session
        .create("/app/live", "host-1")
        .ephemeral()
        .await
        .expect("a node");
    let acl = Acl::creator_only();
    session
        .create("/app/secret", "red alert")
        .acl(acl)
        .await
        .expect("a node");
    session
        .create("/app/secret/x", "red")
        .await
        .expect("a node");
    session
}

const SECRET: &str = "note: the children of 1 node may not be listed, first /app/secret; \
                      put the credentials into the environment: ZK_AUTH=user:password\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_is_drawn_found_searched_and_measured() {
    with_ensemble(async |connect| {
        let session = application(connect).await;
        let alice = async |arguments: &[&str]| {
            let mut command = command(connect, arguments);
            command.env("ZK_AUTH", "alice:hunter2");
            String::from_utf8(finish(command, b"").await.stdout).unwrap()
        };
        assert_eq!(
            zk(connect, &["tree", "/app"]).await,
            format!(
                "/app\n\
                 ├── config\n\
                 ├── items\n\
                 │   ├── item-0000000001\n\
                 │   └── item-0000000002\n\
                 ├── live  (ephemeral)\n\
                 ├── raw\n\
                 └── secret  (not permitted)\n\
                 {SECRET}exit 0"
            )
        );
        assert_eq!(
            alice(&["tree", "--depth", "1", "/app"]).await.lines().last(),
            Some("└── secret")
        );
        assert_eq!(
            alice(&["find", "/app"]).await,
            "/app\n/app/config\n/app/items\n/app/items/item-0000000001\n/app/items/item-0000000002\n\
             /app/live\n/app/raw\n/app/secret\n/app/secret/x\n"
        );
        let owner = session.id().to_string();
        for (arguments, expected) in [
            (&["--name", "item-*2"][..], "/app/items/item-0000000002\n"),
            (&["--ephemeral"], "/app/live\n"),
            (&["--owner", &owner], "/app/live\n"),
            (&["--larger", "9", "--smaller", "18"], "/app/items/item-0000000002\n"),
            (&["--children", "2"], "/app\n"),
            (&["--older", "1d"], ""),
            (&["--newer", "1d", "--name", "app"], "/app\n"),
            (&["--data", "(?i)^red"], "/app/items/item-0000000001\n/app/secret/x\n/app/secret\n"),
            (&["--data", r"(?-u)^\xff"], "/app/raw\n"),
            (&["--persistent", "--depth", "0"], "/app\n"),
        ] {
            let mut all = vec!["find", "/app"];
            all.extend(arguments);
            let (mut found, mut expected): (Vec<_>, Vec<_>) =
                (alice(&all).await.lines().map(str::to_owned).collect(), expected.lines().collect());
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{arguments:?}");
        }
        assert_eq!(
            zk(connect, &["grep", "red", "/app"]).await,
            format!(
                "/app/config:colour=red\n/app/raw: data that is no text matches\n\
                 note: the data of 1 node may not be read\n{SECRET}exit 0"
            )
        );
        assert_eq!(
            zk(connect, &["find", "--data", "^red", "/app"]).await,
            format!("note: the data of 1 node may not be read\n{SECRET}exit 0")
        );
        assert_eq!(
            alice(&["grep", "-i", "-l", "RED S", "/app"]).await,
            "/app/items/item-0000000001\n"
        );
        assert_eq!(zk(connect, &["grep", "-F", "size=.", "/app/config"]).await, "exit 1");
        let said = zk(connect, &["grep", "(", "/app"]).await;
        assert!(said.contains("no regular expression") && said.ends_with("exit 2"), "{said}");
        let match_ = alice(&["--json", "grep", "colour", "/app"]).await;
        let match_: Value = serde_json::from_str(&match_).unwrap();
        assert_eq!(match_, serde_json::json!({"path": "/app/config", "line": 2, "text": "colour=red"}));
        let rows = alice(&["--json", "du", "/app"]).await;
        let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        assert_eq!((&rows[0]["path"], &rows[0]["nodes"]), (&"/app".into(), &9.into()));
        assert_eq!(rows[0]["bytes"], 4 + 18 + 9 + 10 + 9 + 6 + 9 + 3);
        assert_eq!((&rows[1]["path"], &rows[1]["bytes"]), (&"/app/items".into(), &19.into()));
        assert_eq!(rows.len(), 6);
        let families = alice(&["du", "--by", "children", "--top", "2", "/app"]).await;
        let last: Vec<_> = families.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
        assert_eq!(last, ["PATH", "/app", "/app/items"]);
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_family_is_entered_only_when_that_was_asked_for() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        for path in ["/big", "/big/many", "/big/few", "/big/few/x"] {
            session.create(path, "").await.unwrap();
        }
        let creates = (0..300).map(|number| {
            session
                .create(format!("/big/many/n{number:03}"), "12")
                .into_future()
        });
        for created in futures_util::future::join_all(creates).await {
            created.unwrap();
        }
        let problem = "error: the limit of 100 nodes left out 300 children of 1 node, \
                       first those of /big/many, and all that is below them\n\
                       help: give more with --limit NODES, or begin further down\n\
                       exit 1";
        assert_eq!(
            zk(connect, &["find", "--limit", "100", "/big"]).await,
            format!("/big\n/big/few\n/big/few/x\n/big/many\n{problem}")
        );
        let said = zk(connect, &["du", "--limit", "100", "/big"]).await;
        assert!(said.ends_with(problem), "{said}");
        let many = said
            .lines()
            .find(|line| line.ends_with("/big/many"))
            .unwrap();
        assert_eq!(
            many.split_whitespace().collect::<Vec<_>>(),
            ["0+", "1+", "300", "/big/many"]
        );
        let found = zk(connect, &["find", "--limit", "304", "/big"]).await;
        assert_eq!(found.lines().count(), 305, "{found}");
        assert!(found.ends_with("/big/many/n299\nexit 0"), "{found}");
        let said = zk(connect, &["watch", "-R", "--limit", "100", "/big"]).await;
        assert!(
            said.starts_with("error: nothing is watched: the limit of 100"),
            "{said}"
        );

        // Nothing is deleted beyond a limit, without a word, or where everything is.
        let said = zk(connect, &["rm", "-r", "--yes", "--limit", "303", "/big"]).await;
        assert!(
            said.starts_with("error: nothing was deleted: the limit of 303"),
            "{said}"
        );
        let said = zk(connect, &["rm", "-r", "/big"]).await;
        assert_eq!(
            said,
            "error: nothing was deleted: there is no terminal to ask on\n\
             help: add --yes to do it without a question\nexit 2"
        );
        let said = zk(connect, &["rm", "/big"]).await;
        assert!(
            said.starts_with("error: delete /big: the node has children"),
            "{said}"
        );
        for path in ["/", "/zookeeper", "/zookeeper/quota"] {
            let said = zk(connect, &["rm", "-r", "--yes", path]).await;
            assert!(
                said.contains("is not deleted: ") && said.ends_with("exit 2"),
                "{said}"
            );
        }
        assert_eq!(session.list("/big/many").await.unwrap().0.len(), 300);
        assert_eq!(
            zk(connect, &["rm", "-r", "--yes", "/big"]).await,
            "Deleted /big, about 304 nodes\nexit 0"
        );
        assert!(session.exists("/big").await.unwrap().is_none());
        session.create("/one", "").await.unwrap();
        assert_eq!(zk(connect, &["rm", "/one"]).await, "Deleted /one\nexit 0");
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_is_printed_changed_and_changed_below() {
    with_ensemble(async |connect| {
        let session = application(connect).await;
        assert_eq!(
            zk(connect, &["getacl", "/app"]).await,
            "world:anyone:cdrwa\nexit 0"
        );
        assert_eq!(
            zk(
                connect,
                &["setacl", "/app/config", "world:anyone:ra", "ip:127.0.0.1:w"]
            )
            .await,
            "exit 0"
        );
        assert_eq!(
            zk(connect, &["getacl", "/app/config"]).await,
            "world:anyone:ra\nip:127.0.0.1:w\nexit 0"
        );
        let said = zk(
            connect,
            &["setacl", "-v", "0", "/app/config", "world:anyone:r"],
        )
        .await;
        assert!(
            said.starts_with("error: set the acl of /app/config: the node has another version"),
            "{said}"
        );
        let said = zk(connect, &["setacl", "/app", "world:anyone:rx"]).await;
        assert!(
            said.contains("'x' is no permission") && said.ends_with("exit 2"),
            "{said}"
        );
        let said = zk(connect, &["setacl", "-R", "/app/items", "world:anyone:r"]).await;
        assert!(
            said.starts_with("error: no ACL was changed: there is no terminal"),
            "{said}"
        );
        let said = zk(
            connect,
            &[
                "setacl",
                "-R",
                "-y",
                "--limit",
                "2",
                "/app/items",
                "world:anyone:r",
            ],
        )
        .await;
        assert!(
            said.starts_with("error: no ACL was changed: the limit of 2"),
            "{said}"
        );
        assert_eq!(
            zk(
                connect,
                &["setacl", "-R", "--yes", "/app/items", "world:anyone:r"]
            )
            .await,
            "Changed /app/items, 3 ACLs\nexit 0"
        );
        // All or none: not past a subtree that may not be listed.
        for path in ["/closed", "/closed/in", "/closed/in/deep", "/closed/open"] {
            session.create(path, "").await.unwrap();
        }
        let admin_only = &["setacl", "/closed/in", "world:anyone:a"];
        assert_eq!(zk(connect, admin_only).await, "exit 0");
        let all = &["setacl", "-R", "--yes", "/closed", "world:anyone:ra"];
        let said = zk(connect, all).await;
        assert!(
            said.starts_with("error: no ACL was changed: ")
                && said.contains("first /closed/in;")
                && said.ends_with("exit 1"),
            "{said}"
        );
        for path in ["/closed", "/closed/open"] {
            assert_eq!(
                zk(connect, &["getacl", path]).await,
                "world:anyone:cdrwa\nexit 0"
            );
        }
        for path in ["/app/items", "/app/items/item-0000000002"] {
            assert_eq!(
                zk(connect, &["getacl", path]).await,
                "world:anyone:r\nexit 0"
            );
        }
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_followed_with_what_was_there_before() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let session = Session::builder(&connect).connect().await.unwrap();
    session.create("/w", "one\ntwo\n").await.unwrap();
    let mut child = command(&connect, &["watch", "-R", "--count", "4", "/w"])
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut expect = async |part: &str| {
        let wait = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("another line");
                if line.contains(part) {
                    return line;
                }
            }
        };
        let found = tokio::time::timeout(MAX_WAIT, wait).await;
        found.unwrap_or_else(|_| panic!("no line with {part:?} within a minute"))
    };
    expect("watching /w, 1 node").await;
    session.set("/w", "one\n2\n").await.unwrap();
    expect("changed  /w, version 1").await;
    expect("    -two").await;
    expect("    +2").await;
    session.create("/w/x", "new").ephemeral().await.unwrap();
    expect("created  /w/x, 3 B, ephemeral").await;
    expect("    +new").await;
    // What happens while the connection is lost is not missed.
    let server = ensemble.server(1).unwrap();
    server.kill().await.unwrap();
    expect("the connection is lost").await;
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    expect("connected and complete again; 0 changes meanwhile").await;
    session.connected().await.unwrap();
    session.delete("/w/x").await.unwrap();
    expect("deleted  /w/x").await;
    expect("    -new").await;
    session.delete("/w").await.unwrap();
    expect("deleted  /w").await;
    let ended = tokio::time::timeout(MAX_WAIT, child.wait()).await;
    assert!(
        ended
            .expect("it ends after four changes")
            .unwrap()
            .success()
    );
    drop(stdin);

    // For a time.
    let watching = ["--json", "watch", "--for", "1500ms", "/later"];
    let watched = finish(command(&connect, &watching), b"").await;
    assert!(watched.status.success(), "{watched:?}");
    let none = r#"{"event":"watching","nodes":0,"path":"/later"}"#;
    assert_eq!(String::from_utf8(watched.stdout).unwrap().trim_end(), none);

    // One node, which need not exist.
    let watching = ["--json", "watch", "--count", "2", "/later"];
    let mut child = command(&connect, &watching).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    assert_eq!(first, none);
    session.create("/later", b"\xff").await.unwrap();
    session.create("/later/below", "").await.unwrap();
    let mut event = async || {
        let line = tokio::time::timeout(MAX_WAIT, lines.next_line()).await;
        let line = line.expect("it reports a change").unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let created = event().await;
    assert_eq!(
        (&created["event"], &created["data"], &created["encoding"]),
        (&"created".into(), &"/w==".into(), &"base64".into())
    );
    session.set("/later", "").await.unwrap();
    assert_eq!(event().await["event"], "changed");
    assert!(child.wait().await.unwrap().success());

    // Without data.
    let watching = ["--json", "watch", "-q", "--count", "1", "/later"];
    let mut child = command(&connect, &watching).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(MAX_WAIT, lines.next_line()).await;
    first.expect("it watches within a minute").unwrap();
    session.set("/later", "secret").await.unwrap();
    let second = tokio::time::timeout(MAX_WAIT, lines.next_line()).await;
    let second = second
        .expect("it prints the change within a minute")
        .unwrap();
    let document: Value = serde_json::from_str(&second.unwrap()).unwrap();
    assert_eq!(document["event"], "changed");
    let names: Vec<_> = document.as_object().unwrap().keys().collect();
    assert_eq!(names, ["event", "path", "stat"]);
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_that_outgrows_the_limit_is_no_longer_watched() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        session.create("/w", "").await.unwrap();
        let mut watch = command(connect, &["watch", "-R", "--limit", "2", "/w"])
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut next = async || {
            let line = tokio::time::timeout(MAX_WAIT, lines.next_line()).await;
            line.expect("another line within a minute").unwrap()
        };
        let first = next().await.unwrap();
        assert!(first.ends_with("watching /w, 1 node"), "{first}");
        // A node that went makes room for another.
        session.create("/w/a", "").await.unwrap();
        assert!(next().await.unwrap().contains("created  /w/a"));
        session.delete("/w/a").await.unwrap();
        assert!(next().await.unwrap().contains("deleted  /w/a"));
        session.create("/w/b", "").await.unwrap();
        assert!(next().await.unwrap().contains("created  /w/b"));
        session.create("/w/c", "").await.unwrap();
        assert!(next().await.unwrap().contains("created  /w/c"));
        assert_eq!(next().await, None);
        let ended = tokio::time::timeout(MAX_WAIT, watch.wait_with_output());
        let ended = ended.await.expect("it ends within a minute").unwrap();
        assert_eq!(ended.status.code(), Some(1));
        assert_eq!(
            String::from_utf8_lossy(&ended.stderr),
            "error: the subtree has grown beyond 2 nodes, and is no longer watched\n\
             help: give more with --limit NODES, or watch less\n"
        );
        session.close().await.unwrap();
    })
    .await;
}
