//! What must hold of items, whatever happens to their members: simulated, and on real servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use zk_group::partitioner::{ItemGuard, Partitioner};
use zk_sim::wait::pass;

/// All guards that applications have.
#[derive(Debug, Default)]
pub(crate) struct Oracle(Mutex<Guards>);

#[derive(Debug, Default)]
struct Guards {
    owned: BTreeMap<u64, Owned>,
    next: u64,
    /// The highest fencing token of each item.
    tokens: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Owned {
    member: usize,
    /// Distinguishes the partitioners of one member.
    partitioner: u64,
    guard: ItemGuard,
}

/// What a member is to do. It is dropped when there will be no further command.
#[derive(Debug)]
pub(crate) enum Command {
    SetItems(&'static [&'static str]),
    /// Within this time; then the future is dropped.
    Leave(Duration),
}

impl Oracle {
    /// Takes the items of a member and releases them when they are to be released, are lost, or at random.
    pub(crate) async fn run(
        self: Arc<Self>,
        partitioner: Partitioner,
        member: usize,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut random: fastrand::Rng,
    ) {
        let number = random.u64(..);
        loop {
            tokio::select! {
                guard = partitioner.next() => {
                    let owned = Owned {
                        member,
                        partitioner: number,
                        guard: guard.expect("there are sessions"),
                    };
                    tokio::spawn(Arc::clone(&self).serve(owned, random.fork()));
                }
                command = commands.recv() => match command {
                    Some(Command::SetItems(items)) => {
                        partitioner.set_items(items.iter().copied()).unwrap();
                    }
                    Some(Command::Leave(limit)) => {
                        return drop(tokio::time::timeout(limit, partitioner.leave()).await);
                    }
                    None => return,
                },
            }
        }
    }

    async fn serve(self: Arc<Self>, owned: Owned, mut random: fastrand::Rng) {
        let (lost, requested) = (owned.guard.lost(), owned.guard.release_requested());
        let key = self.add(owned);
        tokio::select! {
            biased;
            _ = lost => {}
            () = requested => {}
            () = pass(Duration::from_secs(random.u64(5..100))) => {}
        }
        // What it does to finish.
        pass(Duration::from_millis(random.u64(0..500))).await;
        let guard = self.0.lock().unwrap().owned.remove(&key).unwrap().guard;
        if random.bool() {
            let limit = Duration::from_millis(random.u64(0..50));
            drop(tokio::time::timeout(limit, guard.release()).await);
        }
    }

    fn add(&self, new: Owned) -> u64 {
        let mut guards = self.0.lock().unwrap();
        let item = new.guard.item().to_owned();
        for old in guards.owned.values().filter(|old| old.guard.item() == item) {
            assert_ne!(old.partitioner, new.partitioner, "it has {item} twice");
            let are_valid = old.guard.is_valid() && new.guard.is_valid();
            assert!(
                !are_valid,
                "{item} is owned by {} and {}",
                old.member, new.member
            );
        }
        let token = new.guard.fencing_token().as_u64();
        let last = guards.tokens.entry(item.clone()).or_default();
        assert!(
            *last < token || !new.guard.is_valid(),
            "{item}: {token} after {last}"
        );
        *last = token.max(*last);
        let key = guards.next;
        guards.next += 1;
        guards.owned.insert(key, new);
        key
    }

    /// Returns the valid owner of each item.
    pub(crate) fn owners(&self) -> BTreeMap<String, usize> {
        let guards = self.0.lock().unwrap();
        let valid = guards.owned.values().filter(|owned| owned.guard.is_valid());
        let owners = valid.map(|owned| (owned.guard.item().to_owned(), owned.member));
        let owners: Vec<_> = owners.collect();
        let count = owners.len();
        let owners = BTreeMap::from_iter(owners);
        assert_eq!(owners.len(), count, "an item is owned twice: {guards:?}");
        owners
    }
}
