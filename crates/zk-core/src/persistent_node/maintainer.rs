//! The task of a persistent node: creates it, waits until it is gone, and writes its data.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;
use zk_wire::{NodePath, Stat};

use super::Desired;
use super::conflict::{Conflict, judge};
use super::options::PersistentNodeOptions;
use super::state::{PersistentNodeProblem, Published, State};
use super::touch::{self, keep_alive};
use crate::error::{Error, ErrorClass, ErrorKind};
use crate::owned_node::OwnedNode;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session_source::SessionSource;
use crate::transport::child_of;

pub(super) struct MaintainTask {
    base: NodePath,
    /// The path with the unique id and the sequence number, once the node was created.
    path: Option<NodePath>,
    options: PersistentNodeOptions,
    desired: watch::Receiver<Desired>,
    /// The data that was last written, and with which the node is created.
    data: Vec<u8>,
    /// The newest revision of the desired data that was written or refused.
    handled: u64,
    /// The newest request to remove the node that was refused.
    refused_removals: u64,
    /// The creating transaction of the node to which `data` was written.
    written_to: Option<i64>,
    /// The unique id of a create that has not been answered.
    in_doubt: Option<Uuid>,
    state: watch::Sender<State>,
}

/// A node that exists.
struct Held {
    path: NodePath,
    stat: Stat,
    /// Removes an ephemeral node when dropped.
    owned: Option<OwnedNode>,
}

/// Why a node was not created.
enum Obstacle {
    Failed(Error),
    /// A node of another owner exists.
    Taken {
        path: NodePath,
        stat: Stat,
    },
}

impl MaintainTask {
    pub(super) fn new(
        base: NodePath,
        options: PersistentNodeOptions,
        desired: watch::Receiver<Desired>,
        state: watch::Sender<State>,
    ) -> Self {
        let data = desired.borrow().data.clone();
        Self {
            path: (!options.is_protected()).then(|| base.clone()),
            base,
            options,
            desired,
            data,
            handled: 0,
            refused_removals: 0,
            written_to: None,
            in_doubt: None,
            state,
        }
    }

    /// Keeps the node with one session after the other.
    pub(super) async fn run(mut self, mut sessions: SessionSource) {
        while let Some(session) = sessions.next().await {
            self.state.send_modify(|state| state.begin(&session));
            tokio::select! {
                biased;
                _ = session.lost() => {}
                () = self.keep_with(&session) => return,
            }
        }
    }

    /// Keeps the node until it is removed. Does not return if the session is lost.
    async fn keep_with(&mut self, session: &Session) {
        let mut failures = 0;
        loop {
            let removals = self.desired.borrow().removals;
            if removals > self.refused_removals {
                let removal = self.remove(session).await;
                let is_removed = removal.is_ok();
                self.refused_removals = removals;
                self.state
                    .send_modify(|state| state.removal = Some((removals, removal)));
                if is_removed {
                    return;
                }
            }
            if self.desired.has_changed().is_err() {
                // The handle was dropped, and all was done that it asked for.
                return;
            }
            let obstacle = match self.establish(session).await {
                Ok(held) => {
                    failures = 0;
                    self.hold(session, held).await;
                    continue;
                }
                // The caller waits for the end of the session.
                Err(Obstacle::Failed(error)) if error.is_fatal() => return pending().await,
                Err(obstacle) => obstacle,
            };
            failures += 1;
            self.report(&obstacle);
            tokio::select! {
                biased;
                () = retry_time(session, &obstacle, failures) => {}
                // Other data may be accepted, or the node not be wanted any more.
                is_there = has_changed(&mut self.desired) => if !is_there {
                    return;
                }
            }
        }
    }

    fn report(&mut self, obstacle: &Obstacle) {
        let base = &self.base;
        let problem = match obstacle {
            Obstacle::Failed(error) => {
                tracing::warn!(path = %base, %error, "cannot create a persistent node; retrying");
                PersistentNodeProblem::Failed(error.clone())
            }
            Obstacle::Taken { path, stat } => {
                let owner = stat.ephemeral_owner;
                tracing::warn!(%path, ?owner, "another node is in the place of a persistent node");
                PersistentNodeProblem::Taken {
                    path: path.clone(),
                    owner,
                }
            }
        };
        self.state
            .send_modify(|state| state.problem = Some(problem));
    }

    /// Creates the node, or finds it.
    async fn establish(&mut self, session: &Session) -> Result<Held, Obstacle> {
        self.find_in_doubt(session).await?;
        loop {
            let (data, revision) = self.wanted();
            let created = match self.path.clone() {
                Some(path) => self.create(session, path, &data).await,
                None => self.create_first(session, &data).await.map(Some),
            };
            match created {
                Ok(Some(held)) => {
                    self.written_to = Some(held.stat.czxid);
                    self.accept(data, revision);
                    return Ok(held);
                }
                Ok(None) => {}
                Err(error) => {
                    self.refuse_if_new(revision, &error);
                    return Err(error.into());
                }
            }
            if let Some(held) = self.examine(session).await? {
                return Ok(held);
            }
        }
    }

    /// Creates the node under its path. Returns `None` if a node exists there.
    async fn create(
        &self,
        session: &Session,
        path: NodePath,
        data: &[u8],
    ) -> Result<Option<Held>, Error> {
        // An earlier create may be about to be undone.
        session.settled_at(&path).await;
        let create = self.options.create(session, &path, data);
        if self.options.is_ephemeral() {
            let claimed = create.claimed().await?;
            return Ok(claimed.map(Held::owned));
        }
        match create.await {
            Ok((path, stat)) => Ok(Some(Held {
                path,
                stat,
                owned: None,
            })),
            Err(error) if error.is_node_exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the node under a name with a new unique id.
    async fn create_first(&mut self, session: &Session, data: &[u8]) -> Result<Held, Error> {
        // Then an earlier create with another id has left nothing.
        let parent = self.base.parent().unwrap_or_else(NodePath::root);
        session.settled_at(&parent).await;
        let id = session.handle().engine().new_id();
        self.in_doubt = Some(id);
        let create = self.options.first_create(session, &self.base, data);
        let node = create.unique_id(id).owned().await?;
        self.in_doubt = None;
        self.path = Some(node.path().clone());
        Ok(if self.options.is_ephemeral() {
            Held::owned(node)
        } else {
            let (path, stat) = node.keep();
            Held {
                path,
                stat,
                owned: None,
            }
        })
    }

    /// Finds the node that a create without a reply may have left, so that no second one is created.
    async fn find_in_doubt(&mut self, session: &Session) -> Result<(), Error> {
        let Some(id) = self.in_doubt else {
            return Ok(());
        };
        let parent = self.base.parent().unwrap_or_else(NodePath::root);
        session.settled_at(&parent).await;
        session.sync(&parent).with_quorum().await?;
        let names = match session.list(&parent).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => Vec::new(),
            Err(error) => return Err(error),
        };
        let prefix = format!("_c_{id}-");
        let found = names.iter().find(|name| name.starts_with(&prefix));
        self.path = found.map(|name| child_of(&parent, name));
        self.in_doubt = None;
        Ok(())
    }

    /// Judges the node that exists at the path. Returns `None` if the node may now be created.
    async fn examine(&mut self, session: &Session) -> Result<Option<Held>, Obstacle> {
        let Some(path) = self.path.clone() else {
            return Ok(None);
        };
        let Some(stat) = session.exists(&path).await? else {
            return Ok(None);
        };
        match self.judge(session, &stat) {
            Conflict::Wait => Err(Obstacle::Taken { path, stat }),
            Conflict::RemoveLeftover => {
                tracing::info!(%path, "removing the node of an earlier session");
                let delete = session.delete(&path).created_by(stat.czxid).await;
                unless_gone(delete)?;
                Ok(None)
            }
            Conflict::Adopt => Ok(self.adopt(session, path).await?),
        }
    }

    /// Uses a node that exists, with the data of this handle. Returns `None` if it is gone.
    async fn adopt(&mut self, session: &Session, path: NodePath) -> Result<Option<Held>, Error> {
        let Some((found, stat)) = unless_gone(session.get(&path).await)? else {
            return Ok(None);
        };
        if stat.ephemeral_owner.is_some() {
            // It was replaced meanwhile.
            return Ok(None);
        }
        let (data, revision) = self.wanted();
        let is_written = self.written_to == Some(stat.czxid) && revision == self.handled;
        let stat = if is_written || *found == *data {
            stat
        } else {
            match self.write(session, &path, &data, stat.version).await {
                Ok(Some(stat)) => stat,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.refuse_if_new(revision, &error);
                    return Err(error);
                }
            }
        };
        self.written_to = Some(stat.czxid);
        self.accept(data, revision);
        Ok(Some(Held {
            path,
            stat,
            owned: None,
        }))
    }

    fn judge(&self, session: &Session, stat: &Stat) -> Conflict {
        let is_ephemeral = self.options.is_ephemeral();
        let owner = stat.ephemeral_owner;
        if self.options.is_protected() && is_ephemeral && owner == Some(session.id()) {
            // No other handle has this unique id: a create without a reply left it.
            return Conflict::RemoveLeftover;
        }
        judge(is_ephemeral, owner, &self.state.borrow().previous)
    }

    /// Writes the data if the node has this version. Returns `None` if it has not, or is gone.
    async fn write(
        &self,
        session: &Session,
        path: &NodePath,
        data: &[u8],
        version: i32,
    ) -> Result<Option<Stat>, Error> {
        let set = session.set(path, data).version(version).idempotent();
        match set.await {
            Err(error) if error.kind() == ErrorKind::BadVersion => Ok(None),
            result => unless_gone(result),
        }
    }

    /// Holds the node until it is gone or shall be removed.
    async fn hold(&mut self, session: &Session, mut held: Held) {
        let path = held.path.clone();
        let state = self.state.clone();
        let options = self.options.clone();
        let published = Published::new(&state, session, &path, held.stat, self.handled);
        let holding = self.hold_published(session, &held, &published);
        tokio::select! {
            biased;
            () = holding => {}
            never = keep_alive(session, &path, &options, &state) => match never {},
        }
        drop(published);
        // What is gone needs no removal, and `remove` finds what shall be removed. If the handle was dropped during this
        // poll, before its abort takes effect, the node goes with `held`.
        if self.desired.has_changed().is_ok() {
            drop(held.owned.take().map(OwnedNode::keep));
        }
    }

    /// Writes new data until the node is gone or shall be removed.
    async fn hold_published(&mut self, session: &Session, held: &Held, published: &Published<'_>) {
        let czxid = held.stat.czxid;
        loop {
            // First, so that data which is set from here on is a change.
            let removals = self.desired.borrow_and_update().removals;
            if removals > self.refused_removals {
                return;
            }
            let (data, revision) = self.wanted();
            if revision == self.handled {
                tokio::select! {
                    biased;
                    () = deleted(session, &held.path, czxid) => return,
                    is_there = has_changed(&mut self.desired) => if !is_there {
                        return;
                    }
                }
                continue;
            }
            let written = async {
                session.sync(&held.path).await?;
                match session.exists(&held.path).await? {
                    Some(stat) if stat.czxid == czxid => {
                        let version = stat.version;
                        let stat = self.write(session, &held.path, &data, version).await?;
                        Ok::<_, Error>(Some(stat))
                    }
                    _ => Ok(None),
                }
            };
            match written.await {
                Ok(Some(Some(stat))) => {
                    self.accept(data, revision);
                    published.update(session, &held.path, stat, revision);
                }
                // Another client has written it, or it is gone: read it again.
                Ok(Some(None)) => {}
                // Another node has replaced it, or none.
                Ok(None) => return,
                Err(error) if error.class() == ErrorClass::Outcome => {
                    self.refuse_if_new(revision, &error);
                }
                Err(error) if error.is_fatal() => pending().await,
                Err(error) => {
                    tracing::warn!(path = %held.path, %error, "cannot write a persistent node; retrying");
                    session.pause(WRITE_AGAIN).await;
                }
            }
        }
    }

    /// Deletes the node if it is the one of this handle.
    async fn remove(&mut self, session: &Session) -> Result<(), Error> {
        loop {
            match self.try_remove(session).await {
                // The caller waits for the end of the session.
                Err(error) if error.is_fatal() => return pending().await,
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    tracing::warn!(path = %self.base, %error, "cannot delete a persistent node; retrying");
                    session.pause(WRITE_AGAIN).await;
                }
                result => return result,
            }
        }
    }

    async fn try_remove(&mut self, session: &Session) -> Result<(), Error> {
        self.find_in_doubt(session).await?;
        let Some(path) = &self.path else {
            return Ok(());
        };
        session.settled_at(path).await;
        // Creates and deletions may be in doubt, and the server behind.
        session.sync(path).with_quorum().await?;
        let Some(stat) = session.exists(path).await? else {
            return Ok(());
        };
        let is_created = self.written_to == Some(stat.czxid);
        if !is_created && self.judge(session, &stat) == Conflict::Wait {
            return Ok(());
        }
        if self.options.time_to_live().is_some() {
            unless_gone(session.delete(child_of(path, touch::CHILD)).await)?;
        }
        unless_gone(session.delete(path).created_by(stat.czxid).await)?;
        Ok(())
    }

    /// Returns the data to create the node with, and its revision.
    fn wanted(&self) -> (Vec<u8>, u64) {
        let desired = self.desired.borrow();
        if desired.revision > self.handled {
            (desired.data.clone(), desired.revision)
        } else {
            (self.data.clone(), self.handled)
        }
    }

    /// Goes on with data that was written. The caller publishes that, together with the node.
    fn accept(&mut self, data: Vec<u8>, revision: u64) {
        self.data = data;
        self.handled = revision;
    }

    /// Gives up a revision of the data if the server refused it.
    fn refuse_if_new(&mut self, revision: u64, error: &Error) {
        if revision > self.handled && error.class() == ErrorClass::Outcome {
            self.handled = revision;
            self.state
                .send_modify(|state| state.refuse(revision, error.clone()));
        }
    }
}

impl Held {
    fn owned(node: OwnedNode) -> Self {
        Self {
            path: node.path().clone(),
            stat: *node.stat(),
            owned: Some(node),
        }
    }
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Waits until an attempt may succeed.
async fn retry_time(session: &Session, obstacle: &Obstacle, failures: u32) {
    if let Obstacle::Taken { path, stat } = obstacle {
        return deleted(session, path, stat.czxid).await;
    }
    let chance = || session.handle().engine().chance();
    let pause = PAUSES.pause(failures, Duration::ZERO, chance);
    session.pause(pause.unwrap_or_default()).await;
}

/// Waits until a node is gone.
async fn deleted(session: &Session, path: &NodePath, czxid: i64) {
    loop {
        match session.wait_for_deletion(path).created_by(czxid).await {
            Ok(()) => return,
            // The caller waits for the end of the session.
            Err(error) if error.is_fatal() => pending().await,
            Err(error) => {
                tracing::warn!(%path, %error, "cannot watch a persistent node; retrying");
                session.pause(session.session_timeout() / 3).await;
            }
        }
    }
}

/// Waits for a change of what the handle asks for. Returns `false` if the handle was dropped, after a removal that was refused.
async fn has_changed(desired: &mut watch::Receiver<Desired>) -> bool {
    desired.changed().await.is_ok()
}

fn unless_gone<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The pauses between attempts to create the node.
const PAUSES: RetryPolicy =
    RetryPolicy::exponential(Duration::from_secs(1)).capped(Duration::from_secs(30));
/// The pause after a write that failed.
const WRITE_AGAIN: Duration = Duration::from_millis(100);
