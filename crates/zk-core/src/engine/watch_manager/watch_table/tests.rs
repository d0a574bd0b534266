//! Each change reaches each subscription that covers it once, whatever else is added and removed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;

fn path(text: &str) -> NodePath {
    NodePath::parse(text).unwrap()
}

/// What the task does, without delay: watches are set as soon as they are wanted.
#[derive(Debug, Default)]
struct Played {
    table: WatchTable,
    set: BTreeMap<NodePath, bool>,
    requested: HashMap<Id, (NodePath, WatchScope)>,
    is_live: HashMap<Id, bool>,
}

impl Played {
    fn subscribe(&mut self, id: Id, at: &str, scope: WatchScope) {
        self.requested.insert(id, (path(at), scope));
        self.is_live.insert(id, false);
        self.table.subscribe(id, path(at), scope);
        self.settle();
    }

    fn unsubscribe(&mut self, id: Id) {
        self.requested.remove(&id);
        self.is_live.remove(&id);
        self.table.unsubscribe(id);
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let dirty = self.table.take_dirty();
            if dirty.is_empty() {
                break;
            }
            for path in dirty {
                let wanted = self.table.wanted(&path);
                if self.set.get(&path).copied() != wanted {
                    self.table.lost(&path);
                    match wanted {
                        Some(is_recursive) => self.set.insert(path.clone(), is_recursive),
                        None => self.set.remove(&path),
                    };
                }
                if wanted.is_some() && !self.table.is_armed(&path) {
                    self.table.armed(&path);
                }
            }
        }
        for (id, received) in self.table.take_events() {
            let Some(is_live) = self.is_live.get_mut(&id) else {
                continue;
            };
            match received {
                SubscriptionEvent::Resynchronize => *is_live = true,
                SubscriptionEvent::Stale => {
                    assert!(*is_live, "marked as stale twice");
                    *is_live = false;
                }
                SubscriptionEvent::Changed { .. } => panic!("nothing has changed"),
            }
        }
        let stale: Vec<_> = self.is_live.iter().filter(|(_, live)| !**live).collect();
        assert!(stale.is_empty(), "{stale:?} do not know that they are live");
        let paths: Vec<_> = self.set.keys().collect();
        assert_eq!(paths, self.table.watches.keys().collect::<Vec<_>>());
    }

    /// A server reports an event.
    fn happens(&mut self, node: &NodePath, event: WatchEvent) {
        let mut happened = vec![(node.clone(), event)];
        if let (WatchEvent::Created | WatchEvent::Deleted, Some(parent)) = (event, node.parent()) {
            happened.push((parent, WatchEvent::ChildrenChanged));
        }
        for (node, event) in &happened {
            for (at, is_recursive) in self.set.clone() {
                let is_met = if is_recursive {
                    *event != WatchEvent::ChildrenChanged && node.depth_below(&at).is_some()
                } else {
                    at == *node
                };
                if is_met {
                    self.table.changed(&at, node, *event, None);
                }
            }
        }
        let received: Vec<_> = self.table.take_events();
        let expected: BTreeSet<_> = self
            .requested
            .iter()
            .flat_map(|(id, (at, scope))| {
                happened
                    .iter()
                    .filter(move |(node, event)| match scope {
                        WatchScope::Node => at == node && *event != WatchEvent::ChildrenChanged,
                        WatchScope::Children => at == node,
                        WatchScope::Below => {
                            *event != WatchEvent::ChildrenChanged && node.depth_below(at).is_some()
                        }
                    })
                    .map(move |(node, event)| format!("{id} {node} {event:?}"))
            })
            .collect();
        let seen: Vec<_> = received
            .iter()
            .map(|(id, received)| match received {
                SubscriptionEvent::Changed { path, event, .. } => format!("{id} {path} {event:?}"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seen.len(), expected.len(), "{seen:?} {expected:?}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

const PATHS: [&str; 9] = [
    "/", "/a", "/b", "/ab", "/a/a", "/a/b", "/a/a/a", "/a/a/b", "/b/a/a/a",
];
const REACHES: [WatchScope; 3] = [WatchScope::Node, WatchScope::Children, WatchScope::Below];
const EVENTS: [WatchEvent; 3] = [
    WatchEvent::Created,
    WatchEvent::Deleted,
    WatchEvent::DataChanged,
];

#[test]
fn any_two_subscriptions_each_receive_their_own_events() {
    for (one, first) in PATHS.iter().flat_map(|at| REACHES.map(|scope| (at, scope))) {
        for (two, second) in PATHS.iter().flat_map(|at| REACHES.map(|scope| (at, scope))) {
            let mut played = Played::default();
            played.subscribe(1, one, first);
            played.subscribe(2, two, second);
            for node in PATHS {
                for event in EVENTS {
                    played.happens(&path(node), event);
                }
            }
            played.unsubscribe(1);
            for node in PATHS {
                played.happens(&path(node), WatchEvent::Created);
            }
            played.unsubscribe(2);
            assert!(played.set.is_empty());
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Subscribe(usize, usize),
    Unsubscribe(usize),
    Happens(usize, usize),
    Break(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..PATHS.len(), 0..REACHES.len()).prop_map(|(at, scope)| Step::Subscribe(at, scope)),
        3 => any::<usize>().prop_map(Step::Unsubscribe),
        4 => (0..PATHS.len(), 0..EVENTS.len()).prop_map(|(at, event)| Step::Happens(at, event)),
        1 => any::<usize>().prop_map(Step::Break),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn each_change_is_reported_once(steps in steps()) {
        let mut played = Played::default();
        let mut last = 0;
        for step in steps {
            let ids = played.table.ids();
            match step {
                Step::Subscribe(at, scope) => {
                    last += 1;
                    played.subscribe(last, PATHS[at], REACHES[scope]);
                }
                Step::Unsubscribe(which) if !ids.is_empty() => {
                    played.unsubscribe(ids[which % ids.len()]);
                }
                Step::Happens(at, event) => played.happens(&path(PATHS[at]), EVENTS[event]),
                Step::Break(which) if !played.set.is_empty() => {
                    let at = played.set.keys().nth(which % played.set.len()).cloned().unwrap();
                    played.table.lost(&at);
                    played.table.armed(&at);
                    played.settle();
                }
                Step::Unsubscribe(_) | Step::Break(_) => {}
            }
        }
        for id in played.table.ids() {
            played.unsubscribe(id);
        }
        prop_assert!(played.set.is_empty());
    }
}

#[test]
fn stale_subscription_reports_no_changes() {
    let mut table = WatchTable::default();
    table.subscribe(1, path("/a"), WatchScope::Children);
    table.armed(&path("/a"));
    table.lost(&path("/a"));
    table.changed(&path("/a"), &path("/a"), WatchEvent::DataChanged, Some(1));
    table.armed(&path("/a"));
    table.changed(
        &path("/a"),
        &path("/a"),
        WatchEvent::ChildrenChanged,
        Some(2),
    );
    let changed = SubscriptionEvent::Changed {
        path: path("/a"),
        event: WatchEvent::ChildrenChanged,
        zxid: Some(2),
    };
    let received = [
        SubscriptionEvent::Resynchronize,
        SubscriptionEvent::Stale,
        SubscriptionEvent::Resynchronize,
        changed,
    ];
    assert_eq!(table.take_events(), received.map(|received| (1, received)));
}
