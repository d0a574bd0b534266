//! Being a member of a group.

#[cfg(feature = "partitioner")]
use zk_core::PersistentNodeState;
use zk_core::{
    IntoNodePath, PersistentNode, PersistentNodeError, PersistentNodeProblem, SessionSource,
};

use crate::error::{JoinError, SetPayloadError};
use crate::group::Group;
use crate::layout::Layout;

/// Makes this process a member of a group, and has a live view of all members.
///
/// The member is an ephemeral [`PersistentNode`]: with [`Sessions`](zk_core::Sessions) it joins again with each session, and
/// also after another client has deleted its node. With one [`Session`](zk_core::Session) the membership ends with it.
///
/// In the layout of Curator, one member at a time has an id. A second one waits until the first has left;
/// [`problem`](Self::problem) reports the session that has the id. So a process that restarts under its id is a member as
/// soon as the session of its predecessor has expired.
///
/// ```no_run
/// # async fn demo(sessions: zk_core::Sessions) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_group::Membership;
///
/// let membership = Membership::join(&sessions, "/workers", "host-7", "starting")?;
/// membership.ready().await?;
/// membership.set_payload("ready").await?;
/// for member in membership.group().members().iter() {
///     println!("{}: {} bytes", member.id, member.payload.len());
/// }
/// membership.leave().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Dropping
///
/// The member leaves in the background. [`leave`](Self::leave) waits for that.
#[derive(Debug)]
pub struct Membership {
    node: PersistentNode,
    group: Group,
    id: String,
    #[cfg(feature = "partitioner")]
    node_name: String,
}

impl Membership {
    /// Joins the group at `path` in the background, in the layout of Curator. Missing nodes above are created as containers.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or `id` cannot be the name of a node. All else is reported by
    /// [`ready`](Self::ready).
    pub fn join(
        sessions: impl Into<SessionSource>,
        path: impl IntoNodePath,
        id: &str,
        payload: impl Into<Vec<u8>>,
    ) -> Result<Self, JoinError> {
        Self::join_with(sessions, path, id, payload, Layout::default())
    }

    /// Joins the group at `path` in the background. In the layouts of kazoo, missing nodes above are created as
    /// persistent nodes.
    ///
    /// # Errors
    ///
    /// Those of [`join`](Self::join); and if there is a payload, but the layout has none.
    pub fn join_with(
        sessions: impl Into<SessionSource>,
        path: impl IntoNodePath,
        id: &str,
        payload: impl Into<Vec<u8>>,
        layout: Layout,
    ) -> Result<Self, JoinError> {
        let sessions = sessions.into();
        let path = path.into_node_path()?;
        let unique = fastrand::u128(..);
        let member = layout.node(id, payload.into(), unique)?;
        let options = layout.node_options();
        let node_path = path.join(&member.name)?;
        let node = PersistentNode::start(&sessions, node_path, member.data, options)?;
        let group = Group::start_with(&sessions, path, layout)?;
        Ok(Self {
            group: group.with_own(node.state()),
            node,
            id: id.to_owned(),
            #[cfg(feature = "partitioner")]
            node_name: member.name,
        })
    }

    /// Returns the id that this process joined with.
    pub fn id(&self) -> &str {
        &self.id
    }

    #[cfg(feature = "partitioner")]
    pub(crate) fn node_name(&self) -> &str {
        &self.node_name
    }

    #[cfg(feature = "partitioner")]
    pub(crate) fn node_state(&self) -> PersistentNodeState {
        self.node.state()
    }

    /// Returns the live view of the members. It contains this one as soon as the servers have reported its node, and no
    /// longer once its session is lost.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns whether this process is a member, as far as it knows. Sends no request.
    ///
    /// While the connection is broken, this is the last known state; once the session is lost, it is `false`.
    pub fn is_member(&self) -> bool {
        self.node.current().is_some()
    }

    /// Returns why this process is not a member; `None` if it is one, or if nothing has failed yet.
    pub fn problem(&self) -> Option<PersistentNodeProblem> {
        self.node.problem()
    }

    /// Waits until this process is a member.
    ///
    /// That may take for ever, for example while another member has the id: add a timeout, and report the
    /// [`problem`](Self::problem) when it is over.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::ready`].
    pub async fn ready(&self) -> Result<(), PersistentNodeError> {
        self.node.ready().await.map(drop)
    }

    /// Changes the payload, and waits until that is done. From then on, this process joins with it again.
    ///
    /// # Errors
    ///
    /// [`NoPayloads`](SetPayloadError::NoPayloads) in a layout without payloads, and those of
    /// [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll: the payload is written nevertheless, unless a later call changes it.
    ///
    /// # Cost
    ///
    /// That of [`PersistentNode::set_data`], and a read for each view of the group.
    pub async fn set_payload(&self, payload: impl Into<Vec<u8>>) -> Result<(), SetPayloadError> {
        let layout = self.group.layout();
        if !layout.has_payloads() {
            return Err(SetPayloadError::NoPayloads(layout));
        }
        Ok(self.node.set_data(payload).await?)
    }

    /// Leaves the group, and waits until that is done.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::remove`].
    ///
    /// # Session loss
    ///
    /// It waits for the next session, or returns at once if there is none: a member leaves with its session.
    pub async fn leave(self) -> Result<(), PersistentNodeError> {
        self.node.remove().await
    }
}
