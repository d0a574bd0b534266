//! What recipes, of these libraries and of others, have left on a path, in words.

use std::time::Duration;

use serde_json::Value;
use zk_core::Session;
use zk_core::codec::Text;
use zk_discovery::{Instance, Registry};
use zk_id::{BlockIds, WorkerIds};
use zk_leader::{ElectionOptions, LeaderLatch};
use zk_queue::{Layout, Queue, QueueOptions, WorkQueue};

use crate::{MAX_WAIT, with_ensemble, zk};

/// Runs a command in both forms, checks that it changes nothing, and returns the text and the JSON document.
async fn both(session: &Session, connect: &str, arguments: &[&str]) -> (String, Value) {
    let mut with_json = vec!["--json"];
    with_json.extend(arguments);
    let before = state(session).await;
    let text = zk(connect, arguments).await;
    let json = zk(connect, &with_json).await;
    assert_eq!(state(session).await, before, "{arguments:?} has written");
    let text = text
        .strip_suffix("exit 0")
        .unwrap_or_else(|| panic!("{text}"));
    let json = json
        .strip_suffix("exit 0")
        .unwrap_or_else(|| panic!("{json}"));
    (text.to_owned(), serde_json::from_str(json).unwrap())
}

/// All nodes with what shows that they were changed.
async fn state(session: &Session) -> Vec<(String, i64, i64)> {
    let mut all = Vec::new();
    let mut next = vec!["/".to_owned()];
    while let Some(path) = next.pop() {
        let (names, stat) = session.list(path.as_str()).await.unwrap();
        let parent = if path == "/" { "" } else { &path };
        next.extend(
            names
                .iter()
                .filter(|name| *name != "zookeeper")
                .map(|name| format!("{parent}/{name}")),
        );
        all.push((path, stat.mzxid, stat.pzxid));
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_described_with_claims_and_dead_letters() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let work = WorkQueue::new(&session, "/work", Text).unwrap();
        for item in ["a", "b", "c", "d"] {
            work.offer(&item.to_owned()).await.unwrap();
        }
        work.offer(&"later".to_owned()).delay(Duration::from_secs(3600)).await.unwrap();
        let bad = work.claim().await.unwrap();
        bad.bury("cannot parse \u{1b}[2J").await.unwrap();
        let held = work.claim().await.unwrap();
        let (text, json) = both(&session, connect, &["queue", "/work"]).await;
        assert!(text.starts_with("/work is a work queue with the layout native\n2 ready, 1 delayed, 1 claimed, 1 dead letters\nthe oldest item is "), "{text}");
        assert!(text.contains("CLAIMED FOR  OWNER") && text.contains(&session.id().to_string()), "{text}");
        assert!(text.contains("cannot parse \\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(
            (&json["ready"], &json["delayed"], &json["claimed"], &json["layout"]),
            (&2.into(), &1.into(), &1.into(), &"native".into())
        );
        assert_eq!(json["claims"][0]["session"], session.id().to_string());
        assert_eq!(json["dead_letters"][0]["deliveries"], 1);

        let options = QueueOptions::default().with_layout(Layout::Recipe);
        let plain = Queue::with_options(&session, "/plain", Text, &options).unwrap();
        plain.offer(&"x".to_owned()).await.unwrap();
        let (text, _) = both(&session, connect, &["queue", "/plain"]).await;
        assert!(text.starts_with("/plain is a queue with the layout recipe\n1 ready, 0 delayed, 0 claimed"), "{text}");
        let missing = zk(connect, &["queue", "/none"]).await;
        assert!(missing.starts_with("error: /none does not exist\n") && missing.ends_with("exit 1"), "{missing}");
        // Kept until here: the server removes the parent of the claims some time after the last one has gone.
        drop(held);
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_of_other_clients_are_described() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        // Byte for byte what Curator and kazoo write.
        let frame = b"\0\x01\0\x01\x01\0\0\0\x02AB\x02".to_vec();
        for (path, data) in [
            ("/curator", Vec::new()),
            ("/curator/queue-0000000000", frame.clone()),
            ("/curator/queue-0000000001", frame.clone()),
            ("/claims", Vec::new()),
            ("/delayed", Vec::new()),
            ("/delayed/queue-|FFFFFFFFFFFF|0000000000", frame),
            ("/kazoo", Vec::new()),
            ("/kazoo/entries", Vec::new()),
            ("/kazoo/entries/entry-100-0000000000", b"x".to_vec()),
            ("/kazoo/entries/entry-100-0000000001", b"y".to_vec()),
            ("/kazoo/taken", Vec::new()),
            ("/simple", Vec::new()),
            ("/simple/entry-005-0000000000", b"x".to_vec()),
        ] {
            session.create(path, data).await.unwrap();
        }
        session
            .create(
                "/kazoo/taken/entry-100-0000000001",
                "0123456789abcdef0123456789abcdef",
            )
            .ephemeral()
            .await
            .unwrap();
        session
            .create("/claims/queue-0000000001", "")
            .ephemeral()
            .await
            .unwrap();
        for (arguments, expected) in [
            (
                &["queue", "/curator"][..],
                "a queue with the layout curator\n2 ready, 0 delayed, 0 claimed, 0 dead",
            ),
            (
                &["queue", "--lock-path", "/claims", "/curator"],
                "a work queue with the layout curator\n1 ready, 0 delayed, 1 claimed, 0 dead",
            ),
            (
                &["queue", "/delayed"],
                "a queue with the layout curator-delay\n0 ready, 1 delayed, 0 claimed",
            ),
            (
                &["queue", "/kazoo"],
                "a work queue with the layout kazoo\n1 ready, 0 delayed, 1 claimed",
            ),
            (
                &["queue", "/simple"],
                "a queue with the layout kazoo\n1 ready, 0 delayed, 0 claimed",
            ),
            (&["queue", "/claims"], "1 ready"),
        ] {
            let (text, _) = both(&session, connect, arguments).await;
            assert!(text.contains(expected), "{arguments:?}: {text}");
        }
        let (text, _) = both(&session, connect, &["queue", "/kazoo"]).await;
        assert!(text.contains("0123456789abcdef0123456789abcdef"), "{text}");
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_and_the_waiters_are_named() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let join = async |id: &str| {
            let options = ElectionOptions::default()
                .with_id(id)
                .with_metadata("zone=a");
            let latch = LeaderLatch::with_options(&session, "/election", &options).unwrap();
            latch.join()
        };
        let first = join("first").await;
        let lease = tokio::time::timeout(MAX_WAIT, first.handle().leading());
        lease.await.unwrap().unwrap();
        // A latch of Curator's.
        let theirs = "/election/_c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-latch-";
        session
            .create(theirs, "java")
            .ephemeral()
            .sequential()
            .await
            .unwrap();
        let (text, json) = both(&session, connect, &["leader", "/election"]).await;
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[1].starts_with("leader ")
                && lines[1].contains(" first ")
                && lines[1].contains("zone=a"),
            "{text}"
        );
        assert!(
            lines[2].starts_with("waiter ") && lines[2].contains(" java "),
            "{text}"
        );
        assert_eq!(
            (
                &json["participants"][0]["id"],
                &json["participants"][1]["is_leader"]
            ),
            (&"first".into(), &false.into())
        );
        // A selector of Curator's.
        session.create("/selector", "").await.unwrap();
        session
            .create(
                "/selector/_c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-lock-0000000003",
                "selector 1",
            )
            .ephemeral()
            .await
            .unwrap();
        let (text, _) = both(&session, connect, &["leader", "/selector"]).await;
        assert!(
            text.lines().nth(1).unwrap().contains("selector 1"),
            "{text}"
        );
        session.create("/empty", "").await.unwrap();
        let (text, _) = both(&session, connect, &["leader", "/empty"]).await;
        assert_eq!(
            text,
            "/empty has no leader: no session takes part in the election\n"
        );
        first.leave().await;
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_every_format_are_listed() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let registry = Registry::new(&session, "/services").unwrap();
        let instance = Instance::builder("orders", "eu".to_owned()).id("o1").address("10.0.0.1").port(80).enabled(false);
        let registration = registry.register(instance.build().unwrap()).await.unwrap();
        let dubbo = "dubbo%3A%2F%2F10.0.0.2%3A20880%2Fcom.example.Greeter%3Fversion%3D1.0";
        let java = r#"{"name":"java","id":"j1","address":"10.0.0.3","port":8080,"sslPort":null,"payload":{"@class":"com.example.P","zone":"b"},"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null,"enabled":true}"#;
        let twitter = r#"{"serviceEndpoint":{"host":"10.0.0.4","port":9000},"additionalEndpoints":{},"status":"ALIVE","shard":0}"#;
        for (path, data) in [
            ("/services/java/j1".to_owned(), java),
            ("/services/java/bad".to_owned(), "not JSON"),
            (format!("/services/com.example.Greeter/providers/{dubbo}"), ""),
            ("/services/aurora/member_0000000000".to_owned(), twitter),
        ] {
            session.create(path, data).parents().await.unwrap();
        }
        let (text, json) = both(&session, connect, &["services", "/services"]).await;
        for expected in ["10.0.0.1:80     disabled", "10.0.0.3:8080", "10.0.0.2:20880", "10.0.0.4:9000", "zone", "not an instance: java/bad: "] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let formats: Vec<_> = json["services"].as_array().unwrap().iter().map(|service| service["format"].as_str().unwrap()).collect();
        assert_eq!(formats, ["serverset", "dubbo", "curator", "curator"]);
        let (text, _) = both(&session, connect, &["services", "--service", "orders", "/services"]).await;
        assert!(text.contains("o1") && !text.contains("10.0.0.3"), "{text}");
        drop(registration);
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_say_how_far_they_have_come() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let blocks = BlockIds::new(
            &session,
            "/invoices",
            std::num::NonZeroU32::new(1000).unwrap(),
        )
        .unwrap();
        blocks.next().await.unwrap();
        let (text, json) = both(&session, connect, &["ids", "/invoices"]).await;
        assert!(
            text.starts_with("/invoices is a counter: ids up to ")
                && json["taken"].as_i64().unwrap() >= 1000,
            "{text}"
        );
        zk_id::ZxidIds::new(&session, "/zxids")
            .unwrap()
            .next()
            .await
            .unwrap();
        let (_, json) = both(&session, connect, &["ids", "/zxids"]).await;
        let last = json["last"].as_str().unwrap_or_default();
        assert!(last.starts_with("0x"), "{json}");
        let workers = WorkerIds::new(&session, "/workers", 16)
            .unwrap()
            .with_description("host a")
            .with_preferred(7);
        let worker = workers.claim().await.unwrap();
        session
            .create("/workers/mark-00007", "1700000000000 0x1-0")
            .await
            .unwrap();
        let (text, json) = both(&session, connect, &["ids", "/workers"]).await;
        assert!(
            text.contains("1 of its worker numbers are held") && text.contains("host a"),
            "{text}"
        );
        assert!(text.contains("Tue Nov 14 22:13:20 UTC 2023"), "{text}");
        assert_eq!(
            (&json["holders"][0]["number"], &json["marks"][0]["reserved"]),
            (&7.into(), &1_700_000_000_000_u64.into())
        );
        for _ in 0..3 {
            session
                .create("/tickets/t-", "")
                .sequential()
                .parents()
                .await
                .unwrap();
        }
        let (text, _) = both(&session, connect, &["ids", "/tickets"]).await;
        assert!(
            text.ends_with("its next sequential child gets the number 0000000003\n"),
            "{text}"
        );
        let (next, _) = session
            .create("/tickets/t-", "")
            .sequential()
            .await
            .unwrap();
        assert_eq!(next.as_str(), "/tickets/t-0000000003");
        let (text, _) = both(&session, connect, &["what", "/workers"]).await;
        assert_eq!(
            text,
            "/workers looks like ids of these libraries: try `zk ids /workers`\n"
        );
        worker.release().await.unwrap();
        session.close().await.unwrap();
    })
    .await;
}
