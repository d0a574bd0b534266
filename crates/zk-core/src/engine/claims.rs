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

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;

use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::lock;
use super::watch_manager::Command;
use crate::path::NodePath;

/// The nodes of a session that are under watch in some way, by their paths below the chroot.
#[derive(Debug)]
pub(crate) struct Claims {
    uses: Mutex<HashMap<NodePath, Use>>,
    watch_manager: mpsc::UnboundedSender<Command>,
}

#[derive(Debug, Default)]
struct Use {
    /// Whether the watch manager has, or asks for, a watch of its own there.
    is_hubs: bool,
    /// How many one-shot watches are on their way.
    in_flight: usize,
    /// Those with smaller numbers that were on their way are waited for no longer.
    valid_from: u64,
    /// How many of those there are.
    void: usize,
    /// Whether the watch manager waits until none is on its way.
    hub_waits: bool,
    last_number: u64,
    /// Those that wait for children, by their numbers.
    parents: HashMap<u64, oneshot::Sender<()>>,
}

/// A one-shot watch, from before it is asked for until it is gone.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Arc<Claims>,
    path: NodePath,
    is_in_flight: bool,
    has_fired: bool,
    begun: u64,
    /// Its number, if it waits for children.
    number: Option<u64>,
}

/// Tells a watch that waits for children that one came or went, and any watch that may have been taken back.
pub(crate) type Poke = oneshot::Receiver<()>;

impl Claims {
    pub(super) fn new(watch_manager: mpsc::UnboundedSender<Command>) -> Self {
        Self {
            uses: Mutex::default(),
            watch_manager,
        }
    }

    /// A one-shot watch is about to be asked for.
    pub(crate) fn begin(self: &Arc<Self>, path: NodePath) -> Claim {
        let mut uses = self.uses();
        let it = uses.entry(path.clone()).or_default();
        it.in_flight += 1;
        it.last_number += 1;
        let begun = it.last_number;
        drop(uses);
        Claim {
            claims: Arc::clone(self),
            path,
            is_in_flight: true,
            has_fired: false,
            begun,
            number: None,
        }
    }

    /// Notes whether the watch manager has, or asks for, a watch there.
    pub(super) fn set_hubs(&self, path: &NodePath, is_hubs: bool) {
        let mut uses = self.uses();
        uses.entry(path.clone()).or_default().is_hubs = is_hubs;
        tidy(&mut uses, path);
    }

    /// Returns whether reads with one-shot watches are in flight there. If so, the watch manager is notified when the
    /// last of them is done.
    pub(super) fn waits_for_those_in_flight(&self, path: &NodePath) -> bool {
        let mut uses = self.uses();
        let Some(it) = uses.get_mut(path) else {
            return false;
        };
        it.hub_waits = it.in_flight > 0;
        it.hub_waits
    }

    /// Those that are on their way are waited for no longer.
    pub(super) fn void_those_in_flight(&self, path: &NodePath) {
        if let Some(it) = self.uses().get_mut(path) {
            it.valid_from = it.last_number + 1;
            it.void += std::mem::take(&mut it.in_flight);
            it.hub_waits = false;
        }
    }

    /// A child of the node came or went.
    pub(super) fn poke_parents(&self, path: &NodePath) {
        let mut uses = self.uses();
        let parents = uses
            .get_mut(path)
            .map(|it| std::mem::take(&mut it.parents))
            .unwrap_or_default();
        drop(uses);
        for poke in parents.into_values() {
            let _gone = poke.send(());
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
    /// Whether the watch manager waited until now for those on their way.
    fn no_longer_waits(&mut self) -> bool {
        self.in_flight == 0 && std::mem::take(&mut self.hub_waits)
    }
}

impl Claim {
    /// The watch has been set.
    pub(crate) fn set(&mut self, waits_for_children: bool) -> Option<Poke> {
        let claims = Arc::clone(&self.claims);
        let mut uses = claims.uses();
        let it = uses.entry(self.path.clone()).or_default();
        let is_void = self.arrive(it);
        let poke = (waits_for_children || is_void).then(|| {
            let (poke, poked) = oneshot::channel();
            if is_void {
                let _held = poke.send(());
            } else {
                it.last_number += 1;
                it.parents.insert(it.last_number, poke);
                self.number = Some(it.last_number);
            }
            poked
        });
        let is_told = it.no_longer_waits() || it.is_hubs;
        tidy(&mut uses, &self.path);
        drop(uses);
        if is_told {
            claims.disturbed(&self.path);
        }
        poke
    }

    /// It is on its way no longer; whether it may have been taken back meanwhile.
    fn arrive(&mut self, it: &mut Use) -> bool {
        let is_void = self.begun < it.valid_from;
        if std::mem::take(&mut self.is_in_flight) {
            let among = if is_void {
                &mut it.void
            } else {
                &mut it.in_flight
            };
            *among -= 1;
        }
        is_void
    }

    /// The watch has fired: nothing is taken back.
    pub(crate) fn fired(&mut self) {
        self.has_fired = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let claims = Arc::clone(&self.claims);
        let mut uses = claims.uses();
        let it = uses.entry(self.path.clone()).or_default();
        self.arrive(it);
        if let Some(number) = self.number {
            it.parents.remove(&number);
        }
        let is_told = it.no_longer_waits() || (it.is_hubs && !self.has_fired);
        tidy(&mut uses, &self.path);
        drop(uses);
        if is_told {
            claims.disturbed(&self.path);
        }
    }
}

fn tidy(uses: &mut HashMap<NodePath, Use>, path: &NodePath) {
    if let Some(it) = uses.get(path)
        && !it.is_hubs
        && it.in_flight == 0
        && it.void == 0
        && it.parents.is_empty()
    {
        uses.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: C15
    #[test]
    fn a_watch_that_was_waited_for_no_longer_fires_at_once() {
        let (watch_manager, mut told) = mpsc::unbounded_channel();
        let claims = Arc::new(Claims::new(watch_manager));
        let path = NodePath::parse("/a").unwrap();
        assert!(!claims.waits_for_those_in_flight(&path));
        let (mut late, dropped) = (claims.begin(path.clone()), claims.begin(path.clone()));
        assert!(claims.waits_for_those_in_flight(&path));
        claims.void_those_in_flight(&path);
        assert!(!claims.waits_for_those_in_flight(&path));
        let mut next = claims.begin(path.clone());
        assert!(claims.waits_for_those_in_flight(&path));
        let mut poke = late.set(false).expect("it is told");
        assert_eq!(poke.try_recv(), Ok(()));
        drop((late, dropped));
        assert!(told.try_recv().is_err(), "another one is on its way");
        assert!(next.set(false).is_none(), "nothing was taken from it");
        assert!(matches!(told.try_recv(), Ok(Command::Disturbed { .. })));
        drop(next);
        assert!(
            told.try_recv().is_err(),
            "the watch manager waits for nothing"
        );
        assert!(claims.uses().is_empty());
    }
}
