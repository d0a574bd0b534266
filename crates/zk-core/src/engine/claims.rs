//! One-shot watches and those of subscriptions on the same node of one session.
//!
//! They disturb each other: on servers before 3.9 the kind that is set last takes the place of the other
//! (ZOOKEEPER-4466), one-shot watches that are taken back take the other kind with them, and the client crate takes back
//! all watches on a node with the last one it knows, also one whose answer is on its way.
//! So the hub is told when one-shot watches on a node of its own come or go, and sets its own again; it gives its own back
//! only while none is on its way; and it tells those that wait for children what it is told in their place.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;

use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::hub::Command;
use super::lock;
use crate::path::NodePath;

/// The nodes of a session that are under watch in some way, by their paths below the chroot.
#[derive(Debug)]
pub(crate) struct Claims {
    uses: Mutex<HashMap<NodePath, Use>>,
    hub: mpsc::UnboundedSender<Command>,
}

#[derive(Debug, Default)]
struct Use {
    /// Whether the hub has, or asks for, a watch of its own there.
    is_hubs: bool,
    /// How many one-shot watches are on their way.
    in_flight: usize,
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
    /// Its number, if it waits for children.
    number: Option<u64>,
}

/// Tells a watch that waits for children that one came or went.
pub(crate) type Poke = oneshot::Receiver<()>;

impl Claims {
    pub(super) fn new(hub: mpsc::UnboundedSender<Command>) -> Self {
        Self {
            uses: Mutex::default(),
            hub,
        }
    }

    /// A one-shot watch is about to be asked for.
    pub(crate) fn begin(self: &Arc<Self>, path: NodePath) -> Claim {
        self.uses().entry(path.clone()).or_default().in_flight += 1;
        Claim {
            claims: Arc::clone(self),
            path,
            is_in_flight: true,
            has_fired: false,
            number: None,
        }
    }

    /// Notes whether the hub has, or asks for, a watch there.
    pub(super) fn set_hubs(&self, path: &NodePath, is_hubs: bool) {
        let mut uses = self.uses();
        uses.entry(path.clone()).or_default().is_hubs = is_hubs;
        tidy(&mut uses, path);
    }

    /// Whether one-shot watches are on their way there.
    pub(super) fn is_in_flight(&self, path: &NodePath) -> bool {
        self.uses().get(path).is_some_and(|it| it.in_flight > 0)
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
        let _gone = self.hub.send(Command::Disturbed { path: path.clone() });
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<NodePath, Use>> {
        lock(&self.uses)
    }
}

impl Claim {
    /// The watch has been set.
    pub(crate) fn set(&mut self, waits_for_children: bool) -> Option<Poke> {
        let mut uses = self.claims.uses();
        let it = uses.entry(self.path.clone()).or_default();
        it.in_flight -= 1;
        self.is_in_flight = false;
        let poke = waits_for_children.then(|| {
            let (poke, poked) = oneshot::channel();
            it.last_number += 1;
            it.parents.insert(it.last_number, poke);
            self.number = Some(it.last_number);
            poked
        });
        let is_hubs = it.is_hubs;
        tidy(&mut uses, &self.path);
        drop(uses);
        if is_hubs {
            self.claims.disturbed(&self.path);
        }
        poke
    }

    /// The watch has fired: nothing is taken back.
    pub(crate) fn fired(&mut self) {
        self.has_fired = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut uses = self.claims.uses();
        let it = uses.entry(self.path.clone()).or_default();
        it.in_flight -= usize::from(self.is_in_flight);
        if let Some(number) = self.number {
            it.parents.remove(&number);
        }
        let is_hubs = it.is_hubs;
        tidy(&mut uses, &self.path);
        drop(uses);
        if is_hubs && !self.has_fired {
            self.claims.disturbed(&self.path);
        }
    }
}

fn tidy(uses: &mut HashMap<NodePath, Use>, path: &NodePath) {
    if let Some(it) = uses.get(path)
        && !it.is_hubs
        && it.in_flight == 0
        && it.parents.is_empty()
    {
        uses.remove(path);
    }
}
