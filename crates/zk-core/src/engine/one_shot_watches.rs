//! One-shot watches and those of subscriptions on the same node of one session.
//!
//! The two kinds disturb each other. On servers before 3.9 a new watch replaces one of the other kind (ZOOKEEPER-4466).
//! Removing one-shot watches also removes the other kind. The client crate removes all watches on a node with the last
//! one it knows, including a watch whose reply is still in flight.
//!
//! The watch manager is therefore notified when one-shot watches are set or removed on a node of its own, and sets its
//! own watch again. It removes its own watch only while no read with a watch is in flight, and forwards notifications
//! about children to the waiters whose watch its own replaced.
//! A read that is not polled stays in flight until it is dropped. The watch manager waits for such a read only for a
//! limited time. The watch of that read may then be gone when its reply arrives; it fires at once, so that its holder
//! reads again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{mpsc, oneshot};
use zk_wire::NodePath;

use super::lock;
use super::watch_manager::command::Command;

/// The watched nodes of a session, by the paths that the servers know.
#[derive(Debug)]
pub(crate) struct OneShotWatches {
    uses: Mutex<HashMap<NodePath, Use>>,
    watch_manager: mpsc::UnboundedSender<Command>,
}

#[derive(Debug, Default)]
struct Use {
    /// Whether the watch manager has its own watch on the node, or has requested one.
    is_managed: bool,
    /// The number of reads with a one-shot watch in flight that the watch manager waits for.
    in_flight: usize,
    /// The watch manager no longer waits for reads with smaller numbers.
    valid_from: u64,
    /// The number of reads in flight that the watch manager no longer waits for.
    abandoned: usize,
    /// Whether the watch manager waits until no read with a one-shot watch is in flight.
    manager_waits: bool,
    last_number: u64,
    /// The watches that wait for children, by their numbers.
    parents: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A one-shot watch, from before its request until it fires or is dropped.
#[derive(Debug)]
pub(crate) struct OneShotWatch {
    watches: Arc<OneShotWatches>,
    path: NodePath,
    is_in_flight: bool,
    has_fired: bool,
    begun: u64,
    /// The number of the watch, if it waits for children.
    number: Option<u64>,
}

/// Fires a watch that waits for children when one is created or deleted, and any watch that may have been removed.
pub(crate) type Wakeup = oneshot::Receiver<()>;

impl OneShotWatches {
    pub(super) fn new(watch_manager: mpsc::UnboundedSender<Command>) -> Self {
        Self {
            uses: Mutex::default(),
            watch_manager,
        }
    }

    /// Registers a one-shot watch that is about to be requested.
    pub(crate) fn begin(self: &Arc<Self>, path: NodePath) -> OneShotWatch {
        let mut uses = self.uses();
        let it = uses.entry(path.clone()).or_default();
        it.in_flight += 1;
        it.last_number += 1;
        let begun = it.last_number;
        drop(uses);
        OneShotWatch {
            watches: Arc::clone(self),
            path,
            is_in_flight: true,
            has_fired: false,
            begun,
            number: None,
        }
    }

    /// Records whether the watch manager has its own watch on the node, or has requested one.
    pub(super) fn set_managed(&self, path: &NodePath, is_managed: bool) {
        let mut uses = self.uses();
        uses.entry(path.clone()).or_default().is_managed = is_managed;
        tidy(&mut uses, path);
    }

    /// Returns whether reads of the node with one-shot watches are in flight. If so, the watch manager is notified when
    /// the last of them completes.
    pub(super) fn wait_for_in_flight(&self, path: &NodePath) -> bool {
        let mut uses = self.uses();
        let Some(it) = uses.get_mut(path) else {
            return false;
        };
        it.manager_waits = it.in_flight > 0;
        it.manager_waits
    }

    /// Stops waiting for the reads in flight.
    pub(super) fn abandon_in_flight(&self, path: &NodePath) {
        if let Some(it) = self.uses().get_mut(path) {
            it.valid_from = it.last_number + 1;
            it.abandoned += std::mem::take(&mut it.in_flight);
            it.manager_waits = false;
        }
    }

    /// Fires the watches that wait for children of the node.
    pub(super) fn fire_parents(&self, path: &NodePath) {
        let mut uses = self.uses();
        let parents = uses
            .get_mut(path)
            .map(|it| std::mem::take(&mut it.parents))
            .unwrap_or_default();
        drop(uses);
        for wakeup in parents.into_values() {
            let _gone = wakeup.send(());
        }
    }

    fn disturbed(&self, path: &NodePath) {
        let _gone = self
            .watch_manager
            .send(Command::Disturbed { path: path.clone() });
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<NodePath, Use>> {
        lock(&self.uses)
    }
}

impl Use {
    /// Returns whether the watch manager waited for reads in flight and the last one has completed.
    fn ends_wait(&mut self) -> bool {
        self.in_flight == 0 && std::mem::take(&mut self.manager_waits)
    }
}

impl OneShotWatch {
    /// Records that the watch is set.
    pub(crate) fn set(&mut self, waits_for_children: bool) -> Option<Wakeup> {
        let watches = Arc::clone(&self.watches);
        let mut uses = watches.uses();
        let it = uses.entry(self.path.clone()).or_default();
        let is_abandoned = self.arrive(it);
        let wakeup = (waits_for_children || is_abandoned).then(|| {
            let (wakeup, woken) = oneshot::channel();
            if is_abandoned {
                let _held = wakeup.send(());
            } else {
                it.last_number += 1;
                it.parents.insert(it.last_number, wakeup);
                self.number = Some(it.last_number);
            }
            woken
        });
        let is_disturbed = it.ends_wait() || it.is_managed;
        tidy(&mut uses, &self.path);
        drop(uses);
        if is_disturbed {
            watches.disturbed(&self.path);
        }
        wakeup
    }

    /// Records that the read completed. Returns whether the client crate may have removed the watch meanwhile.
    fn arrive(&mut self, it: &mut Use) -> bool {
        let is_abandoned = self.begun < it.valid_from;
        if std::mem::take(&mut self.is_in_flight) {
            let count = if is_abandoned {
                &mut it.abandoned
            } else {
                &mut it.in_flight
            };
            *count -= 1;
        }
        is_abandoned
    }

    /// Records that the watch fired, so that dropping it removes no watch.
    pub(crate) fn fired(&mut self) {
        self.has_fired = true;
    }
}

impl Drop for OneShotWatch {
    fn drop(&mut self) {
        let watches = Arc::clone(&self.watches);
        let mut uses = watches.uses();
        let it = uses.entry(self.path.clone()).or_default();
        self.arrive(it);
        if let Some(number) = self.number {
            it.parents.remove(&number);
        }
        let is_disturbed = it.ends_wait() || (it.is_managed && !self.has_fired);
        tidy(&mut uses, &self.path);
        drop(uses);
        if is_disturbed {
            watches.disturbed(&self.path);
        }
    }
}

fn tidy(uses: &mut HashMap<NodePath, Use>, path: &NodePath) {
    if let Some(it) = uses.get(path)
        && !it.is_managed
        && it.in_flight == 0
        && it.abandoned == 0
        && it.parents.is_empty()
    {
        uses.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_of_an_abandoned_read_fires_at_once() {
        let (watch_manager, mut commands) = mpsc::unbounded_channel();
        let watches = Arc::new(OneShotWatches::new(watch_manager));
        let path = NodePath::parse("/a").unwrap();
        assert!(!watches.wait_for_in_flight(&path));
        let (mut late, dropped) = (watches.begin(path.clone()), watches.begin(path.clone()));
        assert!(watches.wait_for_in_flight(&path));
        watches.abandon_in_flight(&path);
        assert!(!watches.wait_for_in_flight(&path));
        let mut next = watches.begin(path.clone());
        assert!(watches.wait_for_in_flight(&path));
        let mut wakeup = late.set(false).expect("the watch fires");
        assert_eq!(wakeup.try_recv(), Ok(()));
        drop((late, dropped));
        assert!(commands.try_recv().is_err(), "another read is in flight");
        assert!(next.set(false).is_none(), "its watch is still set");
        assert!(matches!(commands.try_recv(), Ok(Command::Disturbed { .. })));
        drop(next);
        assert!(
            commands.try_recv().is_err(),
            "the watch manager does not wait"
        );
        assert!(watches.uses().is_empty());
    }
}
