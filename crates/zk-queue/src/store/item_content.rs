//! The content of an item's node.
//!
//! Pure: no I/O and no clock.

use zk_core::Stat;

use crate::layout::Layout;

/// The first item in the data of a node, and the version of the node that had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemContent {
    /// Without a frame.
    pub(crate) data: Vec<u8>,
    /// The data that stays in the node when the item is taken, if the node has more items.
    pub(super) rest: Option<Vec<u8>>,
    pub(crate) version: i32,
    pub(crate) czxid: i64,
}

impl ItemContent {
    /// Returns the first item in the data of a node, or why there is none.
    pub(super) fn parse(layout: Layout, data: Vec<u8>, stat: &Stat) -> Result<Self, String> {
        let (data, rest) = layout.unframe(data)?;
        Ok(Self {
            data,
            rest,
            version: stat.version,
            czxid: stat.czxid,
        })
    }

    /// Returns whether the node has more items than this one.
    pub(crate) const fn has_more(&self) -> bool {
        self.rest.is_some()
    }

    /// Returns the bytes that the content occupies.
    pub(super) fn size(&self) -> usize {
        self.data.len() + self.rest.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether a node with this `stat` still has the content.
    pub(super) fn is_current(&self, stat: &Stat) -> bool {
        stat.version == self.version && stat.czxid == self.czxid
    }
}
