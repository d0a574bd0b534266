//! The task that decides which items this member wants, and one task for each of these, which acquires it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zk_core::{NodePath, PersistentNodeState, Session, SessionSource};
use zk_lock::{AcquireError, FairLock, Guard, LockOptions};

use super::allocation::Allocation;
use super::debounce::Debounce;
use super::item_guard::{ItemGuard, not_wanted};
use super::options::PartitionerOptions;
use crate::group::MembersChanges;
use crate::members::Members;

/// The items, and the paths of their locks.
pub(super) type Items = BTreeMap<String, NodePath>;

/// What the tasks and the handle share.
#[derive(Debug, Default)]
pub(super) struct PartitionerState {
    /// The items that are allocated to this member.
    pub(super) share: BTreeSet<String>,
    /// The items that were acquired, and not taken from here yet.
    pub(super) ready: BTreeMap<String, ItemGuard>,
    /// Why items were not acquired.
    pub(super) problems: BTreeMap<String, AcquireError>,
    /// The node of this member, if the view of the group did not show it when items were last allocated.
    pub(super) unseen: Option<NodePath>,
    /// Whether there will be no further session.
    pub(super) is_ended: bool,
}

/// Follows the members and the items.
#[derive(Debug)]
pub(super) struct PartitionTask {
    pub(super) sessions: SessionSource,
    /// The name of the member's node.
    pub(super) name: String,
    /// What is known of that node apart from the view of the group.
    pub(super) own: PersistentNodeState,
    pub(super) changes: MembersChanges,
    pub(super) items: watch::Receiver<Items>,
    pub(super) options: PartitionerOptions,
    pub(super) state: Arc<watch::Sender<PartitionerState>>,
    /// The items that have a task, and whether they are allocated to this member.
    pub(super) wanted: BTreeMap<String, watch::Sender<bool>>,
    pub(super) item_tasks: JoinSet<String>,
}

/// Acquires one item for as long as it is allocated to this member.
#[derive(Debug)]
struct ItemTask {
    item: String,
    lock: NodePath,
    sessions: SessionSource,
    is_wanted: watch::Receiver<bool>,
    state: Arc<watch::Sender<PartitionerState>>,
}

impl PartitionTask {
    /// Runs until the handle is dropped, or there will be no further session.
    pub(super) async fn run(mut self) {
        let begin = Instant::now();
        let mut debounce = Debounce::new(self.options.settle_time);
        // The ids and names of the members, and since when there has been no connection that reports changes.
        let mut members = Vec::new();
        let mut unsynchronized_since = Some(Duration::ZERO);
        let mut own = None;
        let mut is_own_final = false;
        loop {
            tokio::select! {
                biased;
                changed = self.items.changed() => match changed {
                    Ok(()) => debounce.changed(begin.elapsed()),
                    Err(_) => return,
                },
                found = self.changes.next() => {
                    let Some(found) = found else { return };
                    let now = begin.elapsed();
                    if !found.is_synchronized() {
                        unsynchronized_since.get_or_insert(now);
                        continue;
                    }
                    // The other members may have lost their connections as well, and have to return.
                    if let Some(since) = unsynchronized_since.take() {
                        debounce.resumed(since, now);
                    }
                    let found = ids_and_names(&found);
                    if found != members {
                        members = found;
                        debounce.changed(now);
                    }
                }
                goes_on = self.own.changed(), if !is_own_final => {
                    is_own_final = !goes_on;
                    let current = self.own.current().map(|node| node.stat.czxid);
                    // The view should show it when that has settled, and may never do so.
                    if current.is_some() && current != own {
                        debounce.changed(begin.elapsed());
                    }
                    own = current;
                }
                Some(ended) = self.item_tasks.join_next() => {
                    // The runtime is shut down, or a task has panicked.
                    let Ok(item) = ended else { return };
                    self.wanted.remove(&item);
                    if self.state.borrow().share.contains(&item) {
                        self.start_item_task(item);
                    }
                }
                () = reached(begin, debounce.due()), if unsynchronized_since.is_none() => {
                    debounce.done();
                    self.reallocate(&members);
                }
            }
        }
    }

    fn reallocate(&mut self, members: &[(String, String)]) {
        let items = self.items.borrow().keys().cloned().collect();
        let share = share(self.options.allocation, &self.name, members, &items);
        for (item, wanted) in &self.wanted {
            let is_wanted = share.contains(item);
            wanted.send_if_modified(|was| std::mem::replace(was, is_wanted) != is_wanted);
        }
        let new: Vec<_> = share
            .iter()
            .filter(|item| !self.wanted.contains_key(*item))
            .cloned()
            .collect();
        let is_seen = members.iter().any(|(_, name)| *name == self.name);
        let own = self.own.current().filter(|_| !is_seen);
        self.state.send_modify(|state| {
            state.share = share;
            state.unseen = own.map(|node| node.path);
        });
        for item in new {
            self.start_item_task(item);
        }
    }

    /// Starts the task of an item that is allocated to this member and has none. An item that the application still holds
    /// keeps its task, which is restarted after the release if the item is still wanted.
    fn start_item_task(&mut self, item: String) {
        // It may have been removed since the items were allocated; that change has not settled.
        let Some(lock) = self.items.borrow().get(&item).cloned() else {
            return;
        };
        let wanted = watch::Sender::new(true);
        let task = ItemTask {
            item: item.clone(),
            lock,
            sessions: self.sessions.clone(),
            is_wanted: wanted.subscribe(),
            state: Arc::clone(&self.state),
        };
        self.wanted.insert(item, wanted);
        self.item_tasks.spawn(task.run());
    }
}

impl Drop for PartitionTask {
    /// Also when it panics, or its runtime is shut down.
    fn drop(&mut self) {
        self.state.send_modify(|state| {
            state.share.clear();
            state.is_ended = true;
        });
    }
}

impl ItemTask {
    /// Runs until the item is not wanted, and the application has released it.
    async fn run(mut self) -> String {
        let mut is_wanted = self.is_wanted.clone();
        loop {
            let acquired = tokio::select! {
                biased;
                () = not_wanted(&mut is_wanted) => break,
                acquired = self.acquire() => acquired,
            };
            self.hand_out(acquired).await;
        }
        self.report(None);
        self.item
    }

    /// Waits for the lock of the item, over any number of sessions.
    async fn acquire(&self) -> Guard {
        let mut sessions = self.sessions.clone();
        while let Some(session) = sessions.next().await {
            let lock = FairLock::with_options(&session, &self.lock, lock_options());
            let lock = lock.expect("the path was checked");
            while !session.state().is_lost() {
                // When its place in the queue is known, what failed was done.
                match lock.acquire_with_progress(|_| self.report(None)).await {
                    Ok(guard) => {
                        self.report(None);
                        return guard;
                    }
                    Err(error) => self.failed(&session, error).await,
                }
            }
        }
        // There will be no further session, which ends all tasks.
        pending().await
    }

    async fn failed(&self, session: &Session, error: AcquireError) {
        if !session.state().is_lost() {
            tracing::warn!(item = self.item, %error, "cannot acquire an item; retrying");
            self.report(Some(error));
            session.pause(RETRY_PAUSE).await;
        }
    }

    /// Offers the item to the application until it is taken, lost, or no longer wanted, and waits until it was released.
    async fn hand_out(&mut self, guard: Guard) {
        let lost = guard.lost();
        let (guard, mut returned) =
            ItemGuard::new(self.item.clone(), guard, self.is_wanted.clone());
        self.state.send_modify(|state| {
            state.ready.insert(self.item.clone(), guard);
        });
        tokio::select! {
            biased;
            _ = &mut returned => return,
            () = not_wanted(&mut self.is_wanted) => {}
            _ = lost => {}
        }
        // Unless the application has it.
        drop(take(&self.state, |ready| ready.remove(&self.item)));
        // Its sender is dropped with the guard.
        drop(returned.await);
    }

    fn report(&self, problem: Option<AcquireError>) {
        self.state.send_if_modified(|state| match problem {
            Some(problem) => {
                state.problems.insert(self.item.clone(), problem);
                true
            }
            None => state.problems.remove(&self.item).is_some(),
        });
    }
}

/// Takes an item that is ready. It must be dropped outside of the state.
pub(super) fn take(
    state: &watch::Sender<PartitionerState>,
    take: impl FnOnce(&mut BTreeMap<String, ItemGuard>) -> Option<ItemGuard>,
) -> Option<ItemGuard> {
    let mut taken = None;
    state.send_if_modified(|state| {
        taken = take(&mut state.ready);
        false
    });
    taken
}

/// Returns the items of the member whose node has this name; none if it is not a member.
fn share(
    allocation: Allocation,
    name: &str,
    members: &[(String, String)],
    items: &BTreeSet<String>,
) -> BTreeSet<String> {
    let Some(own) = members.iter().position(|(_, of)| of == name) else {
        return BTreeSet::new();
    };
    let ids: Vec<_> = members.iter().map(|(id, _)| &**id).collect();
    let items: Vec<_> = items.iter().map(String::as_str).collect();
    let share = allocation.share(own, &ids, &items);
    share.into_iter().map(str::to_owned).collect()
}

fn ids_and_names(members: &Members) -> Vec<(String, String)> {
    let members = members.iter();
    members
        .map(|one| (one.id.clone(), one.name.clone()))
        .collect()
}

/// The locks of kazoo, which its `SetPartitioner` waits for.
fn lock_options() -> LockOptions {
    LockOptions::default().with_layout(zk_lock::Layout::kazoo())
}

/// Waits until so long after the beginning, or for ever.
async fn reached(begin: Instant, due: Option<Duration>) {
    match due.and_then(|due| begin.checked_add(due)) {
        Some(due) => drop(tokio::time::timeout_at(due, pending::<()>()).await),
        None => pending().await,
    }
}

/// The pause after an acquire that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
