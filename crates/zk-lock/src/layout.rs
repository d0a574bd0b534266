//! How the nodes of a lock are named, so that locks of several clients exclude each other.

use zk_core::Sequence;

/// Which children of a lock's path are contenders, and how this crate names its own.
///
/// A child is a contender if its name ends in a sequence number with a known marker right before it.
/// Every other child is ignored.
///
/// | layout | our nodes | also counted as contenders |
/// |---|---|---|
/// | [`curator`](Self::curator), the default | `_c_<uuid>-lock-0000000007` | `…lock-<number>`, `…__lock__<number>`, `x-<session id>-<number>` |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    stem: &'static str,
    markers: &'static [Marker],
}

/// What stands right before the number of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    /// This text, whatever stands before it.
    Text(&'static str),
    /// `x-`, the id of a session in decimal or hexadecimal digits, and a dash: that is the whole name.
    SessionId,
}

impl Layout {
    /// Names nodes as Apache Curator's `InterProcessMutex` does.
    ///
    /// It and we exclude each other on one path, and so do we and go-zookeeper's lock, and a kazoo lock whose
    /// `_NODE_NAME` is `-lock-`.
    /// We wait for a stock kazoo lock and for ZooKeeper's `WriteLock`, too; `WriteLock` waits for us, but stock kazoo
    /// does not: it ignores our nodes unless its `extra_lock_patterns` names `-lock-`.
    pub const fn curator() -> Self {
        Self {
            stem: "lock-",
            markers: &[
                Marker::Text("lock-"),
                Marker::Text("__lock__"),
                Marker::SessionId,
            ],
        }
    }

    /// What our own names end in before the number.
    pub(crate) const fn stem(self) -> &'static str {
        self.stem
    }

    /// Returns the number of a contender, or `None` for a foreign child.
    pub(crate) fn sequence_of(self, name: &str) -> Option<Sequence> {
        self.markers
            .iter()
            .find_map(|marker| Sequence::parse(marker.number_in(name)?))
    }
}

impl Default for Layout {
    /// The layout of Curator.
    fn default() -> Self {
        Self::curator()
    }
}

impl Marker {
    /// Returns what stands after the marker.
    ///
    /// The marker says where a number begins, so that a minus sign is part of the number and a dash of the marker is
    /// not.
    fn number_in(self, name: &str) -> Option<&str> {
        match self {
            Self::Text(text) => name.rsplit_once(text).map(|(_, number)| number),
            Self::SessionId => {
                let id = name.strip_prefix("x-")?;
                let id = id.strip_prefix('-').unwrap_or(id);
                let digits = id.bytes().take_while(u8::is_ascii_hexdigit).count();
                if digits == 0 {
                    return None;
                }
                id.get(digits..)?.strip_prefix('-')
            }
        }
    }
}

#[cfg(test)]
mod tests;
