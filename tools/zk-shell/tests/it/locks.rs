//! Locks as the terminal shows and breaks them.

use std::process::Command as Program;

use zk_core::Session;
use zk_lock::{FairLock, LockLoss, LockOptions, OwnerInfo};

use crate::{MAX_WAIT, with_ensemble, zk};

/// The cells of what was printed, with what differs from run to run left out.
fn cells(said: &str) -> Vec<Vec<String>> {
    let split = |line: &str| {
        let cells = line.split("  ").filter(|cell| !cell.is_empty());
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    said.lines().map(split).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_shown_with_its_owners_and_broken_when_it_was_confirmed() {
    with_ensemble(async |connect| {
        assert_eq!(
            zk(connect, &["locks", "/l"]).await,
            "/l does not exist: the lock has no holder\nexit 0"
        );
        assert_eq!(
            zk(connect, &["locks", "--break", "/l"]).await,
            "error: /l has no holder, so there is nothing to break\nexit 1"
        );
        assert_eq!(zk(connect, &["create", "/l"]).await, "Created /l\nexit 0");
        assert_eq!(
            zk(connect, &["locks", "/l"]).await,
            "/l has no holder and no waiter\nexit 0"
        );
        let session = Session::builder(connect).connect().await.unwrap();
        let owner = OwnerInfo::new("build7", 42).with_label("nightly\u{7}build");
        let options = LockOptions::default().with_owner(owner);
        let lock = FairLock::with_options(&session, "/l", options).unwrap();
        let guard = lock.acquire().await.unwrap();
        for (path, data) in [
            ("/l/_c_r-__READ__0000000007", "10.0.0.1"),
            ("/l/_c_q-__READ__0000000008", ""),
            ("/l/config", ""),
        ] {
            session.create(path, data).await.unwrap();
        }
        let said = zk(connect, &["locks", "/l"]).await;
        let rows = cells(&said);
        let name = guard.path().name().unwrap();
        let token = guard.fencing_token().to_string();
        assert_eq!(
            rows[0],
            [
                "ROLE", "KIND", "IN LINE", "OWNER", "SESSION", "TOKEN", "NODE"
            ]
        );
        assert_eq!(rows[1][..2], ["holder", "exclusive"], "{said}");
        assert!(rows[1][2].ends_with('s'), "{said}");
        assert_eq!(rows[1][3..4], ["build7/42 (nightly\\u{7}build)"], "{said}");
        assert_eq!(
            rows[1][4..],
            [session.id().to_string(), token, name.to_owned()]
        );
        assert_eq!(rows[2][..2], ["waiter", "shared"], "{said}");
        assert_eq!(rows[2][3..5], ["10.0.0.1", "none"], "{said}");
        assert_eq!(rows[3][3..4], ["-"], "{said}");
        assert_eq!(rows[4], ["not contenders: config"]);
        let stays = "_c_q-__READ__0000000008 belongs to no session and stays until it is deleted: \
                     `zk locks '--break=_c_q-__READ__0000000008'`\n";
        assert!(said.contains(stays), "{said}");

        let hostile = "10.0.0.2\u{202e}gpj.exe";
        let hostile_node = "/l/_c_s-__READ__0000000009";
        session.create(hostile_node, hostile).await.unwrap();
        let said = zk(connect, &["locks", "/l"]).await;
        assert!(said.contains("10.0.0.2\\u{202e}gpj.exe"), "{said}");
        assert!(!said.contains('\u{202e}'), "{said}");
        let said = zk(connect, &["--json", "locks", "/l"]).await;
        let document = said.strip_suffix("exit 0").unwrap();
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["path"], "/l");
        assert_eq!(document["exists"], true);
        assert_eq!(document["not_contenders"][0], "config");
        let contenders = &document["contenders"];
        assert_eq!(contenders.as_array().unwrap().len(), 4, "{said}");
        assert_eq!(contenders[0]["role"], "holder");
        assert_eq!(contenders[0]["kind"], "exclusive");
        assert_eq!(contenders[0]["node"], name);
        assert_eq!(contenders[0]["owner"], "build7/42 (nightly\\u{7}build)");
        assert_eq!(contenders[0]["session"], session.id().to_string());
        let token = guard.fencing_token().to_string();
        assert_eq!(contenders[0]["token"], token);
        assert!(contenders[0]["since"].as_u64() > Some(1_000_000_000_000));
        assert_eq!(contenders[3]["owner"], hostile);
        assert_eq!(contenders[1]["session"], serde_json::Value::Null);
        session.delete(hostile_node).await.unwrap();

        // Nothing happens without a terminal and without --yes.
        let said = zk(connect, &["locks", "--break", "/l"]).await;
        let refusal = format!(
            "error: /l/{name} was not deleted: there is no terminal to ask on\n\
             help: add --yes to do it without a question\nexit 2"
        );
        assert!(said.ends_with(&refusal), "{said}");
        let said = zk(connect, &["locks", "--break=unknown", "--yes", "/l"]).await;
        assert!(
            said.contains("error: /l has no contender \"unknown\"\n"),
            "{said}"
        );
        assert!(guard.is_valid());
        let said = zk(connect, &["locks", "--break", "--yes", "/l"]).await;
        assert!(
            said.ends_with(&format!("Deleted /l/{name}\nexit 0")),
            "{said}"
        );
        let loss = tokio::time::timeout(MAX_WAIT, guard.lost());
        assert_eq!(loss.await.unwrap(), LockLoss::NodeDeleted);

        // Now two share it, so that one must be named.
        let said = zk(connect, &["locks", "--break", "--yes", "/l"]).await;
        assert!(said.contains("error: 2 contenders hold /l\n"), "{said}");
        let said = zk(
            connect,
            &["locks", "--break=_c_q-__READ__0000000008", "--yes", "/l"],
        )
        .await;
        assert!(
            said.ends_with("Deleted /l/_c_q-__READ__0000000008\nexit 0"),
            "{said}"
        );
        session.close().await.unwrap();
    })
    .await;
}

/// `script` gives a program a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_a_session_is_shown_and_broken() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let name = "_c_r-lease-0000000007";
        let path = format!("/s/leases/{name}");
        session.create(&path, "10.0.0.1").parents().await.unwrap();
        let said = zk(connect, &["locks", "/s/leases"]).await;
        assert!(said.contains("belongs to no session"), "{said}");
        let named = format!("--break={name}");
        let said = zk(connect, &["locks", &named, "--yes", "/s/leases"]).await;
        assert!(said.ends_with("exit 0"), "{said}");
        assert_eq!(session.exists(&path).await.unwrap(), None);
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_names_what_is_deleted_and_only_yes_deletes_it() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let guard = FairLock::new(&session, "/l")
            .unwrap()
            .acquire()
            .await
            .unwrap();
        let name = guard.path().name().unwrap().to_owned();
        for (answer, is_deleted) in [("n", false), ("", false), ("y", true)] {
            let zk = env!("CARGO_BIN_EXE_zk");
            let connect = connect.to_owned();
            let asked = tokio::task::spawn_blocking(move || {
                let shell =
                    format!("printf '{answer}\\n' | script -qec '{zk} locks --break /l' /dev/null");
                let mut program = Program::new("timeout");
                program
                    .args(["30", "sh", "-c", &shell])
                    .env("ZK_CONNECT", connect);
                program
                    .env_remove("ZK_AUTH")
                    .output()
                    .expect("a shell starts")
            });
            let said = String::from_utf8(asked.await.unwrap().stdout).unwrap();
            let question = format!("This deletes /l/{name}, czxid 0x");
            assert!(said.contains(&question), "{answer:?}: {said}");
            assert!(said.contains("Delete it? [y/N] "), "{answer:?}: {said}");
            let is_said = said.contains(&format!("Deleted /l/{name}"));
            assert_eq!(is_said, is_deleted, "{answer:?}: {said}");
            assert_ne!(said.contains("was not deleted"), is_deleted, "{said}");
            let there = session.exists(guard.path()).await.unwrap().is_some();
            assert_eq!(there, !is_deleted, "{answer:?}: {said}");
        }
        session.close().await.unwrap();
    })
    .await;
}
