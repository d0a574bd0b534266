//! Caches on a simulated ensemble, under paused time.

#![cfg(test)]

use std::collections::BTreeMap;
use std::time::Duration;

use zk_cache::Event;
use zk_cache::Events;
use zk_cache::Snapshot;
use zk_core::NodePath;
use zk_sim::Ensemble;

mod chaos;

/// The root of the caches of the tests.
const ROOT: &str = "/t";

fn path(text: &str) -> NodePath {
    text.parse().expect("a good path")
}

/// What tells one state of a node from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    czxid: i64,
    mzxid: i64,
    version: i32,
    data: Option<Vec<u8>>,
}

impl Seen {
    fn of(node: &zk_cache::Node) -> Self {
        Self {
            czxid: node.stat().czxid,
            mzxid: node.stat().mzxid,
            version: node.stat().version,
            data: node.data().map(<[u8]>::to_vec),
        }
    }
}

type Nodes = BTreeMap<String, Seen>;

fn nodes_of(snapshot: &Snapshot) -> Nodes {
    let nodes = snapshot.nodes();
    nodes
        .map(|node| (node.path().to_string(), Seen::of(node)))
        .collect()
}

/// The nodes at and below the root, as the leader has them.
fn nodes_on(ensemble: &Ensemble, root: &str) -> Nodes {
    let below = format!("{root}/");
    let tree = ensemble.tree();
    let nodes = tree.nodes();
    nodes
        .filter(|(path, _)| path.as_str() == root || path.as_str().starts_with(&below))
        .map(|(path, node)| {
            let stat = node.stat();
            let seen = Seen {
                czxid: stat.czxid,
                mzxid: stat.mzxid,
                version: stat.version,
                data: Some(node.data().to_vec()),
            };
            (path.to_string(), seen)
        })
        .collect()
}

/// Plays events over what was there before, and complains of any that does not fit.
#[derive(Debug, Default, Clone)]
struct Replay {
    nodes: Nodes,
    /// The newest transaction that was told of each node that ever was.
    newest: BTreeMap<String, i64>,
    /// How many events there were that changed something.
    played: usize,
    is_synchronized: bool,
}

impl Replay {
    fn play(&mut self, event: &Event) {
        match event {
            Event::Created(new) => {
                let name = new.path().to_string();
                let before = self.nodes.insert(name.clone(), Seen::of(new));
                assert_eq!(before, None, "{event:?} was there");
                self.rises(name, new.stat().czxid, event);
                self.rises_or_stays(new, event);
            }
            Event::Changed { old, new } => {
                let name = new.path().to_string();
                assert!(old.is_same(new), "{event:?}");
                let before = self.nodes.insert(name.clone(), Seen::of(new));
                assert_eq!(before, Some(Seen::of(old)), "{event:?}");
                self.rises(name, new.stat().mzxid, event);
            }
            Event::Deleted(old) => {
                let name = old.path().to_string();
                let before = self.nodes.remove(&name);
                assert_eq!(before, Some(Seen::of(old)), "{event:?}");
                self.played += 1;
            }
            Event::Synchronized { .. } => {
                assert!(!self.is_synchronized, "synchronized twice");
                self.is_synchronized = true;
            }
            Event::Stale => {
                assert!(self.is_synchronized, "stale twice");
                self.is_synchronized = false;
            }
            Event::Ended(_) => self.is_synchronized = false,
            other => panic!("{other:?} was not expected"),
        }
    }

    fn rises(&mut self, name: String, zxid: i64, event: &Event) {
        let before = self.newest.insert(name, zxid);
        assert!(before < Some(zxid), "{event:?} after {before:?}");
        self.played += 1;
    }

    fn rises_or_stays(&mut self, node: &zk_cache::Node, event: &Event) {
        let newest = self.newest.get_mut(node.path().as_str());
        let newest = newest.expect("it was told of");
        assert!(*newest <= node.stat().mzxid, "{event:?}");
        *newest = node.stat().mzxid;
    }
}

/// Waits at most two minutes of the paused clock.
async fn soon<T>(what: &str, happening: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(Duration::from_secs(120), happening).await;
    happened.unwrap_or_else(|_| panic!("waited two minutes for this: {what}"))
}

/// Lets time pass, and everything happen that happens by then.
async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

/// The next event that is such a one, which is soon; those before it are left aside.
async fn until(what: &str, events: &mut Events, is_it: impl Fn(&Event) -> bool) -> Event {
    soon(what, async {
        loop {
            let event = events.next().await;
            let event = event.unwrap_or_else(|| panic!("it ended before this: {what}"));
            if is_it(&event) {
                return event;
            }
        }
    })
    .await
}

async fn until_synchronized(events: &mut Events) {
    until("it is synchronized", events, |event| {
        matches!(event, Event::Synchronized { .. })
    })
    .await;
}

/// Events in few words, until nothing comes for a while.
async fn told(events: &mut Events) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(5), events.next()).await {
        told.push(in_words(&event));
    }
    told
}

fn in_words(event: &Event) -> String {
    let text = |node: &zk_cache::Node| {
        let data = node
            .data()
            .map_or_else(|| "-".into(), String::from_utf8_lossy);
        format!("{} {data}", node.path())
    };
    match event {
        Event::Created(node) => format!("+ {}", text(node)),
        Event::Changed { old, new } => format!("~ {} -> {}", text(old), text(new)),
        Event::Deleted(node) => format!("- {}", text(node)),
        Event::Synchronized { .. } => "synchronized".to_owned(),
        Event::Stale => "stale".to_owned(),
        Event::Incomplete { path, gap } => format!("! {path}: {gap}"),
        Event::Ended(end) => format!("ended: {end}"),
        other => format!("{other:?}"),
    }
}
