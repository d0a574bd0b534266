//! Decides which options of a create go together.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use uuid::Uuid;

use crate::sequence::Sequence;
use crate::transport::CreateMode;

/// The options of a create.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are what the builder's methods set, one each"
)]
pub(super) struct Options {
    pub(super) ephemeral: bool,
    pub(super) sequential: bool,
    pub(super) number: Option<Sequence>,
    pub(super) container: bool,
    pub(super) ttl: Option<Duration>,
    pub(super) parents: Option<CreateMode>,
    pub(super) protected: bool,
    pub(super) id: IdPlace,
    /// The unique id, if the caller has drawn it.
    pub(super) unique_id: Option<Uuid>,
    pub(super) idempotent: bool,
    pub(super) or_set: bool,
}

/// Where the name of a [`protected`](crate::Create::protected) node contains its unique id.
///
/// Other clients of the same parent may parse the beginning of names, or their end before the number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdPlace {
    /// Before the name: `_c_<uuid>-<name>`, the format of Curator's protection.
    #[default]
    Before,
    /// After the name, followed by this text: `<name><32 hexadecimal digits><text>`.
    After(&'static str),
}

/// Returns the kind of node to create, or why the options exclude each other.
pub(super) fn mode_of(options: Options) -> Result<CreateMode, &'static str> {
    let Options {
        ephemeral,
        sequential,
        container,
        ttl,
        or_set,
        ..
    } = options;
    if or_set && (ephemeral || sequential || options.protected) {
        return Err("only a persistent node under its own name is created or set");
    }
    if sequential && options.number.is_some() {
        return Err("a node is numbered by its server or by its maker, not by both");
    }
    match (ephemeral, container, ttl) {
        (true, true, _) => Err("a node is ephemeral or a container, not both"),
        (true, false, Some(_)) => {
            Err("an ephemeral node lives as long as its session and has no time to live")
        }
        (false, true, Some(_)) => {
            Err("a container lives as long as it has children and has no time to live")
        }
        (false, true, None) if sequential => Err("a container cannot be sequential"),
        (false, true, None) => Ok(CreateMode::Container),
        (true, false, None) => Ok(if sequential {
            CreateMode::EphemeralSequential
        } else {
            CreateMode::Ephemeral
        }),
        (false, false, Some(ttl)) if !(1..=MOST_TTL_MILLIS).contains(&ttl.as_millis()) => {
            Err("a time to live is from 1 to 1099511627775 milliseconds")
        }
        (false, false, Some(ttl)) => Ok(if sequential {
            CreateMode::PersistentSequentialWithTtl(ttl)
        } else {
            CreateMode::PersistentWithTtl(ttl)
        }),
        (false, false, None) => Ok(if sequential {
            CreateMode::PersistentSequential
        } else {
            CreateMode::Persistent
        }),
    }
}

/// The server keeps a time to live in five bytes.
const MOST_TTL_MILLIS: u128 = (1 << 40) - 1;

#[cfg(test)]
mod tests;
