//! Decides what a publication does to a node, from the node as it was read.
//!
//! Pure: no I/O and no clock.

use zk_core::{Acl, NodePath, Stat};

/// The condition under which a key is published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expected {
    /// None: any node is replaced.
    #[default]
    Any,
    /// The node does not exist.
    Absent,
    /// The data has this version. Versions restart when a node is created again.
    Version(i32),
    /// The data was written by this transaction: the [`mzxid`](Stat::mzxid) of the value that the caller has read.
    ///
    /// A transaction id never repeats, and so identifies a node also after it was created again; a version does not.
    /// The write itself is conditional on the version that was read together with the revision, because servers have no
    /// other condition. It does not notice if the node is deleted, created again and written equally often between that
    /// read and the write.
    Revision(i64),
}

impl Expected {
    fn holds(self, found: Option<&Stat>) -> bool {
        match (self, found) {
            (Self::Any, _) | (Self::Absent, None) => true,
            (Self::Version(version), Some(stat)) => stat.version == version,
            (Self::Revision(revision), Some(stat)) => stat.mzxid == revision,
            (Self::Absent, Some(_)) | (Self::Version(_) | Self::Revision(_), None) => false,
        }
    }
}

/// A key to publish.
#[derive(Debug, Clone)]
pub(crate) struct KeyRequest {
    pub(crate) path: NodePath,
    /// The data, or `None` to remove the node.
    pub(crate) wanted: Option<Vec<u8>>,
    /// The ACL of the node if it is created, instead of the publisher's.
    pub(crate) acl: Option<Acl>,
    /// Replaces a node only, because its ACL is not known if it is to be created.
    pub(crate) only_replace: bool,
    pub(crate) expected: Expected,
    /// Leaves a node that has the data already.
    pub(crate) only_if_changed: bool,
}

/// The data and stat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeContent {
    pub(crate) data: Vec<u8>,
    pub(crate) stat: Stat,
}

/// The operation on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The node does not exist, and is not wanted.
    Nothing,
    /// The node is as wanted; the transaction checks that it still is.
    Check {
        version: i32,
    },
    Create,
    Set {
        version: i32,
    },
    Delete {
        version: i32,
    },
}

impl Step {
    /// Returns whether it changes the node.
    pub(crate) fn is_change(self) -> bool {
        !matches!(self, Self::Nothing | Self::Check { .. })
    }

    /// Returns whether it replaces or removes data.
    pub(crate) fn replaces(self) -> bool {
        matches!(self, Self::Set { .. } | Self::Delete { .. })
    }
}

/// The reason why a key is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The condition does not hold.
    Conflict,
    /// The version is -1, which servers take for any version.
    VersionIsAny,
}

/// Plans the operation on one node.
///
/// Every write is conditional on the version that was read: any write in between makes it fail.
pub(crate) fn plan(key: &KeyRequest, found: Option<&NodeContent>) -> Result<Step, Refusal> {
    if key.expected == Expected::Version(ANY_VERSION) {
        return Err(Refusal::VersionIsAny);
    }
    if !key.expected.holds(found.map(|found| &found.stat)) {
        return Err(Refusal::Conflict);
    }
    let Some(found) = found else {
        return match key.wanted {
            Some(_) if key.only_replace => Err(Refusal::Conflict),
            Some(_) => Ok(Step::Create),
            None => Ok(Step::Nothing),
        };
    };
    let version = found.stat.version;
    if version == ANY_VERSION {
        return Err(Refusal::VersionIsAny);
    }
    Ok(match &key.wanted {
        Some(data) if key.only_if_changed && *data == found.data => Step::Check { version },
        Some(_) => Step::Set { version },
        None => Step::Delete { version },
    })
}

/// The version that servers take for any. A counter that has wrapped around reaches it, too.
const ANY_VERSION: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: i32, mzxid: i64) -> NodeContent {
        let stat = Stat {
            version,
            mzxid,
            ..Stat::default()
        };
        NodeContent {
            data: b"old".to_vec(),
            stat,
        }
    }

    fn key(wanted: Option<&str>, expected: Expected, only_if_changed: bool) -> KeyRequest {
        KeyRequest {
            path: "/a".parse().unwrap(),
            wanted: wanted.map(|data| data.as_bytes().to_vec()),
            acl: None,
            only_replace: false,
            expected,
            only_if_changed,
        }
    }

    #[test]
    fn a_step_follows_from_the_request_and_the_node() {
        use Expected::{Absent, Any, Revision, Version};
        let set = Step::Set { version: 4 };
        let delete = Step::Delete { version: 4 };
        let there = || Some(found(4, 70));
        for (wanted, expected, only_if_changed, found, step) in [
            (Some("new"), Any, false, None, Ok(Step::Create)),
            (Some("new"), Any, false, there(), Ok(set)),
            (Some("old"), Any, false, there(), Ok(set)),
            (
                Some("old"),
                Any,
                true,
                there(),
                Ok(Step::Check { version: 4 }),
            ),
            (Some("new"), Any, true, there(), Ok(set)),
            (None, Any, false, None, Ok(Step::Nothing)),
            (None, Any, false, there(), Ok(delete)),
            (Some("new"), Absent, false, None, Ok(Step::Create)),
            (Some("new"), Absent, false, there(), Err(Refusal::Conflict)),
            (Some("new"), Version(4), false, there(), Ok(set)),
            (
                Some("new"),
                Version(0),
                false,
                there(),
                Err(Refusal::Conflict),
            ),
            (Some("new"), Version(0), false, None, Err(Refusal::Conflict)),
            (None, Version(4), false, there(), Ok(delete)),
            (None, Version(4), false, None, Err(Refusal::Conflict)),
            (Some("new"), Revision(70), false, there(), Ok(set)),
            (
                Some("new"),
                Revision(4),
                false,
                there(),
                Err(Refusal::Conflict),
            ),
            (
                Some("new"),
                Revision(70),
                false,
                None,
                Err(Refusal::Conflict),
            ),
        ] {
            let key = key(wanted, expected, only_if_changed);
            assert_eq!(plan(&key, found.as_ref()), step, "{key:?} {found:?}");
        }
    }

    #[test]
    fn the_version_that_means_any_is_never_sent() {
        let minus_one = found(-1, 70);
        for expected in [Expected::Any, Expected::Version(-1), Expected::Revision(70)] {
            for wanted in [Some("new"), Some("old"), None] {
                for only_if_changed in [false, true] {
                    let key = key(wanted, expected, only_if_changed);
                    assert_eq!(plan(&key, Some(&minus_one)), Err(Refusal::VersionIsAny));
                }
            }
        }
        let any = key(Some("new"), Expected::Version(-1), false);
        assert_eq!(plan(&any, Some(&found(4, 70))), Err(Refusal::VersionIsAny));
        for wrapped in [i32::MIN, i32::MAX, -2] {
            assert_eq!(
                plan(
                    &key(Some("new"), Expected::Any, false),
                    Some(&found(wrapped, 70))
                ),
                Ok(Step::Set { version: wrapped })
            );
        }
    }
}
