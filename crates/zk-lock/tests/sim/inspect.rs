//! Inspecting a lock, and removing contenders.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{AcquireError, Inspector, Layout, LockLoss, OwnerInfo, Reap, Removal, Role};
use zk_sim::{Ensemble, Release, matching};

use crate::{PATH, held_and_waited_for, left, lock, pass, polled, soon};

fn inspector(session: &Session) -> Inspector {
    Inspector::new(session, PATH).unwrap()
}

/// An ephemeral node of the session with this name.
async fn contender(session: &Session, name: &str) {
    let path = format!("{PATH}/{name}");
    let created = session.create(path, "").ephemeral().parents().await;
    created.expect("the name is free");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_lists_holders_waiters_and_foreign_children() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let snapshot = inspector(&session).snapshot().await.unwrap();
    assert!(!snapshot.exists() && snapshot.contenders().is_empty());
    for name in [
        "_c_b-__READ__0000000011",
        "_c_a-__READ__0000000009",
        "_c_d-__READ__0000000013",
        "_c_c-__WRIT__0000000012",
        "0",
        "lock",
    ] {
        contender(&session, name).await;
    }
    let snapshot = inspector(&session).snapshot().await.unwrap();
    assert!(snapshot.exists());
    assert_eq!(snapshot.foreign_children(), ["0", "lock"]);
    let shown: Vec<_> = snapshot
        .contenders()
        .iter()
        .map(|one| {
            (
                one.contender().sequence().number(),
                one.role(),
                one.contender().is_shared(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (9, Role::Holder, true),
            (11, Role::Holder, true),
            (12, Role::Waiter, false),
            (13, Role::Waiter, true),
        ]
    );
    assert_eq!(
        (snapshot.holders().count(), snapshot.waiters().count()),
        (2, 2)
    );
    let hbase = Inspector::with_layout(&session, PATH, Layout::hbase()).unwrap();
    assert_eq!(hbase.snapshot().await.unwrap().foreign_children().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn whose_number_tells_no_order_is_not_shown_as_holder() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    contender(&session, "_c_a-lock-2147483647").await;
    let role = async || {
        let snapshot = inspector(&session).snapshot().await.unwrap();
        snapshot.contenders()[0].role()
    };
    assert_eq!(role().await, Role::Waiter);
    session
        .delete(format!("{PATH}/_c_a-lock-2147483647"))
        .await
        .unwrap();
    contender(&session, "_c_a-lock-0000000007").await;
    assert_eq!(role().await, Role::Holder);
    contender(&session, "_c_b-lock-0000000007").await;
    assert_eq!(role().await, Role::Waiter);
}

#[tokio::test(start_paused = true)]
async fn data_of_other_programs_is_shown_as_it_is() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    for (name, data) in [
        ("_c_a-lock-0000000001", &b"192.168.1.4"[..]),
        ("_c_b-lock-0000000002", b"PBUF\xff\x00"),
        ("_c_c-lock-0000000003", b""),
    ] {
        let path = format!("{PATH}/{name}");
        session.create(path, data).parents().await.unwrap();
    }
    let seen = lock(&session).inspector().contenders().await.unwrap();
    assert!(seen.iter().all(|one| one.owner_info().is_none()));
    assert_eq!(seen[0].owner(), b"192.168.1.4");
    assert_eq!(seen[1].owner(), b"PBUF\xff\x00");
    let lines: Vec<_> = seen.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "_c_a-lock-0000000001 of \"192.168.1.4\" (of no session: it stays until it is deleted)",
            "_c_b-lock-0000000002 of \"PBUF\u{fffd}\\0\" (of no session: it stays until it is deleted)",
            "_c_c-lock-0000000003 (of no session: it stays until it is deleted)",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_holder_is_notified_and_the_next_is_granted() {
    let ensemble = Ensemble::new(3);
    let (one, other, admin) = (
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
    );
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    let inspector = inspector(&admin);
    let snapshot = inspector.snapshot().await.unwrap();
    let holder = snapshot.holders().next().unwrap().contender().clone();
    assert_eq!(holder.fencing_token(), held.fencing_token());
    assert_eq!(inspector.remove(&holder).await.unwrap(), Removal::Deleted);
    assert_eq!(
        soon("the loss is reported", held.lost()).await,
        LockLoss::NodeDeleted
    );
    let guard = soon("the next one is granted", waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(guard.fencing_token() > held.fencing_token());
    assert_eq!(inspector.remove(&holder).await.unwrap(), Removal::Gone);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

/// The deletion is executed and its reply lost, another client creates a node of the same name, and the
/// deletion is repeated.
#[tokio::test(start_paused = true)]
async fn a_node_that_replaced_a_removed_one_stays() {
    for is_written in [false, true] {
        let ensemble = Ensemble::new(3);
        let (admin, other) = (ensemble.connect().await, ensemble.connect().await);
        let name = "_c_a-lock-0000000007";
        contender(&other, name).await;
        let path = format!("{PATH}/{name}");
        let inspector = inspector(&admin);
        let seen = inspector.snapshot().await.unwrap().contenders()[0]
            .contender()
            .clone();
        let lost = ensemble
            .on(matching::deletes(&path))
            .session(admin.id())
            .lose_reply();
        let removing = tokio::spawn(async move { inspector.remove(&seen).await });
        lost.happened().await;
        let recreate = async {
            while other.create(&path, "new").ephemeral().await.is_err() {}
            if is_written {
                other.set(&path, "newer").await.unwrap();
            }
        };
        soon("it is made anew", recreate).await;
        let removal = soon("the removal ends", removing).await.unwrap().unwrap();
        assert_eq!(removal, Removal::Deleted);
        pass(Duration::from_secs(5)).await;
        assert_eq!(left(&ensemble), [name]);
    }
}

/// The node is recreated between the snapshot and the removal.
#[tokio::test(start_paused = true)]
async fn reaping_spares_a_newer_node_of_the_same_name() {
    let ensemble = Ensemble::new(3);
    let (admin, other) = (ensemble.connect().await, ensemble.connect().await);
    let name = "_c_a-lock-0000000007";
    let path = format!("{PATH}/{name}");
    contender(&other, name).await;
    let inspector = inspector(&admin);
    let seen = inspector.reapable(Reap::All).await.unwrap();
    assert_eq!(seen.len(), 1);
    other.delete(&path).await.unwrap();
    contender(&other, name).await;
    assert_eq!(inspector.remove(&seen[0]).await.unwrap(), Removal::Gone);
    // The same between the list and the deletion within one call.
    let held = ensemble
        .on(matching::gets(&path))
        .session(admin.id())
        .hold();
    let reaping = inspector.clone();
    let reaping = tokio::spawn(async move { reaping.reap(Reap::All).await });
    soon("it reads the node", held.happened()).await;
    // The read was executed, and its reply is in flight.
    pass(Duration::from_millis(100)).await;
    other.delete(&path).await.unwrap();
    contender(&other, name).await;
    held.release();
    let reaped = soon("the reaping ends", reaping).await.unwrap().unwrap();
    assert_eq!(reaped, []);
    assert_eq!(left(&ensemble), [name]);
}

#[tokio::test(start_paused = true)]
async fn reaping_by_age_uses_the_clock_of_the_leader() {
    for release in [Release::V3_8, Release::V3_9] {
        let ensemble = Ensemble::builder().servers(3).release(release).build();
        let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
        let inspector = inspector(&admin);
        let age = Reap::OlderThan(Duration::from_secs(60));
        assert_eq!(inspector.reap(age).await.unwrap(), []);
        for name in ["_c_a-lock-0000000001", "x-0a-0000000002", "0", "config"] {
            contender(&session, name).await;
        }
        pass(Duration::from_secs(59)).await;
        contender(&session, "_c_b-lock-0000000003").await;
        assert_eq!(inspector.reapable(age).await.unwrap(), []);
        pass(Duration::from_secs(2)).await;
        let names = |found: &[zk_lock::Contender]| -> Vec<String> {
            found.iter().map(|one| one.name().to_owned()).collect()
        };
        let old = inspector.reapable(age).await.unwrap();
        assert_eq!(names(&old), ["_c_a-lock-0000000001", "x-0a-0000000002"]);
        assert_eq!(left(&ensemble).len(), 5);
        let reaped = inspector.reap(age).await.unwrap();
        assert_eq!(names(&reaped), ["x-0a-0000000002", "_c_a-lock-0000000001"]);
        assert_eq!(left(&ensemble), ["0", "_c_b-lock-0000000003", "config"]);
        assert_eq!(inspector.reap(Reap::All).await.unwrap().len(), 1);
        assert_eq!(left(&ensemble), ["0", "config"]);
    }
}

#[tokio::test(start_paused = true)]
async fn reaping_all_grants_no_waiter_the_lock_in_passing() {
    let ensemble = Ensemble::new(3);
    let (one, other, admin) = (
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
    );
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    let reaped = inspector(&admin).reap(Reap::All).await.unwrap();
    assert_eq!(reaped.len(), 2);
    assert_eq!(reaped[1].fencing_token(), held.fencing_token());
    assert_eq!(
        soon("the loss is reported", held.lost()).await,
        LockLoss::NodeDeleted
    );
    let error = soon("the waiter ends", waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{error:?}"
    );
    assert!(left(&ensemble).is_empty());
}

#[tokio::test(start_paused = true)]
async fn reaping_survives_lost_replies_and_can_be_repeated() {
    for polls in 0.. {
        let ensemble = Ensemble::new(3);
        let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
        for number in 0..3 {
            contender(&session, &format!("_c_a-lock-{number:010}")).await;
        }
        pass(Duration::from_secs(10)).await;
        let lost = ensemble.on(matching::deletes("/**")).every().nth(2);
        let lost = lost.lose_reply();
        let age = Reap::OlderThan(Duration::from_secs(5));
        let inspector = inspector(&admin);
        let done = soon("it ends", polled(polls, inspector.reap(age))).await;
        if polls % 2 == 1 {
            ensemble.session(admin.id()).cut();
        }
        if let Some(reaped) = done {
            assert_eq!(reaped.unwrap().len(), 3);
            assert!(left(&ensemble).is_empty());
            assert_eq!(lost.count(), 1);
            assert!(polls > 5);
            break;
        }
        soon("it ends at last", inspector.reap(age)).await.unwrap();
        assert!(left(&ensemble).is_empty(), "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_identifies_this_process_by_default() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let guard = lock(&session).acquire().await.unwrap();
    let data = session.get(guard.path()).await.unwrap().0;
    let this = OwnerInfo::this_process();
    assert_eq!(OwnerInfo::parse(&data), Some(this.clone()));
    assert_eq!(this.pid(), std::process::id());
    assert_eq!(
        data,
        format!("owner: {}/{}", this.host(), this.pid()).into_bytes()
    );
    guard.release().await.unwrap();
}
