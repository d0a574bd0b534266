use super::*;
use crate::tree::Counters;
use zk_core::WatchEvent as Event;

fn path(path: &str) -> NodePath {
    NodePath::parse(path).unwrap()
}

fn session(id: i64) -> SessionId {
    SessionId::from_i64(id)
}

fn notified(table: &mut WatchTable, event: Event) -> Vec<i64> {
    let trigger = Trigger::new(&path("/a"), event);
    let sessions = table.trigger(&trigger).into_iter();
    sessions.map(SessionId::as_i64).collect()
}

#[test]
fn each_event_takes_the_watches_it_is_for_and_no_other() {
    let table = || {
        let mut table = WatchTable::new(Release::V3_9);
        table.add(session(1), &path("/a"), WatchKind::Data);
        table.add(session(2), &path("/a"), WatchKind::Exist);
        table.add(session(3), &path("/a"), WatchKind::Child);
        table.add(session(4), &path("/b"), WatchKind::Data);
        table
    };
    for (event, expected, left) in [
        (Event::Created, vec![1, 2], 2),
        (Event::DataChanged, vec![1, 2], 2),
        (Event::Deleted, vec![1, 2, 3], 1),
        (Event::ChildrenChanged, vec![3], 3),
    ] {
        let mut table = table();
        assert_eq!(notified(&mut table, event), expected, "{event:?}");
        assert_eq!(table.count(), left, "{event:?}");
        assert!(notified(&mut table, event).is_empty(), "one-shot");
    }
}

#[test]
fn a_session_that_waits_twice_is_told_once() {
    let mut table = WatchTable::new(Release::V3_9);
    table.add(session(1), &path("/a"), WatchKind::Data);
    table.add(session(1), &path("/a"), WatchKind::Data);
    table.add(session(1), &path("/a"), WatchKind::Child);
    assert_eq!(table.count(), 2);
    assert_eq!(notified(&mut table, Event::Deleted), [1]);
}

#[test]
fn a_watch_taken_back_or_a_session_forgotten_leaves_nothing() {
    let mut table = WatchTable::new(Release::V3_9);
    table.add(session(1), &path("/a"), WatchKind::Data);
    table.add(session(2), &path("/a"), WatchKind::Data);
    table.add(session(2), &path("/a"), WatchKind::Child);
    table.remove(session(1), &path("/a"), Removal::Data);
    assert_eq!(table.count(), 2, "data and birth are one watch of a server");
    table.forget(session(2));
    assert_eq!(table.count(), 0);
}

#[test]
fn a_removal_spares_the_other_watches_and_those_asked_for() {
    use Removal::{Any, Children, Data as DataOnly};
    use WatchKind::{Child, Data, Exist, Persistent};
    for (dropped, others, is_asked_for, expected) in [
        (Data, vec![], false, Some(Any)),
        (Data, vec![], true, Some(DataOnly)),
        (Child, vec![], true, Some(Children)),
        (Persistent, vec![], true, Some(Any)),
        (Data, vec![Exist], false, None),
        (Data, vec![Child], false, Some(DataOnly)),
        (Child, vec![Persistent], true, Some(Children)),
        (Persistent, vec![Data], false, None),
    ] {
        let removal = Removal::of(dropped, &others, is_asked_for);
        assert_eq!(removal, expected, "{dropped:?} {others:?} {is_asked_for}");
    }
}

#[test]
fn a_watch_set_again_tells_what_was_missed() {
    // The root of a new server: nothing was ever changed, no transaction has touched it.
    let tree = Tree::new(Counters::Stick);
    let there = path("/zookeeper");
    let gone = path("/gone");
    for (at, kind, seen, expected) in [
        (&there, WatchKind::Data, 0, None),
        (&there, WatchKind::Data, -1, Some(Event::DataChanged)),
        (&there, WatchKind::Child, 0, None),
        (&there, WatchKind::Child, -1, Some(Event::ChildrenChanged)),
        (&there, WatchKind::Exist, 0, Some(Event::Created)),
        (&gone, WatchKind::Data, 0, Some(Event::Deleted)),
        (&gone, WatchKind::Child, 0, Some(Event::Deleted)),
        (&gone, WatchKind::Exist, 0, None),
    ] {
        assert_eq!(missed(&tree, at, kind, seen), expected, "{at} {kind:?}");
    }
}
