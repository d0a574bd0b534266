//! Lost sessions, connections and replies, deleted nodes, missing rights, and dropped futures.

use std::time::Duration;

use zk_cache::CacheEnd;
use zk_core::transport::TransportError;
use zk_core::{Acl, AclEntry, ErrorKind, Permissions, Session};
use zk_group::partitioner::{Partitioner, PartitionerProblem};
use zk_lock::LockLoss;
use zk_sim::wait::{pass, polled, soon, until};
use zk_sim::{Ensemble, matching};

use super::{PATH, SETTLE, allocated, gets_nothing, owned, settled, start};
use crate::current;

/// The next session acquires the items again, each when its guard is dropped.
#[tokio::test(start_paused = true)]
async fn items_of_a_lost_session_are_acquired_again_when_dropped() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let one = start(&sessions, "one", &["a", "b"]);
    let mut items = owned(&one, 2).await;
    let session = current(&sessions).await;
    sim.expire(session.id());
    for guard in items.values() {
        let loss = soon("it is lost", guard.lost()).await;
        assert!(
            matches!(loss, LockLoss::SessionLost | LockLoss::SessionLeaseExpired),
            "{loss}"
        );
        assert!(!guard.is_release_requested());
    }
    soon("the session is lost", session.lost()).await;
    gets_nothing(&one).await;
    drop(items.remove("a"));
    let again = owned(&one, 1).await;
    assert!(again["a"].is_valid());
    gets_nothing(&one).await;
    drop(items);
    assert!(owned(&one, 1).await["b"].is_valid());
}

/// With one session, everything ends with it.
#[tokio::test(start_paused = true)]
async fn partitioner_with_one_session_ends_with_it() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.connect().await, sim.connect().await);
    let one = start(&first, "one", &["a", "b"]);
    let items = owned(&one, 2).await;
    let two = start(&second, "two", &["a", "b"]);
    sim.session(first.id()).partition();
    assert!(soon("it ends", one.next()).await.is_none());
    for guard in items.values() {
        assert!(!guard.is_valid());
        soon("it is to be released", guard.release_requested()).await;
    }
    // Its guards keep no other member waiting.
    let theirs = owned(&two, 2).await;
    assert!(theirs.values().all(|guard| guard.is_valid()));
    one.leave().await.unwrap();
}

/// Nothing moves if the connection is back in time.
#[tokio::test(start_paused = true)]
async fn short_cut_moves_nothing() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.connect().await, sim.connect().await);
    let (one, two) = (
        start(&first, "one", &["a", "b"]),
        start(&second, "two", &["a", "b"]),
    );
    let items = (owned(&one, 1).await, owned(&two, 1).await);
    sim.session(first.id()).cut_for(Duration::from_secs(2));
    settled().await;
    let mut all = items.0.values().chain(items.1.values());
    assert!(all.all(|guard| guard.is_valid() && !guard.is_release_requested()));
}

/// Its id is in the group twice, until the session of the process that died expires.
#[tokio::test(start_paused = true)]
async fn member_that_restarts_after_a_crash_moves_nothing() {
    let sim = Ensemble::new(3);
    let items = ["a", "b", "c", "d", "e", "f"];
    let start = |session: &Session, id: &str| {
        Partitioner::start(session, PATH, id, items).expect("good arguments")
    };
    let (crashed, other, restarted) = (
        sim.connect().await,
        sim.connect().await,
        sim.connect().await,
    );
    let (one, two) = (start(&crashed, "one"), start(&other, "two"));
    let share = allocated(&one, 3).await;
    let theirs = owned(&two, 3).await;
    let requested: Vec<_> = theirs
        .values()
        .map(|guard| tokio::spawn(guard.release_requested()))
        .collect();
    sim.session(crashed.id()).partition();
    pass(Duration::from_secs(3)).await;
    assert!(sim.sessions().contains(&crashed.id()));
    let again = start(&restarted, "one");
    until("it has a share", async || !again.share().is_empty()).await;
    assert_eq!(again.share(), share);
    assert!(owned(&again, 3).await.into_keys().eq(share));
    pass(Duration::from_secs(60)).await;
    assert!(!sim.sessions().contains(&crashed.id()));
    assert!(theirs.values().all(|guard| guard.is_valid()));
    assert!(requested.iter().all(|requested| !requested.is_finished()));
}

/// The view of the group is empty then.
#[tokio::test(start_paused = true)]
async fn nothing_is_allocated_anew_without_a_connection() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let one = start(&sessions, "one", &["a", "b"]);
    let items = owned(&one, 2).await;
    let session = current(&sessions).await;
    for server in 1..=3 {
        sim.server(server).stop();
    }
    soon("the session is lost", session.lost()).await;
    settled().await;
    assert!(one.membership().group().members().is_empty());
    assert_eq!(one.share(), ["a", "b"]);
    for guard in items.values() {
        assert!(!guard.is_valid() && !guard.is_release_requested());
    }
    for server in 1..=3 {
        sim.server(server).start();
    }
    drop(items);
    assert!(owned(&one, 2).await.values().all(|guard| guard.is_valid()));
}

/// A change is acted on when the members are known again.
#[tokio::test(start_paused = true)]
async fn change_waits_for_the_connection() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let one = start(&sessions, "one", &["a", "b"]);
    let items = owned(&one, 2).await;
    one.set_items(["a"]).unwrap();
    for server in 1..=3 {
        sim.server(server).stop();
    }
    settled().await;
    assert_eq!(one.share(), ["a", "b"]);
    assert!(!items["b"].is_release_requested());
    for server in 1..=3 {
        sim.server(server).start();
    }
    soon("it is to be released", items["b"].release_requested()).await;
    assert_eq!(one.share(), ["a"]);
}

/// The others may have to return as well: a change that was pending is not acted on at once, however old it is.
#[tokio::test(start_paused = true)]
async fn pending_change_settles_anew_after_an_outage() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.open_sessions(), sim.open_sessions());
    let (one, two) = (
        start(&first, "one", &["a", "b"]),
        start(&second, "two", &["a", "b"]),
    );
    let items = (owned(&one, 1).await, owned(&two, 1).await);
    let shares = (one.share(), two.share());
    one.set_items(["c"]).unwrap();
    for server in 1..=3 {
        sim.server(server).stop();
    }
    pass(30 * SETTLE).await;
    for server in 1..=3 {
        sim.server(server).start();
    }
    let group = one.membership().group();
    soon("it sees the group", group.synchronized())
        .await
        .unwrap();
    pass(SETTLE / 2).await;
    assert_eq!((one.share(), two.share()), shares);
    one.set_items(["a", "b"]).unwrap();
    settled().await;
    assert_eq!((one.share(), two.share()), shares);
    let mut all = items.0.values().chain(items.1.values());
    assert!(all.all(|guard| !guard.is_release_requested()));
}

#[tokio::test(start_paused = true)]
async fn deleted_nodes_are_made_again() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let one = start(&session, "one", &["a", "b"]);
    let mut items = owned(&one, 2).await;
    let party = format!("{PATH}/party");
    other.delete(&*party).recursive().await.unwrap();
    settled().await;
    assert!(
        items
            .values()
            .all(|guard| guard.is_valid() && !guard.is_release_requested())
    );
    assert_eq!(one.membership().group().members().len(), 1);
    other.delete(items["a"].path()).await.unwrap();
    let loss = soon("it is lost", items["a"].lost()).await;
    assert_eq!(loss, LockLoss::NodeDeleted);
    drop(items.remove("a"));
    assert!(owned(&one, 1).await["a"].is_valid());
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_reported_and_tried_again() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let refused = sim
        .on(matching::creates(&format!("{PATH}/locks/a/**")))
        .from(1)
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let one = start(&session, "one", &["a", "b"]);
    let items = owned(&one, 1).await;
    assert!(items.contains_key("b"));
    until("it is reported", async || one.problem().is_some()).await;
    let problem = one.problem().unwrap();
    assert!(
        matches!(&problem, PartitionerProblem::Item { item, .. } if item == "a"),
        "{problem}"
    );
    refused.withdraw();
    assert!(owned(&one, 1).await.contains_key("a"));
    assert!(one.problem().is_none());
}

/// It is a member that the others count, and does not know of itself.
#[tokio::test(start_paused = true)]
async fn members_that_cannot_be_read_are_reported() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let party = format!("{PATH}/party");
    let refused = sim
        .on(matching::gets(&format!("{party}/**")))
        .from(1)
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let one = start(&session, "one", &["a", "b"]);
    gets_nothing(&one).await;
    let problem = one.problem().expect("it is reported");
    assert!(
        matches!(&problem, PartitionerProblem::View { path, .. } if path.to_string().starts_with(&party)),
        "{problem}"
    );
    refused.withdraw();
    sim.session(session.id()).cut_for(Duration::from_millis(10));
    assert_eq!(owned(&one, 2).await.len(), 2);
    assert!(one.problem().is_none());
}

/// Servers do not report a node to a session that may not read it, so that there is nothing to be refused.
#[tokio::test(start_paused = true)]
async fn member_whose_view_does_not_show_it_is_reported() {
    let sim = Ensemble::new(3);
    let (session, admin) = (sim.connect().await, sim.connect().await);
    let party = format!("{PATH}/party");
    admin.create(&*party, "").parents().await.unwrap();
    // The view is loaded first. It reads, and is refused, what is there by then.
    let refused = sim
        .on(matching::creates(&format!("{party}/**")))
        .from(1)
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let rights = Permissions::CREATE | Permissions::DELETE;
    let unreadable = Acl::new([AclEntry::new(rights, "world", "anyone")]);
    let one = start(&session.with_acl(unreadable), "one", &["a", "b"]);
    let membership = one.membership();
    let loaded = soon("the view is loaded", membership.group().synchronized());
    assert!(loaded.await.unwrap().is_empty());
    refused.withdraw();
    until("it is a member", async || membership.is_member()).await;
    // It may only not show it yet.
    pass(SETTLE / 2).await;
    assert!(one.problem().is_none(), "{:?}", one.problem());
    gets_nothing(&one).await;
    let problem = one.problem().expect("it is reported");
    assert!(
        matches!(&problem, PartitionerProblem::Unseen { path, .. } if path.to_string().starts_with(&party)),
        "{problem}"
    );
}

/// The session refuses the watch.
#[tokio::test(start_paused = true)]
async fn partitioner_ends_with_the_view_of_the_group() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let party = format!("{PATH}/party");
    sim.on(matching::watches(&party))
        .every()
        .refuse(TransportError::Refused(ErrorKind::InvalidArgument, None));
    let one = start(&session, "one", &["a", "b"]);
    assert!(soon("it ends", one.next()).await.is_none());
    let problem = one.problem().expect("it is reported");
    assert!(
        matches!(problem, PartitionerProblem::Ended(CacheEnd::Refused(_))),
        "{problem}"
    );
}

/// What failed was done since, although the item is not owned yet.
#[tokio::test(start_paused = true)]
async fn item_that_is_waited_for_is_no_problem() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.connect().await, sim.connect().await);
    let one = start(&first, "one", &["a", "b"]);
    let items = owned(&one, 2).await;
    let refused = sim
        .on(matching::creates(&format!("{PATH}/locks/**")))
        .session(second.id())
        .from(1)
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let two = start(&second, "two", &["a", "b"]);
    until("it is reported", async || two.problem().is_some()).await;
    refused.withdraw();
    until("it waits", async || two.problem().is_none()).await;
    assert!(items.values().all(|guard| guard.is_valid()));
    drop(items);
    drop(owned(&two, 1).await);
}

/// The process was stopped for longer than its session lives, and its application is the first task that goes on.
#[tokio::test(start_paused = true)]
async fn item_that_is_lost_is_not_returned() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let one = start(&sessions, "one", &["a"]);
    allocated(&one, 1).await;
    settled().await;
    let stands_still = tokio::time::advance(Duration::from_secs(60));
    assert!(polled(1, stands_still).await.is_none());
    let guard = soon("it is acquired again", one.next()).await.unwrap();
    assert!(guard.is_valid());
}

#[test]
fn partitioner_ends_with_its_runtime() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    let first = runtime();
    let (one, items) = first.block_on(async {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let one = start(&session, "one", &["a", "b"]);
        let items = owned(&one, 2).await;
        (one, items)
    });
    drop(first);
    runtime().block_on(async {
        assert!(soon("it ends", one.next()).await.is_none());
        assert!(one.share().is_empty());
        for guard in items.values() {
            soon("it is to be released", guard.release_requested()).await;
        }
    });
}

/// Each future is dropped at each of its await points.
#[tokio::test(start_paused = true)]
async fn dropped_futures_lose_no_item_and_leave_nothing() {
    for times in 0..200 {
        let sim = Ensemble::new(3);
        let (first, second) = (sim.connect().await, sim.connect().await);
        let one = start(&first, "one", &["a"]);
        let next = polled(times % 20, one.next()).await.flatten();
        let guard = match next {
            Some(guard) => guard,
            None => soon("it is not missed", one.next()).await.unwrap(),
        };
        let is_done = polled(times, guard.release()).await.is_some();
        let guard = soon("it is acquired again", one.next()).await.unwrap();
        let two = start(&second, "two", &["a"]);
        until("they see each other", async || {
            one.membership().group().members().len() == 2
        })
        .await;
        let left = polled(times, one.leave()).await.is_some();
        soon("it is to be released", guard.release_requested()).await;
        drop(guard);
        drop(owned(&two, 1).await);
        drop(two);
        tokio::task::yield_now().await;
        sim.assert_nothing_left([first, second]).await;
        if is_done && left {
            return;
        }
    }
    panic!("they have too many await points");
}

/// The reply to each request of a member is lost in turn.
#[tokio::test(start_paused = true)]
async fn lost_replies_change_nothing() {
    for number in 1..=20 {
        let sim = Ensemble::new(3);
        let (first, second) = (sim.connect().await, sim.connect().await);
        let lost = sim.on(matching::anything()).session(first.id());
        let lost = lost.nth(number).lose_reply();
        let one = start(&first, "one", &["a", "b"]);
        let items = owned(&one, 2).await;
        let two = start(&second, "two", &["a", "b"]);
        let moving = allocated(&two, 1).await.remove(0);
        soon("it is to be released", items[&moving].release_requested()).await;
        drop(items);
        let (ours, theirs) = (owned(&one, 1).await, owned(&two, 1).await);
        assert!(ours.keys().ne(theirs.keys()));
        soon("it leaves", one.leave()).await.unwrap();
        assert_eq!(lost.count(), 1, "request {number}");
        drop((ours, two, theirs));
        tokio::task::yield_now().await;
        sim.assert_nothing_left([first, second]).await;
    }
}
