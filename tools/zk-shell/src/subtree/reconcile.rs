//! Walks over the wanted subtree and the one that exists at the same time, and reports each difference.

use std::cmp::Ordering;

use zk_core::{NodePath, Session, Stat};

use super::difference::{Difference, difference};
use super::node::{RelativePath, SubtreeNode};
use super::walk::{Found, Read, Walk};
use crate::failure::Failure;

/// Where the wanted nodes come from.
pub(crate) enum Wanted {
    /// Another subtree, of an ensemble.
    Walk(Box<Walk>),
    /// An export, which another thread reads.
    Archive(tokio::sync::mpsc::Receiver<SubtreeNode>),
}

/// Two subtrees side by side.
pub(crate) struct Reconcile {
    wanted: Wanted,
    /// Whether ephemeral nodes are wanted, as persistent ones.
    with_ephemerals: bool,
    existing: Walk,
    ephemerals_left_out: u64,
    next_wanted: Option<SubtreeNode>,
    next_found: Option<Found>,
    is_started: bool,
}

/// A node of either subtree, or of both.
#[derive(Debug)]
pub(crate) enum Pair {
    /// The node does not exist.
    Missing {
        node: SubtreeNode,
        has_children: bool,
    },
    /// The node exists.
    Present {
        node: SubtreeNode,
        stat: Stat,
        difference: Difference,
    },
    /// The node exists, and the session may not read it; the nodes below it were left out.
    Unreadable { path: RelativePath, left_out: u64 },
    /// The node is not wanted; without a stat if the session may not read that.
    Extra {
        path: RelativePath,
        stat: Option<Stat>,
    },
}

impl Reconcile {
    /// Compares the wanted nodes with those below `root`.
    pub(crate) fn new(
        wanted: Wanted,
        with_ephemerals: bool,
        session: &Session,
        root: &NodePath,
    ) -> Self {
        Self {
            wanted,
            with_ephemerals,
            existing: Walk::new(session, root),
            ephemerals_left_out: 0,
            next_wanted: None,
            next_found: None,
            is_started: false,
        }
    }

    /// Returns the next node, in the order of a walk; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Pair>, Failure> {
        if !self.is_started {
            self.is_started = true;
            self.next_wanted = self.take_wanted().await?;
            // Otherwise everything that exists would not be wanted.
            if self.next_wanted.is_none() && matches!(self.wanted, Wanted::Walk(_)) {
                return Err(no_root());
            }
            self.next_found = self.existing.next().await?;
        }
        while matches!(self.order(), Some(Ordering::Greater))
            && let Some(Found::Unreadable(path)) = &self.next_found
        {
            let path = path.clone();
            let stat = self.existing.stat(&path).await?;
            self.advance_found().await?;
            match stat {
                Read::Done(stat) => {
                    let stat = Some(stat);
                    return Ok(Some(Pair::Extra { path, stat }));
                }
                Read::Refused => return Ok(Some(Pair::Extra { path, stat: None })),
                Read::Gone => {}
            }
        }
        let Some(order) = self.order() else {
            return Ok(None);
        };
        let wanted = match order {
            Ordering::Greater => None,
            _ => self.advance_wanted().await?,
        };
        let found = match order {
            Ordering::Less => None,
            _ => self.advance_found().await?,
        };
        Ok(Some(match (wanted, found) {
            (Some(node), None) => {
                let below = |next: &SubtreeNode| next.path.is_at_or_below(&node.path);
                let has_children = self.next_wanted.as_ref().is_some_and(below);
                Pair::Missing { node, has_children }
            }
            (Some(node), Some(Found::Node { node: found, stat })) => {
                let difference = difference(&node, &found);
                Pair::Present {
                    node,
                    stat,
                    difference,
                }
            }
            (Some(_), Some(Found::Unreadable(path))) => {
                let mut left_out = 0;
                while self
                    .next_wanted
                    .as_ref()
                    .is_some_and(|next| next.path.is_at_or_below(&path))
                {
                    self.advance_wanted().await?;
                    left_out += 1;
                }
                Pair::Unreadable { path, left_out }
            }
            (None, Some(Found::Node { node, stat })) => Pair::Extra {
                path: node.path,
                stat: Some(stat),
            },
            (None, Some(Found::Unreadable(_)) | None) => return Ok(None),
        }))
    }

    /// Returns whether the next node is a wanted one that does not exist (less), or the other way round (greater).
    fn order(&self) -> Option<Ordering> {
        match (&self.next_wanted, &self.next_found) {
            (None, None) => None,
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            (Some(wanted), Some(found)) => Some(wanted.path.cmp(found.path())),
        }
    }

    /// Returns the node that is the root for the session of the existing nodes.
    pub(crate) fn chroot(&self) -> &NodePath {
        self.existing.chroot()
    }

    /// Returns what helps a session that may not do something to an existing node.
    pub(crate) const fn remedy(&self) -> &'static str {
        match self.wanted {
            Wanted::Walk(_) => MORE_RIGHTS_FOR_TARGET,
            Wanted::Archive(_) => MORE_RIGHTS,
        }
    }

    /// Returns how many ephemeral nodes were passed over so far.
    pub(crate) const fn ephemerals_left_out(&self) -> u64 {
        self.ephemerals_left_out
    }

    async fn advance_wanted(&mut self) -> Result<Option<SubtreeNode>, Failure> {
        let next = self.take_wanted().await?;
        Ok(std::mem::replace(&mut self.next_wanted, next))
    }

    async fn advance_found(&mut self) -> Result<Option<Found>, Failure> {
        let next = self.existing.next().await?;
        Ok(std::mem::replace(&mut self.next_found, next))
    }

    async fn take_wanted(&mut self) -> Result<Option<SubtreeNode>, Failure> {
        loop {
            let node = match &mut self.wanted {
                Wanted::Archive(nodes) => nodes.recv().await,
                Wanted::Walk(walk) => match walk.next().await? {
                    Some(Found::Node { node, .. }) => Some(node),
                    Some(Found::Unreadable(path)) => return Err(unreadable(path.as_str())),
                    None => None,
                },
            };
            match node {
                Some(node) if node.is_ephemeral && !self.with_ephemerals => {
                    self.ephemerals_left_out += 1;
                }
                node => return Ok(node),
            }
        }
    }
}

/// There is nothing to make another subtree equal to.
pub(crate) fn no_root() -> Failure {
    Failure::operation(
        "the root of the source vanished, or it is ephemeral, and ephemeral nodes are left out",
        Some("give another path, or --ephemerals"),
    )
}

/// A node of the source may not be read.
pub(crate) fn unreadable(path: &str) -> Failure {
    Failure::operation(
        format!(
            "this session may not read the node {path:?} of the subtree, or its children or access rules"
        ),
        Some(MORE_RIGHTS),
    )
}

const MORE_RIGHTS: &str =
    "put the credentials of a user who may into the environment: ZK_AUTH=user:password";
/// The target of `mirror` may have others than the source.
pub(crate) const MORE_RIGHTS_FOR_TARGET: &str =
    "put the credentials of a user who may into the environment: ZK_TO_AUTH=user:password";
