//! Publishers and typed values during lost replies, dying servers and bad payloads.

use serde::{Deserialize, Serialize};
use zk_config::{Expected, KeyChange, Problem, PublishOptions, Publisher, Subtree, Typed};
use zk_core::codec::{DecodeErrorKind, Text, Toml};
use zk_core::{Acl, Session};
use zk_fault_proxy::Match;

use crate::{LONG, connect, scenario, soon, with_servers};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Pool {
    size: u16,
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_of_the_scenario_receives_exactly_its_events() {
    with_servers(3, async |ensemble| {
        let (publishing, listening) = (connect(ensemble).await, connect(ensemble).await);
        scenario::play(&publishing, &listening).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_payloads_leave_the_value_and_report_their_position() {
    with_servers(1, async |ensemble| {
        let session = connect(ensemble).await;
        let publisher = Publisher::new(&session, Toml);
        publisher.publish("/pool", &Pool { size: 1 }).await.unwrap();
        let typed = Typed::<Pool>::node("/pool", Toml).unwrap().build();
        let _following = typed.follow(&session);
        assert_eq!(**soon("it is read", typed.ready()).await, Pool { size: 1 });
        for (data, kind, line) in [
            (&b"# a pool\nsize = = 2"[..], DecodeErrorKind::Syntax, 2),
            (b"size = \"much\"", DecodeErrorKind::Shape, 1),
            (b"\n\nsize = \"\xff\"", DecodeErrorKind::NotUtf8, 3),
            (b"", DecodeErrorKind::Empty, 0),
        ] {
            session.set("/pool", data).await.unwrap();
            let mut problems = typed.problems();
            let reported = problems.wait_for(|problem| {
                matches!(problem.as_deref(), Some(Problem::Invalid(error)) if error.kind() == kind)
            });
            let reported = soon("the problem is reported", reported)
                .await
                .unwrap()
                .clone()
                .unwrap();
            let Problem::Invalid(error) = &*reported else {
                unreachable!();
            };
            assert_eq!(error.position().map_or(0, |at| at.line), line, "{error}");
            assert_eq!(error.path().unwrap().as_str(), "/pool");
            assert_eq!(**typed.current().unwrap(), Pool { size: 1 });
        }
        let large = "x".repeat((1 << 20) + 1);
        let error = Publisher::new(&session, Text).publish("/pool", &large);
        assert!(error.await.unwrap_err().is_too_large());
        publisher.publish("/pool", &Pool { size: 2 }).await.unwrap();
        let mut problems = typed.problems();
        let healthy = problems.wait_for(Option::is_none);
        drop(soon("there is no problem", healthy).await.unwrap());
        assert_eq!(**typed.current().unwrap(), Pool { size: 2 });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_with_a_lost_reply_is_applied_once() {
    with_servers(3, async |ensemble| {
        let session = connect(ensemble).await;
        let options = PublishOptions::default().with_history(5);
        let publisher = Publisher::with_options(&session, Text, options);
        let proxy = ensemble.proxy().unwrap();
        publisher
            .publish("/app/motto", &"0".to_owned())
            .await
            .unwrap();
        for version in 0..4 {
            let transactions = || Match::multi("**");
            let _rule = if version % 2 == 0 {
                proxy.on(transactions()).once().cut_on_reply()
            } else {
                proxy.on(transactions()).once().drop_then_cut()
            };
            let value = (version + 1).to_string();
            let publish = publisher.publish("/app/motto", &value);
            let published = publish.expecting(Expected::Version(version)).await.unwrap();
            assert_eq!(published.change, KeyChange::Replaced);
            assert_eq!(published.stat.unwrap().version, version + 1);
        }
        let history = publisher.history("/app/motto").await.unwrap();
        let kept: Vec<_> = history.iter().map(|one| one.data.as_deref()).collect();
        let expected = [b"3", b"2", b"1", b"0"].map(|data| Some(&data[..]));
        assert_eq!(kept, expected);
        let seen = Expected::Version(4);
        let back = publisher.roll_back("/app/motto", history[1].revision, seen);
        assert_eq!(back.await.unwrap().stat.unwrap().version, 5);
        assert_eq!(session.get("/app/motto").await.unwrap().0, "2");

        // A removed key is restored with its ACL, and its history is deleted with the node above.
        let owner = Session::builder(ensemble.connect_string()).digest_auth("anna", "secret");
        let owner = owner.connect().await.unwrap();
        let options = PublishOptions::default().with_history(5);
        let restricted = options.clone().with_acl(Acl::creator_only());
        let publisher = Publisher::with_options(&owner, Text, restricted);
        let hidden = publisher.publish("/app/hidden", &"1".to_owned());
        let revision = hidden.await.unwrap().stat.unwrap().mzxid;
        let (had, _) = owner.acl("/app/hidden").await.unwrap();
        publisher.remove("/app/hidden").await.unwrap();
        let publisher = Publisher::with_options(&owner, Text, options);
        let back = publisher.roll_back("/app/hidden", revision, Expected::Absent);
        back.await.unwrap();
        assert_eq!(owner.acl("/app/hidden").await.unwrap().0, had);
        let keys = publisher
            .transaction()
            .remove("/app/hidden")
            .remove("/app/motto");
        keys.publish().await.unwrap();
        publisher.remove("/app").await.unwrap();
        assert_eq!(owner.exists("/app").await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_and_subtrees_follow_after_the_leader_is_killed() {
    with_servers(3, async |ensemble| {
        let (publishing, following) = (connect(ensemble).await, connect(ensemble).await);
        let mut size = Typed::<String>::node("/pool/size", Text).unwrap().build();
        let mut pool = Typed::subtree("/pool", Subtree::deserialize::<Pool>)
            .unwrap()
            .build();
        let _following = (size.follow(&following), pool.follow(&following));
        let publisher = Publisher::new(&publishing, Text);
        let publish = async |value: u16| {
            publisher
                .publish("/pool/size", &value.to_string())
                .await
                .unwrap();
        };
        publish(1).await;
        assert_eq!(**soon("the first", size.changed()).await, "1");
        assert_eq!(**soon("the first", pool.changed()).await, Pool { size: 1 });
        let leader = ensemble.wait_leader(LONG).await.unwrap();
        leader.kill().await.unwrap();
        ensemble.wait_quorum().await.unwrap();
        publish(2).await;
        assert_eq!(**soon("the second", size.changed()).await, "2");
        assert_eq!(**soon("the second", pool.changed()).await, Pool { size: 2 });
    })
    .await;
}
