use super::*;
use crate::tree::Counters;
use zk_core::WatchEvent as Event;

fn path(path: &str) -> NodePath {
    NodePath::parse(path).unwrap()
}

fn session(id: i64) -> SessionId {
    SessionId::from_i64(id)
}

fn told(table: &mut WatchTable, event: Event) -> Vec<i64> {
    let trigger = Trigger::new(&path("/a"), event);
    let sessions = table.trigger(&trigger).into_iter();
    sessions.map(SessionId::as_i64).collect()
}

#[test]
fn each_event_takes_the_watches_it_is_for_and_no_other() {
    let table = || {
        let mut table = WatchTable::new(Release::V3_9);
        table.add(session(1), &path("/a"), Awaited::Data);
        table.add(session(2), &path("/a"), Awaited::Birth);
        table.add(session(3), &path("/a"), Awaited::Children);
        table.add(session(4), &path("/b"), Awaited::Data);
        table
    };
    for (event, expected, left) in [
        (Event::Created, vec![1, 2], 2),
        (Event::DataChanged, vec![1, 2], 2),
        (Event::Deleted, vec![1, 2, 3], 1),
        (Event::ChildrenChanged, vec![3], 3),
    ] {
        let mut table = table();
        assert_eq!(told(&mut table, event), expected, "{event:?}");
        assert_eq!(table.count(), left, "{event:?}");
        assert!(told(&mut table, event).is_empty(), "one-shot");
    }
}

#[test]
fn a_session_that_waits_twice_is_told_once() {
    let mut table = WatchTable::new(Release::V3_9);
    table.add(session(1), &path("/a"), Awaited::Data);
    table.add(session(1), &path("/a"), Awaited::Data);
    table.add(session(1), &path("/a"), Awaited::Children);
    assert_eq!(table.count(), 2);
    assert_eq!(told(&mut table, Event::Deleted), [1]);
}

#[test]
fn a_watch_taken_back_or_a_session_forgotten_leaves_nothing() {
    let mut table = WatchTable::new(Release::V3_9);
    table.add(session(1), &path("/a"), Awaited::Data);
    table.add(session(2), &path("/a"), Awaited::Data);
    table.add(session(2), &path("/a"), Awaited::Children);
    table.remove(session(1), &path("/a"), Removal::Data);
    assert_eq!(table.count(), 2, "data and birth are one watch of a server");
    table.forget(session(2));
    assert_eq!(table.count(), 0);
}

#[test]
fn a_watch_set_again_tells_what_was_missed() {
    // The root of a new server: nothing was ever changed, no transaction has touched it.
    let tree = Tree::new(Counters::Stick);
    let there = path("/zookeeper");
    let gone = path("/gone");
    for (at, awaited, seen, expected) in [
        (&there, Awaited::Data, 0, None),
        (&there, Awaited::Data, -1, Some(Event::DataChanged)),
        (&there, Awaited::Children, 0, None),
        (&there, Awaited::Children, -1, Some(Event::ChildrenChanged)),
        (&there, Awaited::Birth, 0, Some(Event::Created)),
        (&gone, Awaited::Data, 0, Some(Event::Deleted)),
        (&gone, Awaited::Children, 0, Some(Event::Deleted)),
        (&gone, Awaited::Birth, 0, None),
    ] {
        assert_eq!(
            missed(&tree, at, awaited, seen),
            expected,
            "{at} {awaited:?}"
        );
    }
}
