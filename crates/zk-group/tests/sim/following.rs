//! The live view: what it shows, and when.

use std::time::Duration;

use zk_core::transport::{Request, TransportError};
use zk_core::{Acl, AclEntry, ErrorKind, Permissions};
use zk_group::{Group, MemberChange, Members};
use zk_sim::wait::{pass, soon, until};
use zk_sim::{Ensemble, matching};

use crate::{PATH, current, join, joined, shows};

#[tokio::test(start_paused = true)]
async fn view_reports_what_happened_while_it_was_stale() {
    let sim = Ensemble::new(3);
    let (watching, others) = (sim.open_sessions(), sim.connect().await);
    let group = Group::start(&watching, PATH).unwrap();
    let (stays, leaves) = (join(&others, "stays", "1"), join(&others, "leaves", "1"));
    let before = shows(&group, &["leaves", "stays"]).await;
    let mut changes = group.changes();
    assert_eq!(
        soon("the present ones", changes.next()).await.as_ref(),
        Some(&before)
    );

    sim.session(current(&watching).await.id())
        .cut_for(Duration::from_secs(2));
    let stale = soon("the view is stale", changes.next()).await.unwrap();
    assert!(!stale.is_synchronized() && stale.ids().eq(before.ids()));
    let again = {
        soon("it leaves", leaves.leave()).await.unwrap();
        let again = join(&others, "leaves", "2");
        joined(&again).await;
        again
    };
    soon("it is written", stays.set_payload("3")).await.unwrap();
    let after = soon("it is back", group.wait_for(Members::is_synchronized))
        .await
        .unwrap();
    let kinds: Vec<_> = after
        .changes_since(&before)
        .into_iter()
        .map(|change| match change {
            MemberChange::Joined(one) => format!("joined {}", one.id),
            MemberChange::Left(one) => format!("left {}", one.id),
            MemberChange::PayloadChanged { new, .. } => format!("changed {}", new.id),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["left leaves", "joined leaves", "changed stays"]);
    drop(again);
    // Over the loss of its session.
    sim.expire(current(&watching).await.id());
    shows(&group, &["stays"]).await;
}

/// For those that wait for changes: the view is stale before the session is lost.
#[tokio::test(start_paused = true)]
async fn loss_of_the_member_itself_is_a_change_at_once() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let one = join(&sessions, "one", "");
    shows(one.group(), &["one"]).await;
    let mut changes = one.group().changes();
    let session = current(&sessions).await;
    let gone = tokio::spawn(async move {
        while let Some(members) = changes.next().await {
            if members.is_empty() {
                return members.is_synchronized();
            }
        }
        panic!("the view has ended");
    });
    sim.session(session.id()).partition();
    soon("the session is lost", session.lost()).await;
    // Before the next session has read anything.
    let gone = tokio::time::timeout(Duration::from_millis(2), gone).await;
    assert!(!gone.expect("it is a change").unwrap());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_not_ephemeral_are_no_members() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    session
        .create(format!("{PATH}/foreign"), "x")
        .parents()
        .await
        .unwrap();
    let one = join(&session, "one", "");
    let members = shows(one.group(), &["one"]).await;
    // No payload.
    assert_eq!(members.get("one").unwrap().payload, "");
}

#[tokio::test(start_paused = true)]
async fn view_costs_nothing_while_nothing_changes() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let one = join(&session, "one", "");
    shows(one.group(), &["one"]).await;
    pass(Duration::from_secs(1)).await;
    // The member reads its own node once a session timeout.
    let requests = || {
        let is_own = |request: &Request| matches!(request, Request::Exists { watch: false, .. });
        sim.arrived(move |request| !is_own(request))
    };
    let before = requests();
    for _ in 0..100 {
        assert_eq!(one.group().members().len(), 1);
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(requests(), before);
}

#[tokio::test(start_paused = true)]
async fn view_ends_with_its_last_handle_and_leaves_no_watch() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let group = Group::start(&session, PATH).unwrap();
    shows(&group, &[]).await;
    let mut changes = group.changes();
    soon("the present ones", changes.next()).await.unwrap();
    drop(group);
    let rest = async { while changes.next().await.is_some() {} };
    soon("it ends", rest).await;
    sim.assert_nothing_left([session]).await;
}

/// An empty view would pass for a group without members.
#[tokio::test(start_paused = true)]
async fn view_is_not_synchronized_while_the_group_cannot_be_listed() {
    let sim = Ensemble::new(3);
    let (member, reader) = (sim.connect().await, sim.connect().await);
    let one = join(&member, "one", "1");
    joined(&one).await;
    let refused = sim.on(matching::lists(PATH)).session(reader.id()).from(1);
    let refused = refused.refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let group = Group::start(&reader, PATH).unwrap();
    until("it says why", async || group.partial_read().is_some()).await;
    let members = group.members();
    assert!(members.is_empty() && !members.is_synchronized());
    refused.withdraw();
    sim.session(reader.id()).cut_for(Duration::from_millis(10));
    shows(&group, &["one"]).await;
    assert!(group.partial_read().is_none());
}

/// Otherwise a foreign node would keep a partitioner from sharing its items.
#[tokio::test(start_paused = true)]
async fn child_that_cannot_be_read_is_no_member_and_hides_none() {
    let sim = Ensemble::new(3);
    let (member, reader) = (sim.connect().await, sim.connect().await);
    let one = join(&member, "one", "1");
    joined(&one).await;
    let foreign = format!("{PATH}/foreign");
    let unreadable = Acl::new([AclEntry::new(Permissions::DELETE, "world", "anyone")]);
    let create = member.create(&*foreign, "").acl(unreadable);
    create.await.unwrap();
    let group = Group::start(&reader, PATH).unwrap();
    shows(&group, &["one"]).await;
    let (path, _) = group.partial_read().expect("it is reported");
    assert_eq!(path.as_str(), foreign);
}
