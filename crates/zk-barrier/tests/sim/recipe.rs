//! The layout of the recipe: our members together, and together with what Curator's and kazoo's members do to the nodes.

use std::time::Duration;

use zk_barrier::{DoubleBarrier, EnterError, Layout, LeaveError, Member};
use zk_core::Session;
use zk_core::transport::{MultiOp, Request};
use zk_sim::wait::{pass, soon};
use zk_sim::{Ensemble, Kind, Node};
use zk_testkit::sim::children;

use crate::PATH;

const SECOND: Duration = Duration::from_secs(1);
const READY: &str = "/barriers/a/ready";
/// The node of a member of Curator, whose name is a UUID, and of kazoo, whose name is one without dashes.
const CURATORS: &str = "/barriers/a/0b4f6d3e-6a0e-4b0a-9d4c-5b1d6c7e8f90";
const KAZOOS: &str = "/barriers/a/ffb0ad9d5f2a4b9f8d0c1e2f3a4b5c6d";

fn barrier(session: &Session) -> DoubleBarrier {
    crate::double(session, 2).with_layout(Layout::Recipe)
}

fn entering(session: &Session) -> tokio::task::JoinHandle<Result<Member, EnterError>> {
    let barrier = barrier(session);
    tokio::spawn(async move { barrier.enter().await })
}

async fn entered(entering: tokio::task::JoinHandle<Result<Member, EnterError>>) -> Member {
    soon("it passes", entering).await.unwrap().unwrap()
}

fn leaving(member: Member) -> tokio::task::JoinHandle<Result<(), LeaveError>> {
    tokio::spawn(member.leave())
}

#[tokio::test(start_paused = true)]
async fn our_members_meet_in_the_layout_of_the_recipe() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    for _ in 0..3 {
        let first = entering(&one);
        pass(SECOND).await;
        assert!(!first.is_finished());
        let second = entered(entering(&two)).await;
        let first = entered(first).await;
        assert_eq!(first.round(), None);
        assert!(children(&ensemble, PATH).contains(&"ready".to_owned()));
        let first = leaving(first);
        pass(SECOND).await;
        assert!(!first.is_finished());
        // It enters again at once, and the other one does not wait for it to leave.
        soon("all leave", second.leave()).await.unwrap();
        let again = entering(&two);
        soon("all have left", first).await.unwrap().unwrap();
        pass(SECOND).await;
        assert!(!again.is_finished());
        again.abort();
        pass(SECOND).await;
        assert_eq!(children(&ensemble, PATH), [""; 0]);
    }
    // kazoo creates it once.
    let kind = ensemble.tree().node(PATH).map(Node::kind);
    assert_eq!(kind, Some(Kind::Persistent));
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn members_of_others_are_counted_and_waited_for() {
    for theirs in [CURATORS, KAZOOS] {
        let ensemble = Ensemble::new(3);
        let (ours, peer) = (ensemble.connect().await, ensemble.connect().await);
        // They come first, and ours opens the round.
        peer.create(theirs, "10.0.0.7")
            .ephemeral()
            .parents()
            .await
            .unwrap();
        let member = entered(entering(&ours)).await;
        assert!(peer.exists(READY).await.unwrap().is_some());
        let leave = leaving(member);
        pass(SECOND).await;
        assert!(!leave.is_finished());
        peer.delete(theirs).await.unwrap();
        soon("they have left", leave).await.unwrap().unwrap();
        assert_eq!(children(&ensemble, PATH), [""; 0]);
        // Ours comes first, and they open the round. kazoo removes it when it begins to leave.
        let waiting = entering(&ours);
        pass(SECOND).await;
        peer.create(theirs, "").ephemeral().await.unwrap();
        pass(SECOND).await;
        assert!(!waiting.is_finished());
        let at_once = peer.transaction().create(READY, "").delete(READY);
        at_once.commit().await.unwrap();
        let member = entered(waiting).await;
        peer.delete(theirs).await.unwrap();
        // They have opened the next round meanwhile.
        peer.create(READY, "").await.unwrap();
        soon("none is left", member.leave()).await.unwrap();
        assert_eq!(children(&ensemble, PATH), ["ready"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_ready_that_was_left_behind_lets_none_of_ours_in() {
    // B3: `ready` stays when all members die.
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    two.create(READY, "").parents().await.unwrap();
    let first = entering(&one);
    pass(10 * SECOND).await;
    assert!(!first.is_finished());
    assert_eq!(children(&ensemble, PATH).len(), 1);
    let second = entered(entering(&two)).await;
    drop((entered(first).await, second));
}

#[tokio::test(start_paused = true)]
async fn a_late_member_joins_an_open_round_of_the_recipe() {
    let ensemble = Ensemble::new(3);
    let (ours, peer) = (ensemble.connect().await, ensemble.connect().await);
    peer.create(CURATORS, "")
        .ephemeral()
        .parents()
        .await
        .unwrap();
    peer.create(READY, "").await.unwrap();
    let member = entered(entering(&ours)).await;
    peer.delete(CURATORS).await.unwrap();
    // One that comes when no member of the beginning is left waits for the next round.
    let late = entering(&peer);
    pass(SECOND).await;
    assert!(!late.is_finished());
    soon("it leaves", member.leave()).await.unwrap();
    pass(SECOND).await;
    assert!(!late.is_finished());
    let other = entered(entering(&ours)).await;
    drop((entered(late).await, other));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_leaves_no_member_in_the_recipe_either() {
    // B1.
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let error = barrier(&session).enter_timeout(SECOND).await.unwrap_err();
    assert!(
        matches!(error, EnterError::TimedOut { members: 1, .. }),
        "{error}"
    );
    assert_eq!(children(&ensemble, PATH), [""; 0]);
    // B2, B6: an event that is none of `ready`, and a connection that breaks.
    let waiting = entering(&session);
    for _ in 0..3 {
        pass(SECOND).await;
        ensemble.session(session.id()).cut();
    }
    pass(SECOND).await;
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn no_ready_ends_a_leave_of_the_recipe() {
    // B5: `enter` and `leave` shared a watcher, and a new `ready` let a member go while another one was inside.
    let ensemble = Ensemble::new(3);
    let (one, two, peer) = (
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
    );
    let first = entering(&one);
    pass(SECOND).await;
    let stays = entered(entering(&two)).await;
    let leave = leaving(entered(first).await);
    pass(SECOND).await;
    for data in ["a", "b"] {
        peer.set(READY, data).await.unwrap();
        pass(SECOND).await;
        peer.delete(READY).await.unwrap();
        pass(SECOND).await;
        peer.create(READY, "").await.unwrap();
        pass(SECOND).await;
        assert!(!leave.is_finished());
    }
    // A member of the same session enters, with a watch on the same node.
    let late = entered(entering(&one)).await;
    pass(SECOND).await;
    assert!(!leave.is_finished());
    for member in [leaving(stays), leave, leaving(late)] {
        soon("all leave", member).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_deleted_while_it_waits_passes_no_round_of_the_recipe() {
    let ensemble = Ensemble::new(3);
    let (ours, peer) = (ensemble.connect().await, ensemble.connect().await);
    let waiting = entering(&ours);
    pass(SECOND).await;
    let own = format!("{PATH}/{}", children(&ensemble, PATH)[0]);
    peer.delete(&own).await.unwrap();
    pass(SECOND).await;
    assert!(!waiting.is_finished());
    // Two others open the round without it.
    let (second, third) = (entering(&peer), entering(&peer));
    let (second, third) = (entered(second).await, entered(third).await);
    let error = soon("it is notified", waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, EnterError::NodeDeleted { path } if path.as_str() == own),
        "{error}"
    );
    // It is not waited for, and can enter again.
    let (second, third) = (leaving(second), leaving(third));
    for leaving in [second, third] {
        soon("all leave", leaving).await.unwrap().unwrap();
    }
    let again = [entering(&ours), entering(&peer)];
    for again in again {
        drop(entered(again).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_deleted_before_its_timeout_or_its_opening_passes_no_round_of_the_recipe() {
    let ensemble = Ensemble::builder().reconnect_after(SECOND).build();
    let (ours, peer) = (ensemble.connect().await, ensemble.connect().await);
    let barrier = barrier(&ours);
    let limited = tokio::spawn(async move { barrier.enter_timeout(10 * SECOND).await });
    pass(SECOND).await;
    let own = format!("{PATH}/{}", children(&ensemble, PATH)[0]);
    peer.delete(&own).await.unwrap();
    let error = soon("its time is over", limited)
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, EnterError::TimedOut { .. }), "{error}");
    // It completes the round, but its request to open it is lost, and it is deleted meanwhile.
    let first = entering(&peer);
    pass(SECOND).await;
    let opens = |request: &Request| match request {
        Request::Multi(parts) => {
            matches!(parts[..], [MultiOp::Check { .. }, MultiOp::Create2(_)])
        }
        _ => false,
    };
    let lost = ensemble.on(opens).session(ours.id()).lose_request();
    let second = entering(&ours);
    lost.happened().await;
    for name in children(&ensemble, PATH) {
        let path = format!("{PATH}/{name}");
        let owner = ensemble.tree().node(&path).and_then(Node::owner);
        if owner == Some(ours.id()) {
            peer.delete(&path).await.unwrap();
        }
    }
    let error = soon("it is notified", second).await.unwrap().unwrap_err();
    assert!(matches!(error, EnterError::NodeDeleted { .. }), "{error}");
    pass(SECOND).await;
    assert!(!first.is_finished());
    assert_eq!(children(&ensemble, PATH).len(), 1);
    first.abort();
}
