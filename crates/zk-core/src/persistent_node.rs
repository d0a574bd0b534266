//! A node that is created again whenever it is gone, with one session after the other.

use std::fmt;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use zk_wire::{IntoNodePath, ParsePathError};

use crate::session_source::SessionSource;

mod conflict;
mod maintainer;
mod options;
mod state;
mod touch;

pub use options::PersistentNodeOptions;
pub use state::{PersistentNodeError, PersistentNodeProblem, PersistentNodeState, PresentNode};

use maintainer::MaintainTask;
use state::State;

/// A node that is created again whenever it is gone: after the loss of the session, after a deletion by another client,
/// and when its parents are gone.
///
/// It is what Curator calls a `PersistentNode`, and with a [time to live](PersistentNodeOptions::ttl) a
/// `PersistentTtlNode`; the nodes are the same. The node may be of any kind, not only persistent.
/// With [`Sessions`](crate::Sessions) it is kept over all sessions of an application; with a
/// [`Session`](crate::Session), until that one is lost.
///
/// ```no_run
/// # async fn demo(sessions: zk_core::Sessions) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_core::PersistentNode;
/// use zk_core::PersistentNodeOptions;
///
/// let options = PersistentNodeOptions::ephemeral();
/// let node = PersistentNode::start(&sessions, "/workers/7", "starting", options)?;
/// println!("created {}", node.ready().await?.path);
/// node.set_data("ready").await?;
/// // … and when the work is done:
/// node.remove().await?;
/// # Ok(())
/// # }
/// ```
///
/// # The node
///
/// Missing parents are created as containers, or as [persistent nodes](PersistentNodeOptions::with_persistent_parents).
/// The node has the data that [`set_data`](Self::set_data) last wrote, whenever it is created. Data that other clients
/// write stays until then.
/// A node that was created with a unique id or a sequence number keeps its name.
///
/// | what exists at the path | what happens |
/// |---|---|
/// | an ephemeral node of an earlier session of this handle, which the servers have not yet expired | it is deleted, and the node created |
/// | an ephemeral node of another session, or of another handle of the same session | the handle waits until it is gone: [`PersistentNodeProblem::Taken`] |
/// | a node that is not ephemeral, and the node is to be ephemeral | the same |
/// | a node that is not ephemeral, and neither is the node to be | it is used as it is, even if it is of another kind, and gets the data |
///
/// # Guarantees
///
/// 1. It never gives up while there is a session. What fails is reported by [`problem`](Self::problem) and
///    [`ready`](Self::ready), and is tried again after a second, then after ever longer pauses up to half a minute.
/// 2. It does not overwrite or delete an ephemeral node of another session, except of its own earlier ones: it reads the
///    node first, and writes or deletes that version. See the limits.
/// 3. There is one node. A create with a lost reply leaves no second one, and names do not grow. See the limits.
/// 4. [`current`](Self::current) never returns a node whose session is known to be lost.
///
/// It does not guarantee that the node exists at any moment: between a deletion and the creation it does not, and a client
/// without a connection cannot know. Use a lock to guard something.
///
/// # Failure behaviour
///
/// | event | the handle | the node |
/// |---|---|---|
/// | a request is lost | sends it again with the next connection; calls take longer | is created or written once |
/// | a reply is lost | finds out whether the request was applied, before it sends it again | exists once, also with a unique id in its name: that id is searched for first |
/// | the connection breaks | [`current`](Self::current) is the last known state; calls wait | stays. A deletion meanwhile is noticed with the next connection, and the node created again |
/// | the session is lost | `current` is `None` at once. With [`Sessions`](crate::Sessions), calls wait for the next session; with one [`Session`](crate::Session) they return [`PersistentNodeError::Ended`] | an ephemeral one goes, and comes back under its name with the next session, at once even if the servers have not expired the earlier session yet; others stay |
/// | the future of `ready`, or of [`PersistentNodeState::changed`], is dropped | nothing happened | |
/// | the future of `set_data` is dropped | as if it was awaited | gets the data, unless a later call changes it |
/// | the future of `remove` is dropped | goes on to delete, even if the handle is dropped; keeps the node if that is refused | goes, unless a server refuses it |
/// | the handle is dropped with a create in flight | [ends](#dropping) | an ephemeral one is removed even if the create is applied later |
/// | the process is stopped, and goes on within the session timeout | as if the connection was broken | stays |
/// | the process is stopped for longer | reports the last known state until it has run again and seen the loss; then as after the loss of the session | an ephemeral one goes when the servers expire the session; a TTL node goes when it was not touched for its time to live |
/// | the process dies | | an ephemeral one goes with its session; a TTL node within about two times its time to live, because its child goes first; others stay |
/// | its server lags | notices a deletion, and so creates the node again, when that server has applied the deletion. It creates, writes and deletes by what the leader says: a write and a removal let the server catch up first | exists once |
/// | another client deletes it, or its parents | creates them again | is another node, with the data that the handle wrote last |
/// | another client writes it | nothing | has that data until the next `set_data`, or until it is created again |
///
/// # Limits
///
/// - ZooKeeper has no write or deletion by transaction: a node that is replaced between the read and the write, by one that
///   was written equally often, is not detected.
/// - Two handles of one session at one path with equal data: if a create of one is in doubt, or is dropped in flight, while
///   the other creates the node, both may take the node for theirs, and it is removed with the first of them. Give them
///   different data, or keep one handle for a path.
/// - A create that the servers apply only after the next session has looked for its node leaves a second node, if names have
///   a unique id.
/// - After a create without a reply, a handle with a unique id in its name lists the parent. Without the right to read it,
///   no node is created.
/// - If the rights allow to create but not to delete, an ephemeral node of a create without a reply, or of a refused
///   removal, cannot be undone, and may stay in the way of this handle ([`PersistentNodeProblem::Taken`] by its own session) until its session ends.
/// - Without READ on the node at the path, a deletion is noticed up to a session timeout late, or after the pause of a
///   failure.
/// - A TTL node that exists with a shorter time to live than that of the handle may expire once before it is as asked.
///
/// # Dropping
///
/// The node is no longer kept. An ephemeral one is removed in the background; others stay, a TTL node until its time is
/// over. [`remove`](Self::remove) deletes any.
///
/// # Cost
///
/// One request to create the node, one to watch it; a write is three; a TTL node is touched three times in its time to live. After each
/// reconnection the watch is set again, and once a session timeout the node is read, because servers report no change of a
/// node to a session that may not read it.
pub struct PersistentNode {
    state: PersistentNodeState,
    desired: watch::Sender<Desired>,
    is_ephemeral: bool,
    task: AbortHandle,
}

/// What the handle asks of the task. The newest data wins.
#[derive(Debug)]
struct Desired {
    data: Vec<u8>,
    /// Counts the changes of the data.
    revision: u64,
    /// Counts the requests to remove the node.
    removals: u64,
}

impl PersistentNode {
    /// Starts to keep a node, in the background. It may be called outside a runtime.
    ///
    /// The path is that of the node without the unique id and the sequence number.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path. All else is reported by [`ready`](Self::ready).
    pub fn start(
        sessions: impl Into<SessionSource>,
        path: impl IntoNodePath,
        data: impl Into<Vec<u8>>,
        options: PersistentNodeOptions,
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        let desired = watch::Sender::new(Desired {
            data: data.into(),
            revision: 0,
            removals: 0,
        });
        let sender = watch::Sender::new(State::default());
        let state = PersistentNodeState::new(sender.subscribe());
        let is_ephemeral = options.is_ephemeral();
        let sessions = sessions.into();
        let task = MaintainTask::new(path, options, desired.subscribe(), sender);
        let task = sessions.spawn(task.run(sessions.clone()));
        Ok(Self {
            state,
            desired,
            is_ephemeral,
            task: task.abort_handle(),
        })
    }

    /// Returns what is known of the node.
    pub fn state(&self) -> PersistentNodeState {
        self.state.clone()
    }

    /// Returns the node if it exists, as far as this process knows. Sends no request.
    ///
    /// While the connection is broken, this is the last known state; once the session is lost, it is `None`.
    pub fn current(&self) -> Option<PresentNode> {
        self.state.current()
    }

    /// Returns why the node does not exist, or why it cannot be kept alive; `None` if it exists and its last touch succeeded,
    /// or if nothing has failed yet.
    pub fn problem(&self) -> Option<PersistentNodeProblem> {
        self.state.problem()
    }

    /// Waits until the node exists, and returns it.
    ///
    /// That may take for ever: add a timeout, and report the [`problem`](Self::problem) when it is over.
    ///
    /// # Errors
    ///
    /// [`Refused`](PersistentNodeError::Refused) if the last attempt was refused, for example because the rights are
    /// missing ([`NoAuth`](crate::ErrorKind::NoAuth)) or because the servers know no TTL nodes
    /// ([`Unsupported`](crate::ErrorKind::Unsupported)). The attempts go on, so the node may exist later.
    /// [`Ended`](PersistentNodeError::Ended) if there will be no further session, or the node was removed.
    pub async fn ready(&self) -> Result<PresentNode, PersistentNodeError> {
        self.state
            .first(|state| match state.current() {
                Some(node) => Some(Ok(node)),
                None => state.refusal().map(Err),
            })
            .await
    }

    /// Writes the data of the node, and waits until that is done. From then on, the node is created with this data.
    ///
    /// If the node does not exist, it waits for that, and the node is created with the new data.
    /// The last writer wins: data that other clients have written is overwritten. If a later call is written first, that
    /// counts.
    ///
    /// # Errors
    ///
    /// [`Refused`](PersistentNodeError::Refused) if a server, or a check before sending, refuses the data, or the creation
    /// of a node with this data; the node then has the data that it had.
    /// [`Ended`](PersistentNodeError::Ended) if there will be no further session, or the node was removed.
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll: the data is written nevertheless, unless a later call changes it.
    ///
    /// # Cost
    ///
    /// Three round trips: the server catches up, the node is read, and written if it is still the one of this handle. Then
    /// it is watched again.
    pub async fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<(), PersistentNodeError> {
        let data = data.into();
        let mut revision = 0;
        self.desired.send_modify(|desired| {
            desired.revision += 1;
            desired.data = data;
            revision = desired.revision;
        });
        self.state.first(|state| state.outcome_of(revision)).await
    }

    /// Stops to keep the node, deletes it, and waits until that is done.
    ///
    /// A node that does not exist counts as deleted. For a handle of an ephemeral node, only a node that it created is
    /// deleted. For other handles, any node at the path is that of the handle, unless it is ephemeral.
    ///
    /// # Errors
    ///
    /// [`Refused`](PersistentNodeError::Refused) if a server refuses it, for example because the node has children. The handle
    /// then goes on as before; call it again to try again.
    /// [`Ended`](PersistentNodeError::Ended) if there will be no further session. An ephemeral node is then gone with its
    /// session, and this is no error.
    ///
    /// # Cancel safety
    ///
    /// Safe: it goes on in the background until it is done or refused, even if the handle is dropped. Call it again to
    /// wait for the end.
    pub async fn remove(&self) -> Result<(), PersistentNodeError> {
        let mut removals = 0;
        self.desired.send_modify(|desired| {
            desired.removals += 1;
            removals = desired.removals;
        });
        let outcome = self.state.first(|state| match &state.removal {
            Some((_, Ok(()))) => Some(Ok(())),
            Some((refused, Err(error))) if *refused >= removals => Some(Err(error.clone())),
            _ => None,
        });
        match outcome.await {
            Err(PersistentNodeError::Ended) if self.is_ephemeral => Ok(()),
            result => result,
        }
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        // A removal goes on. If it is refused, the task ends when it finds that there is no handle.
        if self.desired.borrow().removals == 0 {
            self.task.abort();
        }
    }
}

impl fmt::Debug for PersistentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.state, f)
    }
}
