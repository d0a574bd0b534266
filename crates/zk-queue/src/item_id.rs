//! `ItemId`: names one item for ever, although the names of nodes repeat.
//!
//! A server gives each item of a parent a number of its own, so a number names one item as long as the parent exists.
//! The id also has the zxid of the transaction that created the item: a parent that is older than that is the one in
//! which the item was created, and a younger one is another parent, in which the number is another item's.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

use zk_core::{NodePath, Sequence};

/// Identifies an item that was offered, for [`Queue::cancel`](crate::Queue::cancel) and
/// [`WorkQueue::cancel`](crate::WorkQueue::cancel).
///
/// It never denotes another item, whatever is deleted and created again. It is valid in the whole ensemble, for any session
/// and namespace.
/// Its text, which applications can store, consists of the absolute path at which the item was offered and the zxid of
/// the transaction that did it. What it contains may change; only parse it with [`FromStr`].
///
/// An item of a [`WorkQueue`](crate::WorkQueue) gets another path, but keeps its id, when it is rejected with a delay.
/// An item gets another id when a dead letter is offered again, and when it is put back to the end of its priority
/// after a dropped take (guarantee 3 of the [crate]).
/// Consumers do not see the id, because the node that they read may be a later one of the item. If they have to know which
/// one it is, put a name of the application into the item.
///
/// ```
/// use zk_queue::ItemId;
///
/// let id: ItemId = "/mail/outgoing/qn-0000000042@1c8".parse()?;
/// assert_eq!(id.to_string(), "/mail/outgoing/qn-0000000042@1c8");
/// # Ok::<(), zk_queue::ParseItemIdError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ItemId {
    /// Where the item was offered, on the ensemble: with the chroot and the namespace of the session that did it.
    path: NodePath,
    /// The transaction that created the item.
    czxid: i64,
}

/// A text is not that of an [`ItemId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    r#"{text:?} is not the id of an item; an id looks like "/mail/outgoing/qn-0000000042@1c8""#
)]
pub struct ParseItemIdError {
    text: String,
}

impl ItemId {
    /// Returns the id of an item that the transaction `czxid` created at this absolute path.
    pub(crate) const fn new(path: NodePath, czxid: i64) -> Self {
        Self { path, czxid }
    }

    pub(crate) const fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns whether the item was created in a parent that the transaction `parent` created and that still exists.
    pub(crate) const fn is_of_parent(&self, parent: i64) -> bool {
        parent < self.czxid
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:x}", self.path, self.czxid)
    }
}

impl fmt::Debug for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ItemId({self})")
    }
}

impl FromStr for ItemId {
    type Err = ParseItemIdError;

    fn from_str(text: &str) -> Result<Self, ParseItemIdError> {
        parse(text).ok_or_else(|| ParseItemIdError {
            text: text.to_owned(),
        })
    }
}

/// Accepts only what is written, so that one item has one text.
fn parse(text: &str) -> Option<ItemId> {
    let (path, czxid) = text.rsplit_once('@')?;
    let path = NodePath::parse(path).ok()?;
    Sequence::split(path.name()?)?;
    let czxid = i64::from_str_radix(czxid, 16).ok()?;
    let id = ItemId { path, czxid };
    (czxid > 0 && id.to_string() == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_from_its_text_and_from_nothing_else() {
        for text in [
            "/a/qn-0000000000@1",
            "/a@b/items/w-n7-18f-3-0000000042@100000002",
            "/a-receipts/segments/0000000001/queue-|0|-0000000001@7fffffffffffffff",
        ] {
            assert_eq!(text.parse::<ItemId>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "/a/qn-0000000000",
            "/a/qn-0000000000@",
            "/a/qn-0000000000@0",
            "/a/qn-0000000000@-1",
            "/a/qn-0000000000@+1",
            "/a/qn-0000000000@01",
            "/a/qn-0000000000@1C8",
            "/a/qn-42@1",
            "a/qn-0000000000@1",
            "/@1",
        ] {
            let error = text.parse::<ItemId>().unwrap_err();
            assert!(error.to_string().contains("is not the id"), "{text}");
        }
    }

    #[test]
    fn an_id_is_of_an_older_parent_only() {
        let id: ItemId = "/a/qn-0000000000@10".parse().unwrap();
        for (parent, expected) in [(1, true), (0xf, true), (0x10, false), (0x11, false)] {
            assert_eq!(id.is_of_parent(parent), expected, "{parent}");
        }
    }
}
