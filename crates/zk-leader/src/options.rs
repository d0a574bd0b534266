//! The settings of a participant.

use std::time::Duration;

use zk_core::Acl;
use zk_lock::{Layout, LockOptions, OwnerInfo};

use crate::step_down::StepDownPolicy;

/// The settings of a participant.
///
/// # Defaults
///
/// - [`id`](Self::with_id): `<host name>/<process id>`
/// - [`metadata`](Self::with_metadata): none
/// - [`acl`](Self::with_acl): that of the session
/// - [`rejoin`](Self::with_rejoin): [`Rejoin::Always`]
/// - [`grace`](Self::with_grace): 10 seconds
/// - [`step_down`](Self::with_step_down): none, requests to step down are not received
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionOptions {
    id: Option<String>,
    metadata: Vec<u8>,
    acl: Option<Acl>,
    rejoin: Rejoin,
    grace: Duration,
    step_down: Option<StepDownPolicy>,
}

/// What a participant does when it loses its node or its leadership while its session lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rejoin {
    /// It joins again, at the end of the queue.
    #[default]
    Always,
    /// It ends with the reason.
    Never,
}

impl ElectionOptions {
    /// Sets the name of this participant, a single line.
    ///
    /// The default is `<host name>/<process id>`.
    /// It need not be unique: no decision depends on it.
    /// After a line break, the rest of the text counts as metadata.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets more data that others see of this participant, such as the address at which it serves while it leads.
    ///
    /// The default is none.
    /// Every client that may read the nodes sees it: keep it short and free of secrets.
    /// It follows the id in the data of the node, after a line break. Curator has no metadata, and its clients read
    /// both as the id.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Into<Vec<u8>>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// Sets the ACL of the participant's nodes, and of the parents that it creates.
    ///
    /// The default is the ACL of the session.
    /// See [`LockOptions::with_acl`] for the permissions that participants need.
    #[must_use]
    pub fn with_acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets whether a participant joins again when it loses its node or its leadership while its session lives.
    ///
    /// The default is [`Rejoin::Always`].
    #[must_use]
    pub const fn with_rejoin(mut self, rejoin: Rejoin) -> Self {
        self.rejoin = rejoin;
        self
    }

    /// Sets how long the task of a [`Selector`](crate::Selector) may continue after a request to resign.
    ///
    /// The default is 10 seconds.
    /// After that the task is dropped; with zero it is dropped at once.
    /// A [`LeaderLatch`](crate::LeaderLatch) has no task and ignores this.
    #[must_use]
    pub const fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Lets other processes [ask](crate::LeaderLatch::request_step_down) this participant to step down while it leads, and
    /// sets who decides.
    ///
    /// By default it receives no requests.
    /// With a policy it has another ephemeral node while it leads, below the path of the election with `-step-down`
    /// appended. Requesters need READ and WRITE on that node, whose [ACL](Self::with_acl) is that of the participant's
    /// nodes, and READ on its parent and on the election.
    /// The node costs two writes for each leadership, and two watches. The leadership does not wait for it.
    #[must_use]
    pub const fn with_step_down(mut self, policy: StepDownPolicy) -> Self {
        self.step_down = Some(policy);
        self
    }

    pub(crate) const fn step_down(&self) -> Option<StepDownPolicy> {
        self.step_down
    }

    pub(crate) const fn acl(&self) -> Option<&Acl> {
        self.acl.as_ref()
    }

    pub(crate) const fn rejoin(&self) -> Rejoin {
        self.rejoin
    }

    pub(crate) const fn grace(&self) -> Duration {
        self.grace
    }

    /// Converts these settings to those of the lock that holds the queue.
    pub(crate) fn for_lock(&self, layout: Layout) -> LockOptions {
        let mut options = LockOptions::default().with_layout(layout);
        let mut data = match &self.id {
            Some(id) => id.clone().into_bytes(),
            None => OwnerInfo::this_process().to_string().into_bytes(),
        };
        if !self.metadata.is_empty() {
            data.push(SEPARATOR);
            data.extend_from_slice(&self.metadata);
        }
        options = options.with_owner(data);
        match &self.acl {
            Some(acl) => options.with_acl(acl.clone()),
            None => options,
        }
    }
}

impl Default for ElectionOptions {
    fn default() -> Self {
        Self {
            id: None,
            metadata: Vec::new(),
            acl: None,
            rejoin: Rejoin::default(),
            grace: Duration::from_secs(10),
            step_down: None,
        }
    }
}

/// Separates the id and the metadata in the data of a node.
pub(crate) const SEPARATOR: u8 = b'\n';
