//! Writes whose answer is lost while other clients write.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zk_core::Acl;
use zk_core::AclEntry;
use zk_core::Error;
use zk_core::Permissions;
use zk_core::Session;
use zk_core::transport::Request;
use zk_sim::Chaos;
use zk_sim::Check;
use zk_sim::Ensemble;

use crate::pass;

/// What a session does without naming a version.
async fn write(kind: usize, session: &Session, data: &str) -> Result<(), Error> {
    match kind {
        0 => session.set("/a", data).await.map(drop),
        1 => session.create("/a", data).or_set().await.map(drop),
        2 => session
            .transaction()
            .set("/a", data)
            .commit()
            .await
            .map(drop),
        3 => session.delete("/a").await,
        4 => session.delete("/a").guaranteed().await,
        _ => session.set_acl("/a", Acl::open()).await.map(drop),
    }
}

/// Rules of another client, which let everybody change them.
fn their_rules() -> Acl {
    let permissions = Permissions::READ | Permissions::ADMIN;
    Acl::new([AclEntry::new(permissions, "world", "anyone")])
}

fn is_write(request: &Request) -> bool {
    match request {
        Request::Transaction(parts) => !parts.is_empty(),
        request => matches!(
            request,
            Request::Create(_)
                | Request::Delete { .. }
                | Request::Set { .. }
                | Request::SetAcl { .. }
        ),
    }
}

// covers: C3 C12 C13
#[tokio::test(start_paused = true)]
async fn write_without_a_version_survives_a_lost_request_or_reply() {
    for kind in 0..6 {
        for is_applied in [false, true] {
            let sim = Ensemble::new(3);
            let session = sim.connect().await;
            session.create("/a", "old").await.unwrap();
            let on = sim.on(is_write);
            if is_applied {
                on.lose_reply();
            } else {
                on.lose_request();
            }
            let result = write(kind, &session, "new").await;
            result.unwrap_or_else(|error| panic!("{kind} {is_applied}: {error}"));
            let tree = sim.tree();
            match (kind, tree.node("/a")) {
                (0..=2, Some(node)) => assert_eq!(node.data(), b"new"),
                (3 | 4, None) | (5, Some(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

// covers: C3 C12 C13
#[tokio::test(start_paused = true)]
async fn repetition_never_undoes_what_another_client_did_since() {
    for kind in 0..6 {
        let sim = Ensemble::new(3);
        let (session, other) = (sim.connect().await, sim.connect().await);
        session.create("/a", "old").await.unwrap();
        other.sync("/a").await.unwrap();
        sim.on(is_write).lose_reply();
        let (result, ()) = tokio::join!(write(kind, &session, "new"), async {
            while sim.arrived(is_write) < 2 {
                pass(Duration::from_millis(1)).await;
            }
            // The session tries the next server after ten milliseconds.
            match kind {
                3 | 4 => {
                    let made = other.create("/a", "theirs").await;
                    made.unwrap();
                }
                5 => {
                    let rules = other.set_acl("/a", their_rules());
                    rules.await.unwrap();
                }
                _ => {
                    other.set("/a", "theirs").await.unwrap();
                }
            }
        });
        let tree = sim.tree();
        let node = tree.node("/a").unwrap();
        if kind == 5 {
            other.sync("/a").await.unwrap();
            assert_eq!(other.acl("/a").await.unwrap().0, their_rules());
        } else {
            assert_eq!(node.data(), b"theirs", "{kind}: {result:?}");
        }
        // The guaranteed one knows which node it meant, and that is gone.
        assert_eq!(result.is_ok(), kind == 4, "{kind}: {result:?}");
        if let Err(error) = result {
            assert!(error.is_outcome_unknown() && !error.is_fatal(), "{error}");
        }
    }
}

// covers: C3
#[test]
fn no_acknowledged_write_is_undone_by_an_older_one() {
    let overwritten = AtomicUsize::new(0);
    Check::new(0..100).run(async |sim, _seed| {
        let one = sim.connect().timeout(Duration::from_secs(30)).await;
        let other = sim.connect().timeout(Duration::from_secs(30)).await;
        one.create("/a", "0").await?;
        other.sync("/a").await?;
        let chaos = tokio::spawn(Chaos::default().run(&sim));
        for round in 1..40_u32 {
            let (first, second) = (format!("{round} one"), format!("{round} other"));
            let (_, is_written) = tokio::join!(one.set("/a", first.clone()).into_future(), async {
                pass(Duration::from_millis(u64::from(round) * 3)).await;
                // Who reads what the first one wrote comes after it.
                match other.get("/a").await {
                    Ok((data, stat)) if data == first.as_bytes() => {
                        let set = other.set("/a", second.clone()).version(stat.version);
                        set.await.is_ok()
                    }
                    _ => false,
                }
            });
            if is_written {
                overwritten.fetch_add(1, Ordering::SeqCst);
                other.sync("/a").await?;
                let (data, _) = other.get("/a").await?;
                assert_eq!(data, second.as_bytes(), "an older write came back");
            }
        }
        chaos.await.expect("nothing panics there");
        Ok::<(), Error>(())
    });
    assert!(overwritten.into_inner() > 500, "hardly anything was tried");
}
