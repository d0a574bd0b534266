//! What a publication is to do, given what is there.
//!
//! Pure: no I/O and no clock.

use zk_core::Acl;
use zk_core::NodePath;
use zk_core::Stat;

/// What has to be so for a key to be published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expected {
    /// Whatever is there is replaced.
    #[default]
    Any,
    /// Nothing is there.
    Absent,
    /// The data has this version, which restarts when a node is made anew.
    Version(i32),
    /// The data is the work of this transaction: the [`mzxid`](Stat::mzxid) of what the decision to publish rests on.
    ///
    /// It never comes twice, so that it tells a node from one that was made anew, which a version does not.
    /// The write itself is made under the version that was read with it, as servers know no other condition: a node that
    /// is removed, made anew and written as often in the moment between the two is taken for the same.
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

/// What a key is to be.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) path: NodePath,
    /// The data, or `None` when the node is to go.
    pub(crate) wanted: Option<Vec<u8>>,
    /// The access rules of the node if it is made, instead of those of the publisher.
    pub(crate) acl: Option<Acl>,
    pub(crate) expected: Expected,
    /// Whether data that is there already is left as it is.
    pub(crate) only_if_changed: bool,
}

/// A node as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) data: Vec<u8>,
    pub(crate) stat: Stat,
}

/// What is done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is not there, and is not to be.
    Nothing,
    /// It is as wanted, and has to be so still.
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
    /// Whether it changes something.
    #[cfg(test)]
    pub(crate) fn is_change(self) -> bool {
        !matches!(self, Self::Nothing | Self::Check { .. })
    }

    /// Whether it takes the place of data.
    pub(crate) fn replaces(self) -> bool {
        matches!(self, Self::Set { .. } | Self::Delete { .. })
    }
}

/// Why a key is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// What was expected is not so.
    Conflict,
    /// The version is the one number that cannot be asked for.
    VersionIsAny,
}

/// Decides what is done to one node.
///
/// Every write is under the version that was read: whatever comes between fails it, and nothing is overwritten unseen.
pub(crate) fn plan(key: &Key, found: Option<&Found>) -> Result<Step, Refusal> {
    if key.expected == Expected::Version(ANY_VERSION) {
        return Err(Refusal::VersionIsAny);
    }
    if !key.expected.holds(found.map(|found| &found.stat)) {
        return Err(Refusal::Conflict);
    }
    let Some(found) = found else {
        return Ok(match key.wanted {
            Some(_) => Step::Create,
            None => Step::Nothing,
        });
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

/// What servers take for any version. A counter that has wrapped comes to it, too.
const ANY_VERSION: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: i32, mzxid: i64) -> Found {
        let mut stat = Stat::zeroed();
        stat.version = version;
        stat.mzxid = mzxid;
        Found {
            data: b"old".to_vec(),
            stat,
        }
    }

    fn key(wanted: Option<&str>, expected: Expected, only_if_changed: bool) -> Key {
        Key {
            path: "/a".parse().unwrap(),
            wanted: wanted.map(|data| data.as_bytes().to_vec()),
            acl: None,
            expected,
            only_if_changed,
        }
    }

    // covers: G1
    #[test]
    fn step_follows_from_what_is_wanted_expected_and_found() {
        use Expected::Absent;
        use Expected::Any;
        use Expected::Revision;
        use Expected::Version;
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

    // covers: G1
    #[test]
    fn version_that_means_any_is_never_asked_for() {
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
