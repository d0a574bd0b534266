//! The result of publishing a key.
//!
//! Pure: no I/O and no clock.

use zk_core::{NodePath, Stat};

/// The result of publishing one key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The path.
    pub path: NodePath,
    /// The change.
    pub change: KeyChange,
    /// The stat after the change. A later publication can [expect](crate::Expected) its [`version`](Stat::version) or
    /// [`mzxid`](Stat::mzxid).
    ///
    /// `None` if there is no node, or if the stat is unknown: the reply was lost, or a server before 3.8.1 created the
    /// node, and the node had changed again before it was read.
    /// Then read the key, and decide again what to expect.
    pub stat: Option<Stat>,
}

/// The change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyChange {
    /// The node was created.
    Created,
    /// The data was replaced.
    Replaced,
    /// The node is as before.
    Unchanged,
    /// The node was removed.
    Removed,
}
