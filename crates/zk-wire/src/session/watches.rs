//! The watches of a session: which of them an event fires, and how they are set on another connection.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use super::Ticket;
use crate::path::NodePath;
use crate::proto::{Request, WatchEventKind, WatchKind, WatchLists};

/// The watches that the server has set for this session.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// The requests that have set each watch.
    by_path: BTreeMap<NodePath, BTreeMap<WatchKind, Vec<Ticket>>>,
    paths: BTreeMap<Ticket, (NodePath, WatchKind)>,
    recursive: usize,
}

impl Watches {
    /// Adds the watch that a request has set.
    pub(super) fn add(&mut self, ticket: Ticket, path: NodePath, kind: WatchKind) {
        let kinds = self.by_path.entry(path.clone()).or_default();
        kinds.entry(kind).or_default().push(ticket);
        self.recursive += usize::from(kind == WatchKind::PersistentRecursive);
        self.paths.insert(ticket, (path, kind));
    }

    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.paths.contains_key(&ticket)
    }

    /// Returns the watches that an event concerns. Those that fire once are gone then.
    pub(super) fn fire(&mut self, path: &NodePath, event: WatchEventKind) -> Vec<Ticket> {
        let mut fired = Vec::new();
        if let Some(kinds) = self.by_path.get_mut(path) {
            for kind in fired_by(event) {
                for ticket in kinds.remove(kind).unwrap_or_default() {
                    self.paths.remove(&ticket);
                    fired.push(ticket);
                }
            }
            fired.extend(kinds.get(&WatchKind::Persistent).into_iter().flatten());
            if kinds.is_empty() {
                self.by_path.remove(path);
            }
        }
        if self.recursive > 0 && event != WatchEventKind::ChildrenChanged {
            for watched in ancestors(path.as_str()) {
                let kinds = self.by_path.get(watched);
                let tickets = kinds.and_then(|kinds| kinds.get(&WatchKind::PersistentRecursive));
                fired.extend(tickets.into_iter().flatten());
            }
        }
        fired
    }

    /// Forgets a watch, and returns the request that removes it from the server, if one can: servers before 3.9 cannot
    /// remove one kind of watch where a persistent one stays (ZOOKEEPER-4472).
    pub(super) fn forget(&mut self, ticket: Ticket) -> Option<Request> {
        let (path, kind) = self.paths.remove(&ticket)?;
        let kinds = self.by_path.get_mut(&path)?;
        let tickets = kinds.get_mut(&kind)?;
        tickets.retain(|other| *other != ticket);
        self.recursive -= usize::from(kind == WatchKind::PersistentRecursive);
        if !tickets.is_empty() {
            return None;
        }
        kinds.remove(&kind);
        let removed = if kinds.is_empty() {
            self.by_path.remove(&path);
            None
        } else if is_persistent(kind)
            || kinds.keys().copied().any(is_persistent)
            || kinds.keys().any(|other| is_one_to_the_server(kind, *other))
        {
            return None;
        } else {
            Some(kind)
        };
        Some(Request::RemoveWatches {
            path,
            kind: removed,
        })
    }

    /// Returns the lists that set the watches on another connection, in parts of at most `limit` bytes of paths.
    pub(super) fn lists(&self, limit: usize) -> Vec<WatchLists> {
        let mut parts = Vec::new();
        let mut part = WatchLists::default();
        let mut bytes = 0;
        for (path, kinds) in &self.by_path {
            for kind in kinds.keys() {
                if bytes > 0 && bytes + path.as_str().len() > limit {
                    parts.push(std::mem::take(&mut part));
                    bytes = 0;
                }
                bytes += path.as_str().len();
                let list = match kind {
                    WatchKind::Data => &mut part.data,
                    WatchKind::Exist => &mut part.exist,
                    WatchKind::Child => &mut part.child,
                    WatchKind::Persistent => &mut part.persistent,
                    WatchKind::PersistentRecursive => &mut part.recursive,
                };
                list.push(path.clone());
            }
        }
        if bytes > 0 {
            parts.push(part);
        }
        parts
    }
}

/// Returns the watches that fire once and that an event of their node fires.
const fn fired_by(event: WatchEventKind) -> &'static [WatchKind] {
    match event {
        WatchEventKind::Created | WatchEventKind::DataChanged => {
            &[WatchKind::Data, WatchKind::Exist]
        }
        WatchEventKind::Deleted => &[WatchKind::Data, WatchKind::Exist, WatchKind::Child],
        WatchEventKind::ChildrenChanged => &[WatchKind::Child],
    }
}

/// Returns whether watches of a kind stay set after they have fired.
const fn is_persistent(kind: WatchKind) -> bool {
    matches!(kind, WatchKind::Persistent | WatchKind::PersistentRecursive)
}

/// Returns whether the server keeps both as one watch.
fn is_one_to_the_server(one: WatchKind, other: WatchKind) -> bool {
    let is_data = |kind| matches!(kind, WatchKind::Data | WatchKind::Exist);
    is_data(one) && is_data(other)
}

/// Returns a path and those above it.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/')? {
        _ if *path == "/" => None,
        0 => Some("/"),
        end => Some(&path[..end]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> NodePath {
        text.parse().unwrap()
    }

    fn watches(all: &[(u64, &str, WatchKind)]) -> Watches {
        let mut watches = Watches::default();
        for (ticket, at, kind) in all {
            watches.add(Ticket(*ticket), path(at), *kind);
        }
        watches
    }

    fn fire(watches: &mut Watches, at: &str, event: WatchEventKind) -> Vec<u64> {
        let fired = watches.fire(&path(at), event);
        fired.into_iter().map(|Ticket(ticket)| ticket).collect()
    }

    const ALL: [(u64, &str, WatchKind); 5] = [
        (1, "/a", WatchKind::Data),
        (2, "/a", WatchKind::Exist),
        (3, "/a", WatchKind::Child),
        (4, "/a", WatchKind::Persistent),
        (5, "/a", WatchKind::PersistentRecursive),
    ];

    #[test]
    fn an_event_fires_the_watches_of_its_kind() {
        use WatchEventKind as Event;
        for (path, event, expected) in [
            ("/a", Event::Created, &[1, 2, 4, 5][..]),
            ("/a", Event::DataChanged, &[1, 2, 4, 5]),
            ("/a", Event::Deleted, &[1, 2, 3, 4, 5]),
            ("/a", Event::ChildrenChanged, &[3, 4]),
            ("/a/b", Event::Created, &[5]),
            ("/a/b/c", Event::Deleted, &[5]),
            ("/a/b", Event::ChildrenChanged, &[]),
            ("/ab", Event::Deleted, &[]),
            ("/", Event::ChildrenChanged, &[]),
        ] {
            let mut watches = watches(&ALL);
            let fired = fire(&mut watches, path, event);
            assert_eq!(fired, expected, "{path} {event:?}");
            // Only persistent ones fire again.
            let again: Vec<_> = expected
                .iter()
                .copied()
                .filter(|ticket| *ticket > 3)
                .collect();
            assert_eq!(fire(&mut watches, path, event), again, "{path} {event:?}");
        }
    }

    #[test]
    fn a_recursive_watch_of_the_root_sees_every_node() {
        let mut watches = watches(&[(1, "/", WatchKind::PersistentRecursive)]);
        for path in ["/", "/a", "/a/b"] {
            assert_eq!(fire(&mut watches, path, WatchEventKind::Created), [1]);
        }
    }

    #[test]
    fn the_last_watch_of_a_path_is_removed_from_the_server() {
        let removal = |kind| {
            Some(Request::RemoveWatches {
                path: path("/a"),
                kind,
            })
        };
        let (data, exist, child) = (WatchKind::Data, WatchKind::Exist, WatchKind::Child);
        let persistent = WatchKind::Persistent;
        for (others, kind, expected) in [
            (&[][..], data, removal(None)),
            (&[], persistent, removal(None)),
            (&[child], data, removal(Some(data))),
            (&[data], child, removal(Some(child))),
            // The other one is still needed.
            (&[data], data, None),
            (&[exist], data, None),
            (&[persistent], child, None),
            (&[child], persistent, None),
        ] {
            let mut watches = watches(&[(1, "/a", kind)]);
            for (ticket, other) in (2..).zip(others) {
                watches.add(Ticket(ticket), path("/a"), *other);
            }
            assert_eq!(
                watches.forget(Ticket(1)),
                expected,
                "{kind:?} beside {others:?}"
            );
            assert_eq!(watches.forget(Ticket(1)), None);
        }
    }

    #[test]
    fn lists_hold_every_watch_once_and_keep_the_limit() {
        let mut watches = watches(&ALL);
        for ticket in 10..1000 {
            let path = path(&format!("/{ticket:099}"));
            watches.add(Ticket(ticket), path.clone(), WatchKind::Data);
            watches.add(Ticket(ticket + 1000), path, WatchKind::Data);
        }
        let parts = watches.lists(1000);
        assert_eq!(parts.len(), 100);
        let mut paths = Vec::new();
        for part in parts {
            let lists = [
                part.data,
                part.exist,
                part.child,
                part.persistent,
                part.recursive,
            ];
            let part = lists.concat();
            let bytes: usize = part.iter().map(|path| path.as_str().len()).sum();
            assert!(bytes <= 1000);
            paths.extend(part);
        }
        assert_eq!(paths.len(), 995);
        assert!(Watches::default().lists(1000).is_empty());
    }
}
