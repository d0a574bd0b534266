//! Sharing and handing over, without failures.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use zk_group::Membership;
use zk_group::partitioner::{InvalidItem, Partitioner, StartError};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, polled, soon, until};

use super::{PATH, SETTLE, allocated, gets_nothing, owned, settled, start};

const ITEMS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Only items that move are to be released, and they move when they are.
#[tokio::test(start_paused = true)]
async fn item_moves_when_its_owner_has_released_it() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.connect().await, sim.connect().await);
    let one = start(&first, "one", &ITEMS);
    let mut items = owned(&one, 5).await;
    assert_eq!(one.share(), ITEMS);
    let two = start(&second, "two", &ITEMS);
    let moving = allocated(&two, 2).await;
    until("the first one knows", async || one.share().len() == 3).await;
    for (item, guard) in &items {
        assert_eq!(
            guard.is_release_requested(),
            moving.contains(item),
            "{item}"
        );
        if moving.contains(item) {
            soon("it says so", guard.release_requested()).await;
        }
    }
    gets_nothing(&two).await;
    let mut theirs = BTreeSet::new();
    for item in &moving {
        let token = items[item].fencing_token();
        let released = items.remove(item).unwrap().release();
        soon("it is released", released).await.unwrap();
        let guard = soon("it moves", two.next()).await.unwrap();
        assert_eq!(guard.item(), item);
        assert!(guard.fencing_token() > token);
        theirs.insert(guard.item().to_owned());
        // It is not returned again while it is owned.
        gets_nothing(&two).await;
        drop(guard);
        let again = soon("it is acquired again", two.next()).await.unwrap();
        assert_eq!(again.item(), item);
        items.insert(item.clone(), again);
    }
    assert!(items.values().all(|guard| guard.is_valid()));
    // It leaves: its items are to be released, and are valid until then.
    soon("it leaves", two.leave()).await.unwrap();
    for item in &moving {
        assert!(items[item].is_release_requested() && items[item].is_valid());
        soon("it says so", items[item].release_requested()).await;
    }
    allocated(&one, 5).await;
    gets_nothing(&one).await;
    items.retain(|item, _| !moving.contains(item));
    let moved = owned(&one, 2).await;
    assert!(moved.keys().eq(theirs.iter()));
    drop((one, items, moved));
    tokio::task::yield_now().await;
    sim.assert_nothing_left([first, second]).await;
}

/// An application that does not take its items does not keep them from others.
#[tokio::test(start_paused = true)]
async fn item_that_was_not_taken_is_released() {
    let sim = Ensemble::new(3);
    let (first, second) = (sim.connect().await, sim.connect().await);
    let one = start(&first, "one", &ITEMS);
    allocated(&one, 5).await;
    settled().await;
    let two = start(&second, "two", &ITEMS);
    let theirs = owned(&two, 2).await;
    let ours = owned(&one, 3).await;
    assert!(ours.keys().all(|item| !theirs.contains_key(item)));
}

/// The application is woken before the task of the item that it asks for.
#[tokio::test(start_paused = true)]
async fn item_that_is_to_be_released_is_not_returned() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let one = Arc::new(start(&session, "one", &["a", "b"]));
    let first = soon("it owns an item", one.next()).await.unwrap();
    assert_eq!(first.item(), "a");
    settled().await;
    let requested = first.release_requested();
    let application = Arc::clone(&one);
    // Polled once: its own task takes the item back when it runs.
    let asking = tokio::spawn(async move {
        requested.await;
        polled(1, application.next()).await
    });
    pass(SETTLE).await;
    one.set_items([""; 0]).unwrap();
    let returned = soon("it is to be released", asking).await.unwrap();
    assert!(returned.is_none(), "{returned:?}");
    assert!(first.is_valid());
    session.settled().await;
    let locks = sim.tree().paths().into_iter();
    let locks = locks.filter(|path| path.contains("__lock__"));
    assert_eq!(locks.collect::<Vec<_>>(), [first.path().to_string()]);
}

/// A member that restarts, however often, moves nothing, and gets its items again.
#[tokio::test(start_paused = true)]
async fn members_that_come_back_in_time_move_nothing() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let one = start(&session, "one", &ITEMS);
    let mut two = start(&session, "two", &ITEMS);
    let share = allocated(&two, 2).await;
    let items = owned(&one, 3).await;
    for _ in 0..3 {
        soon("it leaves", two.leave()).await.unwrap();
        let taken = tokio::time::timeout(SETTLE / 2, one.next()).await;
        assert!(taken.is_err(), "{taken:?}");
        two = start(&session, "two", &ITEMS);
        assert_eq!(allocated(&two, 2).await, share);
        assert!(items.values().all(|guard| !guard.is_release_requested()));
    }
    // One that never stays keeps the others from nothing for ever.
    let flaps = async {
        loop {
            let three = Membership::join_with(
                &session,
                format!("{PATH}/party"),
                "three",
                "",
                zk_group::Layout::KazooShallowParty,
            );
            pass(SETTLE / 2).await;
            drop(three);
            pass(SETTLE / 4).await;
        }
    };
    drop(two);
    let before = one.share();
    tokio::select! {
        () = flaps => {}
        () = until("it is acted on", async || one.share() != before) => {}
    }
}

/// Equal identifiers get different shares.
#[tokio::test(start_paused = true)]
async fn members_with_equal_ids_have_different_items() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let members = [(); 3].map(|()| start(&session, "same", &ITEMS));
    let mut all = BTreeSet::new();
    for member in &members {
        until("they see each other", async || {
            member.membership().group().members().len() == 3
        })
        .await;
    }
    settled().await;
    for member in &members {
        let count = member.share().len();
        all.extend(owned(member, count).await.into_keys());
    }
    assert!(all.iter().eq(ITEMS.iter()));
}

#[tokio::test(start_paused = true)]
async fn items_can_change_and_be_fewer_than_members() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let members = [
        start(&session, "one", &["a"]),
        start(&session, "two", &["a"]),
    ];
    let owner = usize::from(allocated_to_second(&members).await);
    let items = owned(&members[owner], 1).await;
    gets_nothing(&members[1 - owner]).await;
    for member in &members {
        member.set_items(["b", "c"]).unwrap();
    }
    soon("it is to be released", items["a"].release_requested()).await;
    let others = [owned(&members[0], 1).await, owned(&members[1], 1).await];
    assert!(others[0].keys().ne(others[1].keys()));
    assert!(items["a"].is_valid());
    // It comes back before it was released.
    for member in &members {
        member.set_items(["a"]).unwrap();
    }
    for guard in others.into_iter().flatten() {
        soon("it is to be released", guard.1.release_requested()).await;
    }
    settled().await;
    assert!(!items["a"].is_release_requested());
    gets_nothing(&members[owner]).await;
    for member in &members {
        member.set_items(Vec::<String>::new()).unwrap();
    }
    soon("it is to be released", items["a"].release_requested()).await;
    drop(items);
    settled().await;
    assert_eq!(members[owner].share(), Vec::<String>::new());
}

async fn allocated_to_second(members: &[Partitioner; 2]) -> bool {
    let all_see = async || {
        members
            .iter()
            .all(|one| one.membership().group().members().len() == 2)
    };
    until("they see each other", all_see).await;
    settled().await;
    members[0].share().is_empty()
}

#[tokio::test(start_paused = true)]
async fn nodes_are_where_those_of_kazoo_are() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let one = start(&session, "host-1", &["x"]);
    let items = owned(&one, 1).await;
    let tree = sim.tree();
    let paths: Vec<_> = tree.nodes().map(|(path, _)| path.to_string()).collect();
    let is_there = |start: &str, middle: &str| {
        let rest = |path: &String| {
            path.strip_prefix(start)
                .is_some_and(|rest| rest.contains(middle))
        };
        paths.iter().any(rest)
    };
    assert!(is_there(&format!("{PATH}/party/"), "-host-1"), "{paths:?}");
    assert!(
        is_there(&format!("{PATH}/locks/x/"), "__lock__0000000000"),
        "{paths:?}"
    );
    drop(items);
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_are_refused_at_once() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    for item in ["", "a/b", "..", "."] {
        let error = Partitioner::start(&session, PATH, "one", ["a", item]).unwrap_err();
        let refused =
            matches!(&error, StartError::Item(InvalidItem { item: found, .. }) if found == item);
        assert!(refused, "{item}: {error}");
    }
    assert!(Partitioner::start(&session, PATH, "a/b", ["a"]).is_err());
    assert!(Partitioner::start(&session, "no path", "a", ["a"]).is_err());
    pass(Duration::from_secs(1)).await;
    assert!(sim.tree().node("/groups").is_none());
    let one = start(&session, "one", &["a"]);
    assert!(one.set_items(["b", "x/y"]).is_err());
    assert_eq!(allocated(&one, 1).await, ["a"]);
}
