//! Inspects a path that ids are generated from, without a write.

use std::time::SystemTime;

use zk_core::{Error, IntoNodePath, NodePath, ParsePathError, Session, SessionId, Stat};

use crate::high_water_mark::parse_mark;
use crate::worker::child;
use crate::worker_slots;

/// A handle to inspect a path that ids are generated from.
///
/// It only reads: it claims no number, creates no nodes, and leaves no watches.
#[derive(Debug, Clone)]
pub struct Inspector {
    session: Session,
    path: NodePath,
}

/// What a path is used for, and how far its ids have come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdsSnapshot {
    /// A counter that blocks of ids are taken from.
    Counter {
        /// The largest number that was taken.
        taken: i64,
        /// When it was taken, by the clock of the ensemble's leader.
        changed: SystemTime,
    },
    /// The worker numbers of snowflakes, or only worker numbers.
    Workers {
        /// What the data of the node says, as in `zk-id snowflakes of 41/10/12 bits since 1288834974657 ms`.
        description: String,
        /// The holders, in the order of their numbers.
        holders: Vec<WorkerHolder>,
        /// The high-water marks, in the order of their numbers.
        marks: Vec<Mark>,
    },
    /// A node whose writes issue zxids.
    Zxids {
        /// The last zxid that was issued or will not be.
        last: i64,
        /// When it was, by the clock of the ensemble's leader.
        changed: SystemTime,
    },
    /// Any other node: sequential nodes below it may be numbered.
    Sequence {
        /// The number that the next sequential child gets.
        next: u32,
    },
}

/// The holder of a worker number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerHolder {
    /// The number.
    pub number: u32,
    /// What it says of itself, see [`WorkerIds::with_description`](crate::WorkerIds::with_description).
    pub description: String,
    /// Its session; `None` for a node that is not ephemeral, which the end of no session releases.
    pub session: Option<SessionId>,
    /// When it claimed the number, by the clock of the ensemble's leader.
    pub since: SystemTime,
}

/// The time up to which ids of a worker number may have been issued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// The number.
    pub number: u32,
    /// The end of the reserved time, by the clock of the process; `None` if the data is no mark.
    pub reserved: Option<SystemTime>,
}

impl Inspector {
    /// Creates a handle to the ids at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            path: path.into_node_path()?,
        })
    }

    /// Reads what the path is used for, and how far its ids have come; `None` if there is no node.
    ///
    /// The node itself does not show whether it is the parent of a sequence: any node that is nothing else is reported
    /// as [`Sequence`](IdsSnapshot::Sequence).
    /// The result may be outdated: it is what the session's server has.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// Two round trips; for worker numbers also those of [`get_many`](Session::get_many) for the holders and marks.
    pub async fn snapshot(&self) -> Result<Option<IdsSnapshot>, Error> {
        let Self { session, path } = self;
        let (data, stat) = match session.get(path).await {
            Ok(read) => read,
            Err(error) if error.is_no_node() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (names, _) = match session.list(path).await {
            Ok(read) => read,
            Err(error) if error.is_no_node() => return Ok(None),
            Err(error) => return Err(error),
        };
        match purpose(&data, &stat, &names) {
            Some(snapshot) => Ok(Some(snapshot)),
            None => read_workers(session, path, &data, names).await.map(Some),
        }
    }
}

/// Returns what a node is used for; `None` if those are workers and marks.
fn purpose(data: &[u8], stat: &Stat, names: &[String]) -> Option<IdsSnapshot> {
    let is_of_worker = |name: &String| {
        worker_slots::number(name)
            .or_else(|| worker_slots::mark_number(name))
            .is_some()
    };
    if names.iter().any(is_of_worker) || data.starts_with(SNOWFLAKES) || is_workers(data) {
        return None;
    }
    Some(if data.starts_with(ZXIDS) {
        IdsSnapshot::Zxids {
            last: stat.mzxid,
            changed: stat.mtime,
        }
    } else if let Ok(number) = <[u8; 8]>::try_from(data) {
        IdsSnapshot::Counter {
            taken: i64::from_be_bytes(number),
            changed: stat.mtime,
        }
    } else {
        // Servers count creations, but report twice their number without the children that exist.
        let creations = stat
            .cversion
            .cast_unsigned()
            .wrapping_add(stat.num_children)
            / 2;
        IdsSnapshot::Sequence { next: creations }
    })
}

async fn read_workers(
    session: &Session,
    path: &NodePath,
    data: &[u8],
    mut names: Vec<String>,
) -> Result<IdsSnapshot, Error> {
    names.retain(|name| {
        worker_slots::number(name).is_some() || worker_slots::mark_number(name).is_some()
    });
    names.sort_unstable();
    let (mut holders, mut marks) = (Vec::new(), Vec::new());
    let paths = names.iter().map(|name| child(path, name));
    for (name, read) in names.iter().zip(session.get_many(paths).await?) {
        let (data, stat) = match read {
            Ok(read) => read,
            Err(error) if error.is_no_node() => continue,
            Err(error) => return Err(error),
        };
        if let Some(number) = worker_slots::number(name) {
            let text = String::from_utf8_lossy(&data);
            let description = text
                .split_once('\n')
                .map_or("", |(_, description)| description);
            holders.push(WorkerHolder {
                number,
                description: description.to_owned(),
                session: stat.ephemeral_owner,
                since: stat.ctime,
            });
        } else if let Some(number) = worker_slots::mark_number(name) {
            marks.push(Mark {
                number,
                reserved: parse_mark(&data),
            });
        }
    }
    Ok(IdsSnapshot::Workers {
        description: String::from_utf8_lossy(data).into_owned(),
        holders,
        marks,
    })
}

/// Returns whether the data is that of plain worker numbers, as in `zk-id 1024 workers`.
fn is_workers(data: &[u8]) -> bool {
    let text = str::from_utf8(data).ok();
    let count = text.and_then(|text| text.strip_prefix("zk-id ")?.strip_suffix(" workers"));
    count.is_some_and(|count| count.parse::<u32>().is_ok())
}

const SNOWFLAKES: &[u8] = b"zk-id snowflakes of ";
const ZXIDS: &[u8] = b"zk-id zxids";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_a_node_shows_what_it_is_used_for() {
        let stat = Stat {
            mzxid: 7,
            ..Stat::default()
        };
        let changed = SystemTime::UNIX_EPOCH;
        let of = |data: &[u8], names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            purpose(data, &stat, &names)
        };
        let counter = IdsSnapshot::Counter {
            taken: 258,
            changed,
        };
        assert_eq!(of(&258_i64.to_be_bytes(), &["after-1"]), Some(counter));
        assert_eq!(
            of(b"zk-id zxids: 0x1-7", &[]),
            Some(IdsSnapshot::Zxids { last: 7, changed })
        );
        assert_eq!(of(b"", &[]), Some(IdsSnapshot::Sequence { next: 0 }));
        for (data, names) in [
            (
                &b"zk-id snowflakes of 41/10/12 bits since 0 ms"[..],
                &[][..],
            ),
            (b"zk-id 1024 workers", &[]),
            (b"", &["worker-00007"]),
            (b"", &["mark-00007"]),
        ] {
            assert_eq!(of(data, names), None, "{data:?} {names:?}");
        }
        assert!(of(b"zk-id many workers", &[]).is_some());
    }

    #[test]
    fn the_next_number_is_that_of_all_creations() {
        // Five were created, and three of them deleted: the server reports 5 * 2 - 2.
        let mut stat = Stat::default();
        (stat.cversion, stat.num_children) = (8, 2);
        assert_eq!(
            purpose(b"", &stat, &[]),
            Some(IdsSnapshot::Sequence { next: 5 })
        );
    }
}
