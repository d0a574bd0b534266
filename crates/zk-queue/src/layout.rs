//! The names of items: what they tell, and how other clients write them.
//!
//! Pure: no I/O and no clock.

use zk_core::Sequence;

/// How the nodes of a queue are named, and how their data is written.
///
/// All who use one path have to agree on it: children that a layout does not know are foreign to it and left alone.
///
/// | layout | names | data | shares a path with |
/// |---|---|---|---|
/// | [`Recipe`](Self::Recipe) | `qn-%010d` | the item | ZooKeeper's recipe, Curator's `SimpleDistributedQueue` |
/// | [`Native`](Self::Native) | `w-<priority>-<due>-<deliveries>-%010d` | the item | ours |
/// | [`Kazoo`](Self::Kazoo) | `entry-<priority %03d>-%010d` | the item | kazoo's `Queue` |
/// | [`Curator`](Self::Curator) | `queue-%010d` | Curator's frame | Curator's `DistributedQueue` |
/// | [`CuratorPriority`](Self::CuratorPriority) | `queue-<0 or 1><8 digits>%010d` | Curator's frame | Curator's `DistributedPriorityQueue` |
/// | [`CuratorDelay`](Self::CuratorDelay) | `queue-\|<due>\|%010d` | Curator's frame | Curator's `DistributedDelayQueue` |
///
/// A node that Curator wrote with `putMulti` holds several items; each is taken for itself.
/// Curator's queues delete an item before they process it, or hold a lock node on another path meanwhile, which is not
/// looked at here: share a path with `DistributedQueue` only where it has no lock path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// ZooKeeper's own recipe: first in, first out.
    #[default]
    Recipe,
    /// Priorities and delays; what a [`WorkQueue`](crate::WorkQueue) has.
    Native,
    /// Priorities from 0 to 999.
    Kazoo,
    /// First in, first out, in Curator's frame.
    Curator,
    /// Priorities, in Curator's frame.
    CuratorPriority,
    /// Delays, in Curator's frame.
    CuratorDelay,
}

/// What the name of an item tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The least comes first.
    pub(crate) priority: i32,
    /// When it may be taken, in milliseconds since 1970 by the leader's clock; zero for at once.
    pub(crate) due: u64,
    /// How often it had been delivered when it got this name.
    pub(crate) deliveries: u32,
    pub(crate) sequence: Sequence,
}

/// A layout's names cannot express what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    Priority,
    Delay,
}

impl Layout {
    /// Tells whether its names have priorities.
    pub const fn has_priorities(self) -> bool {
        matches!(self, Self::Native | Self::Kazoo | Self::CuratorPriority)
    }

    /// Tells whether its names have the moment from which on an item may be taken.
    pub const fn has_delays(self) -> bool {
        matches!(self, Self::Native | Self::CuratorDelay)
    }

    /// Tells whether the data of a node is in Curator's frame.
    pub(crate) const fn is_framed(self) -> bool {
        matches!(
            self,
            Self::Curator | Self::CuratorPriority | Self::CuratorDelay
        )
    }

    /// The name without the number that the server appends.
    pub(crate) fn stem(self, priority: Option<i32>, due: u64) -> Result<String, Unfit> {
        if due != 0 && !self.has_delays() {
            return Err(Unfit::Delay);
        }
        Ok(match (self, priority) {
            (Self::Recipe, None) => "qn-".to_owned(),
            (Self::Curator, None) => "queue-".to_owned(),
            (Self::CuratorDelay, None) => format!("queue-|{due:08X}|"),
            (Self::Native, priority) => native(priority.unwrap_or(0), due, 0),
            (Self::Kazoo, priority) => match priority.unwrap_or(KAZOO_DEFAULT) {
                priority @ 0..=999 => format!("entry-{priority:03}-"),
                _ => return Err(Unfit::Priority),
            },
            (Self::CuratorPriority, priority) => {
                let priority = priority.unwrap_or(0);
                format!("queue-{}{priority:08X}", u8::from(priority >= 0))
            }
            (Self::Recipe | Self::Curator | Self::CuratorDelay, Some(_)) => {
                return Err(Unfit::Priority);
            }
        })
    }

    /// What the name of a child tells; `None` when it is not an item of this layout.
    pub(crate) fn parse(self, name: &str) -> Option<Slot> {
        let plain = |sequence| Slot {
            priority: 0,
            due: 0,
            deliveries: 0,
            sequence,
        };
        match self {
            Self::Recipe => Some(plain(Sequence::parse(name.strip_prefix("qn-")?)?)),
            Self::Curator => Some(plain(Sequence::parse(name.strip_prefix("queue-")?)?)),
            Self::Native => parse_native(name),
            Self::Kazoo => {
                let (priority, number) = name.strip_prefix("entry-")?.split_once('-')?;
                let is_three = priority.len() == 3 && priority.bytes().all(|b| b.is_ascii_digit());
                Some(Slot {
                    priority: is_three.then(|| priority.parse().ok())??,
                    ..plain(Sequence::parse(number)?)
                })
            }
            Self::CuratorPriority => {
                let rest = name.strip_prefix("queue-")?;
                let (sign, digits, number) = (rest.get(..1)?, rest.get(1..9)?, rest.get(9..)?);
                let bits = hex(digits).and_then(|bits| u32::try_from(bits).ok())?;
                let priority = bits.cast_signed();
                Some(Slot {
                    priority: (sign == if priority < 0 { "0" } else { "1" }).then_some(priority)?,
                    ..plain(Sequence::parse(number)?)
                })
            }
            Self::CuratorDelay => {
                let (due, number) = name.strip_prefix("queue-|")?.split_once('|')?;
                Some(Slot {
                    due: hex(due)?,
                    ..plain(Sequence::parse(number)?)
                })
            }
        }
    }
}

impl Slot {
    /// The same item, to be delivered again when it is due.
    pub(crate) const fn postponed(self, due: u64, deliveries: u32) -> Self {
        Self {
            due,
            deliveries,
            ..self
        }
    }

    /// The whole name of an item in the native layout that goes on with the number it has.
    pub(crate) fn native_name(&self) -> String {
        let stem = native(self.priority, self.due, self.deliveries);
        format!("{stem}{}", self.sequence)
    }
}

/// A minus sign would look like the end of a field.
fn native(priority: i32, due: u64, deliveries: u32) -> String {
    let sign = if priority < 0 { "n" } else { "" };
    let priority = priority.unsigned_abs();
    format!("w-{sign}{priority}-{due:x}-{deliveries}-")
}

/// Only what [`native`] writes: two names for one item would be two items.
fn parse_native(name: &str) -> Option<Slot> {
    let mut fields = name.strip_prefix("w-")?.splitn(4, '-');
    let (priority, due, deliveries) = (fields.next()?, fields.next()?, fields.next()?);
    let sequence = Sequence::parse(fields.next()?)?;
    let priority = match priority.strip_prefix('n') {
        Some(digits) => i32::try_from(-digits.parse::<i64>().ok()?).ok()?,
        None => priority.parse().ok()?,
    };
    let slot = Slot {
        priority,
        due: u64::from_str_radix(due, 16).ok()?,
        deliveries: deliveries.parse().ok()?,
        sequence,
    };
    (slot.native_name() == name).then_some(slot)
}

/// Hexadecimal digits and nothing else, no sign.
fn hex(digits: &str) -> Option<u64> {
    let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// What kazoo's `put` takes when it is not told.
const KAZOO_DEFAULT: i32 = 100;

#[cfg(test)]
mod tests;
