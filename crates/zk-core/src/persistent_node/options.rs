//! What kind of node a persistent node is.

use std::time::Duration;

use zk_wire::{Acl, NodePath};

use crate::operation::Create;
use crate::session::Session;
use crate::transport::CreateMode;

/// The kind of a [`PersistentNode`](crate::PersistentNode), its access rules, and whether its name has a unique id.
///
/// # Defaults
///
/// | option | default |
/// |---|---|
/// | [`with_protection`](Self::with_protection) | no unique id, except for sequential nodes |
/// | [`with_acl`](Self::with_acl) | the rules of the session |
/// | [`with_persistent_parents`](Self::with_persistent_parents) | missing parents are created as containers |
#[derive(Debug, Clone)]
pub struct PersistentNodeOptions {
    mode: CreateMode,
    is_protected: bool,
    acl: Option<Acl>,
    has_persistent_parents: bool,
}

impl PersistentNodeOptions {
    const fn new(mode: CreateMode, is_sequential: bool) -> Self {
        Self {
            mode,
            is_protected: is_sequential,
            acl: None,
            has_persistent_parents: false,
        }
    }

    /// An ephemeral node: it is there while the process has a session.
    pub const fn ephemeral() -> Self {
        Self::new(CreateMode::Ephemeral, false)
    }

    /// An ephemeral node with a sequence number, and with a unique id before its name.
    ///
    /// It keeps its name, and so its number, when it is created again.
    pub const fn ephemeral_sequential() -> Self {
        Self::new(CreateMode::EphemeralSequential, true)
    }

    /// A node that stays after the handle and the session.
    pub const fn persistent() -> Self {
        Self::new(CreateMode::Persistent, false)
    }

    /// A node that stays after the handle and the session, with a sequence number, and with a unique id before its name.
    ///
    /// It keeps its name, and so its number, when it is created again.
    pub const fn persistent_sequential() -> Self {
        Self::new(CreateMode::PersistentSequential, true)
    }

    /// A container: servers delete it some time after its last child was deleted, and the handle creates it again.
    pub const fn container() -> Self {
        Self::new(CreateMode::Container, false)
    }

    /// A node that is kept alive by touching its child `touch`, and that servers delete when the handle was gone for about
    /// `ttl`.
    ///
    /// `ttl` is from 1 ms to 2^40-1 ms. The servers need `extendedTypesEnabled`.
    pub const fn ttl(ttl: Duration) -> Self {
        Self::new(CreateMode::PersistentWithTtl(ttl), false)
    }

    /// A node like [`ttl`](Self::ttl), with a sequence number, and with a unique id before its name.
    pub const fn ttl_sequential(ttl: Duration) -> Self {
        Self::new(CreateMode::PersistentSequentialWithTtl(ttl), true)
    }

    /// Puts a unique id before the name, as [`Create::protected`] does.
    #[must_use]
    pub const fn with_protection(mut self) -> Self {
        self.is_protected = true;
        self
    }

    /// Sets the access rules of the node, of parents that are created, and of the child of a TTL node.
    ///
    /// They must allow this client to create below the parents, and for a TTL node to create and write below the node:
    /// otherwise the node cannot be created below a new parent, or expires again and again. If the rules are narrower,
    /// create the parents first.
    #[must_use]
    pub fn with_acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    pub(super) const fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// Creates missing parents as persistent nodes, for other clients that need them when they are empty.
    #[must_use]
    pub const fn with_persistent_parents(mut self) -> Self {
        self.has_persistent_parents = true;
        self
    }

    pub(super) const fn is_ephemeral(&self) -> bool {
        self.mode.is_ephemeral()
    }

    pub(super) const fn time_to_live(&self) -> Option<Duration> {
        self.mode.ttl()
    }

    /// Returns the create under the name that was given, with a sequence number if the mode has one.
    pub(super) fn first_create(&self, session: &Session, path: &NodePath, data: &[u8]) -> Create {
        let create = self.create(session, path, data);
        if self.mode.is_sequential() {
            create.sequential()
        } else {
            create
        }
    }

    /// Returns the create under exactly this path.
    pub(super) fn create(&self, session: &Session, path: &NodePath, data: &[u8]) -> Create {
        let create = self.create_below(session, path, data);
        if self.has_persistent_parents {
            create.parents()
        } else {
            create.container_parents()
        }
    }

    /// Returns the create under exactly this path, below a parent that exists.
    pub(super) fn create_below(&self, session: &Session, path: &NodePath, data: &[u8]) -> Create {
        let create = session.create(path, data);
        let create = match &self.acl {
            Some(acl) => create.acl(acl.clone()),
            None => create,
        };
        match self.mode {
            CreateMode::Ephemeral | CreateMode::EphemeralSequential => create.ephemeral(),
            CreateMode::Container => create.container(),
            CreateMode::Persistent | CreateMode::PersistentSequential => create,
            CreateMode::PersistentWithTtl(ttl) | CreateMode::PersistentSequentialWithTtl(ttl) => {
                create.ttl(ttl)
            }
        }
    }
}
