//! Joining, staying and leaving.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{ErrorClass, ErrorKind, PersistentNodeError, PersistentNodeProblem};
use zk_group::{JoinError, Layout, Membership, SetPayloadError};
use zk_sim::wait::{pass, polled, soon, until};
use zk_sim::{Ensemble, matching};

use crate::{PATH, current, join, join_with, joined, shows};

#[tokio::test(start_paused = true)]
async fn members_see_each_other_with_their_payloads() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.connect().await, sim.connect().await);
    let one = join(&first, "one", "1");
    joined(&one).await;
    let two = join(&second, "two", "2");
    for membership in [&one, &two] {
        let members = shows(membership.group(), &["one", "two"]).await;
        let found: Vec<_> = members
            .iter()
            .map(|member| (&*member.id, &*member.payload, member.session))
            .collect();
        assert_eq!(
            found,
            [("one", &b"1"[..], first.id()), ("two", b"2", second.id())]
        );
        assert!(membership.is_member() && membership.problem().is_none());
    }
    soon("it is written", one.set_payload("3")).await.unwrap();
    let written = two
        .group()
        .wait_for(|now| now.get("one").is_some_and(|one| one.payload == "3"));
    soon("it is seen", written).await.unwrap();
    soon("it leaves", one.leave()).await.unwrap();
    assert!(sim.tree().node(&format!("{PATH}/one")).is_none());
    shows(two.group(), &["two"]).await;
    drop(two);
    tokio::task::yield_now().await;
    sim.assert_nothing_left([first, second]).await;
}

/// A member whose session died must not report itself, and one that died reports itself no more.
#[tokio::test(start_paused = true)]
async fn member_is_never_reported_after_its_session_died() {
    for moment in 0..60 {
        let sim = Ensemble::new(3);
        let sessions = sim.open_sessions();
        let membership = join(&sessions, "one", "1");
        shows(membership.group(), &["one"]).await;
        let session = current(&sessions).await;
        let lost = session.id();
        // A cut-off client gives up its session while the view still has the node.
        if moment % 2 == 0 {
            sim.session(lost).partition();
        } else {
            sim.expire(lost);
        }
        soon("the session is lost", session.lost()).await;
        pass(Duration::from_micros(200 * moment)).await;
        let members = membership.group().members();
        assert!(members.iter().all(|one| one.session != lost), "{members:?}");
        let again =
            |members: &zk_group::Members| members.get("one").is_some_and(|one| one.session != lost);
        soon("it joined again", membership.group().wait_for(again))
            .await
            .unwrap();
        joined(&membership).await;
        assert!(membership.is_member());
    }
    // With one session, it ends; the view says so, and ends.
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let membership = join(&session, "one", "1");
    let mut changes = membership.group().changes();
    shows(membership.group(), &["one"]).await;
    sim.session(session.id()).partition();
    let last = async {
        let mut last = None;
        while let Some(members) = changes.next().await {
            last = Some(members);
        }
        last.expect("there was something")
    };
    let last = soon("the view ends", last).await;
    assert!(last.is_empty() && !last.is_synchronized(), "{last:?}");
    assert!(!membership.is_member());
    let error = soon("it has ended", membership.ready()).await.unwrap_err();
    assert!(matches!(error, PersistentNodeError::Ended));
    membership.leave().await.unwrap();
}

/// Equal identifiers.
#[tokio::test(start_paused = true)]
async fn one_member_at_a_time_has_an_id() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.connect().await, sim.connect().await);
    let one = join(&first, "same", "1");
    joined(&one).await;
    for session in [&first, &second] {
        let other = join(session, "same", "2");
        until("it is reported", async || other.problem().is_some()).await;
        let problem = other.problem().unwrap();
        assert!(
            matches!(&problem, PersistentNodeProblem::Taken { owner, .. } if *owner == Some(first.id())),
            "{problem}"
        );
        assert!(!other.is_member());
        // It sees the member that has the id, which is not itself.
        let members = shows(other.group(), &["same"]).await;
        assert_eq!(members.get("same").unwrap().payload, "1");
    }
    let other = join(&second, "same", "2");
    drop(one);
    joined(&other).await;
    let mine = other
        .group()
        .wait_for(|now| now.get("same").is_some_and(|one| one.payload == "2"));
    soon("it is seen", mine).await.unwrap();
}

/// In the layouts of kazoo, several members may have an id.
#[tokio::test(start_paused = true)]
async fn members_of_kazoo_may_have_equal_ids() {
    for layout in [Layout::KazooParty, Layout::KazooShallowParty] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let (one, two) = (
            join_with(&session, "same", layout),
            join_with(&session, "same", layout),
        );
        shows(one.group(), &["same", "same"]).await;
        let error = one.set_payload("x").await.unwrap_err();
        assert!(matches!(&error, SetPayloadError::NoPayloads(found) if *found == layout));
        assert_eq!(error.class(), ErrorClass::Outcome);
        soon("it leaves", two.leave()).await.unwrap();
        shows(one.group(), &["same"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_ids_and_payloads_are_refused_at_once() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    for id in ["", "a/b", "..", "."] {
        assert!(Membership::join(&session, PATH, id, "").is_err(), "{id}");
    }
    let error = Membership::join(&session, "no path", "a", "").unwrap_err();
    assert!(matches!(error, JoinError::InvalidPath(_)), "{error}");
    let layout = Layout::KazooParty;
    let error = Membership::join_with(&session, PATH, "a", "x", layout).unwrap_err();
    assert!(matches!(error, JoinError::NoPayloads(_)), "{error}");
    pass(Duration::from_secs(1)).await;
    assert!(sim.tree().node("/groups").is_none());
}

#[tokio::test(start_paused = true)]
async fn refused_join_is_reported_and_tried_again() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let refused = sim
        .on(matching::creates(PATH))
        .from(1)
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let membership = join(&session, "one", "1");
    let error = soon("it is reported", membership.ready())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, PersistentNodeError::Refused(error) if error.kind() == ErrorKind::NoAuth)
    );
    assert!(!membership.is_member() && membership.group().members().is_empty());
    refused.withdraw();
    until("it is a member", async || membership.is_member()).await;
    shows(membership.group(), &["one"]).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_membership_leaves_nothing_behind() {
    for moment in 0..40 {
        for leaves in [false, true] {
            let sim = Ensemble::new(3);
            let session = sim.connect().await;
            let membership = join(&session, "one", "1");
            pass(Duration::from_micros(500 * moment)).await;
            if leaves {
                // It goes on in the background.
                assert!(polled(1, membership.leave()).await.is_none());
                pass(Duration::from_secs(5)).await;
            } else {
                drop(membership);
                tokio::task::yield_now().await;
            }
            sim.assert_nothing_left([session.clone()]).await;
        }
    }
}
