//! A live view of the members of a group.

use bytes::Bytes;
use zk_cache::{CacheEnd, ChildrenCache, Events, Node, PartialRead, Snapshot};
use zk_core::{IntoNodePath, NodePath, ParsePathError, PersistentNodeState, SessionSource};

use crate::layout::Layout;
use crate::members::{Member, Members};

/// A live view of the members of a group, without being a member; a [`Membership`](crate::Membership) has one.
///
/// Clones share the view. It is read without a round trip.
/// With [`Sessions`](zk_core::Sessions) it goes on with the next session, and shows the members that were last known
/// meanwhile; see [`Members::is_synchronized`].
///
/// ```no_run
/// # async fn demo(sessions: zk_core::Sessions) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_group::Group;
///
/// let workers = Group::start(&sessions, "/workers")?;
/// let mut changes = workers.changes();
/// while let Some(members) = changes.next().await {
///     println!("{:?}", members.ids().collect::<Vec<_>>());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Dropping
///
/// When the last clone is dropped, the view ends, and its watch is removed in the background.
///
/// # Cost
///
/// That of a [`ChildrenCache`]: each change of a member costs a read.
#[derive(Debug, Clone)]
pub struct Group {
    cache: ChildrenCache,
    layout: Layout,
    /// The node of this process, if it is a member.
    own: Option<PersistentNodeState>,
}

/// The members of a group after each change; created by [`Group::changes`].
///
/// It does not keep the view: it ends when the last clone of the [`Group`], or the [`Membership`](crate::Membership), is
/// dropped.
#[derive(Debug)]
pub struct MembersChanges {
    events: Events,
    snapshot: Snapshot,
    view: View,
    is_own_final: bool,
    last: Option<Members>,
}

/// What turns the contents of the cache into members.
#[derive(Debug)]
struct View {
    layout: Layout,
    own: Option<PersistentNodeState>,
}

impl Group {
    /// Starts a view of the group at `path` in the background, in the layout of Curator. The node need not exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn start(
        sessions: impl Into<SessionSource>,
        path: impl IntoNodePath,
    ) -> Result<Self, ParsePathError> {
        Self::start_with(sessions, path, Layout::default())
    }

    /// Starts a view of the group at `path` in the background. The node need not exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn start_with(
        sessions: impl Into<SessionSource>,
        path: impl IntoNodePath,
        layout: Layout,
    ) -> Result<Self, ParsePathError> {
        Ok(Self {
            cache: ChildrenCache::start(sessions, path)?,
            layout,
            own: None,
        })
    }

    /// Sets the node of this process.
    pub(crate) fn with_own(mut self, own: PersistentNodeState) -> Self {
        self.own = Some(own);
        self
    }

    /// Returns the path of the group.
    pub fn path(&self) -> &NodePath {
        self.cache.path()
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the members that are known. Sends no request.
    ///
    /// The view of a [`Membership`](crate::Membership) does not contain the member itself until the servers have reported
    /// its node, nor after its session was lost.
    pub fn members(&self) -> Members {
        self.view().members(&self.cache.snapshot())
    }

    /// Returns why the view has ended, if it has.
    #[cfg(feature = "partitioner")]
    pub(crate) fn end(&self) -> Option<CacheEnd> {
        self.cache.snapshot().end().cloned()
    }

    /// Returns a node that cannot be read, and why, if there is one. If it is the group itself, the view is not
    /// [synchronised](Members::is_synchronized); if it is a child, that is not counted as a member.
    pub fn partial_read(&self) -> Option<(NodePath, PartialRead)> {
        let snapshot = self.cache.snapshot();
        let (path, reason) = snapshot.partial_reads().next()?;
        Some((path.clone(), reason))
    }

    /// Waits until all members are known, and returns them. [`partial_read`](Self::partial_read) says why they cannot be
    /// known, for instance without the right to read.
    ///
    /// # Errors
    ///
    /// If the view has ended: there will be no further session.
    pub async fn synchronized(&self) -> Result<Members, CacheEnd> {
        self.wait_for(Members::is_synchronized).await
    }

    /// Waits for the first members for which `holds` returns true, from the present ones on.
    ///
    /// # Errors
    ///
    /// If the view has ended: there will be no further session.
    pub async fn wait_for(
        &self,
        mut holds: impl FnMut(&Members) -> bool,
    ) -> Result<Members, CacheEnd> {
        let mut changes = self.changes();
        while let Some(members) = changes.next().await {
            if holds(&members) {
                return Ok(members);
            }
        }
        Err(self.cache.ended().await)
    }

    /// Returns the members after each change, beginning with the present ones.
    pub fn changes(&self) -> MembersChanges {
        let snapshot = self.cache.snapshot();
        MembersChanges {
            events: self.cache.events_since(&snapshot),
            snapshot,
            view: self.view(),
            is_own_final: false,
            last: None,
        }
    }

    fn view(&self) -> View {
        View {
            layout: self.layout,
            own: self.own.clone(),
        }
    }
}

impl MembersChanges {
    /// Waits until the members differ from those that it returned last, and returns them; at first, returns the present
    /// ones. Changes in quick succession may be returned as one. `None` after the end of the view.
    ///
    /// # Session loss
    ///
    /// The members that were last known are returned as [not synchronised](Members::is_synchronized), without the member
    /// itself. `None` after that if there will be no further session.
    pub async fn next(&mut self) -> Option<Members> {
        // A slow consumer gets the newest ones, which may be stale.
        loop {
            tokio::select! {
                biased;
                Some((_, snapshot)) = self.events.next_batch() => self.snapshot = snapshot,
                () = std::future::ready(()) => break,
            }
        }
        loop {
            let members = self.view.members(&self.snapshot);
            if self.last.as_ref() != Some(&members) {
                self.last = Some(members.clone());
                return Some(members);
            }
            let own = self.view.own.as_mut().filter(|_| !self.is_own_final);
            tokio::select! {
                biased;
                batch = self.events.next_batch() => self.snapshot = batch?.1,
                goes_on = changed(own) => self.is_own_final = !goes_on,
            }
        }
    }
}

impl View {
    fn members(&self, snapshot: &Snapshot) -> Members {
        let nodes = snapshot.children(snapshot.path());
        let members = nodes.filter_map(|node| self.member(node)).collect();
        let is_listed = snapshot
            .partial_reads()
            .all(|(path, _)| path != snapshot.path());
        Members::new(members, snapshot.is_synchronized() && is_listed)
    }

    fn member(&self, node: &Node) -> Option<Member> {
        let stat = node.stat();
        // Other nodes are foreign.
        let session = stat.ephemeral_owner?;
        let is_lost = |own: &PersistentNodeState| own.has_lost(session);
        if self.own.as_ref().is_some_and(is_lost) {
            return None;
        }
        let name = node.name()?;
        let data = node.data().unwrap_or_default();
        let (id, payload) = self.layout.parse(name, data)?;
        Some(Member {
            id: id.into_owned(),
            payload: Bytes::copy_from_slice(payload),
            session,
            name: name.to_owned(),
            czxid: stat.czxid,
            mzxid: stat.mzxid,
        })
    }
}

/// Waits for a change of the own node, and returns whether there may be another one.
async fn changed(own: Option<&mut PersistentNodeState>) -> bool {
    match own {
        Some(own) => own.changed().await,
        None => std::future::pending().await,
    }
}
