//! Parses and formats the names of items, in the formats of this crate and of other clients.
//!
//! Pure: no I/O and no clock.

use zk_core::Sequence;

/// How a queue's nodes are named, and how their data is encoded.
///
/// All clients that share a path have to agree on it. A child that does not match the layout is skipped and left alone.
///
/// | layout | names | data | shares a path with |
/// |---|---|---|---|
/// | [`Recipe`](Self::Recipe) | `qn-%010d` | the item | ZooKeeper's recipe, Curator's `SimpleDistributedQueue` |
/// | [`Native`](Self::Native) | `w-<priority>-<due>-<deliveries>-%010d` | the item | this crate |
/// | [`Kazoo`](Self::Kazoo) | `entry-<priority %03d>-%010d` | the item | kazoo's `Queue` |
/// | [`Curator`](Self::Curator) | `queue-%010d` | Curator's frame | Curator's `DistributedQueue` |
/// | [`CuratorPriority`](Self::CuratorPriority) | `queue-<0 or 1><8 digits>%010d` | Curator's frame | Curator's `DistributedPriorityQueue` |
/// | [`CuratorDelay`](Self::CuratorDelay) | `queue-\|<due>\|%010d` | Curator's frame | Curator's `DistributedDelayQueue` |
///
/// A node that Curator wrote with `putMulti` holds several items; they are taken one by one.
/// Curator's `DistributedQueue` deletes an item before it processes it, or protects it by a node below a lock path.
/// This crate does not read lock paths: share a path with a `DistributedQueue` only if it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// ZooKeeper's own recipe: first in, first out.
    #[default]
    Recipe,
    /// Priorities and delays; the layout of every [`WorkQueue`](crate::WorkQueue).
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

/// The fields of an item's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemKey {
    /// Items with lower numbers come first.
    pub(crate) priority: i32,
    /// When the item may be taken, in milliseconds since 1970 by the leader's clock; zero for at once.
    pub(crate) due: u64,
    /// How often the item had been delivered when it got this name.
    pub(crate) deliveries: u32,
    pub(crate) sequence: Sequence,
}

/// The layout has no field for an option of an offer, or not for its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    Priority,
    Delay,
}

impl Layout {
    /// Returns whether items have priorities.
    pub const fn has_priorities(self) -> bool {
        matches!(self, Self::Native | Self::Kazoo | Self::CuratorPriority)
    }

    /// Returns whether items can have a delay.
    pub const fn has_delays(self) -> bool {
        matches!(self, Self::Native | Self::CuratorDelay)
    }

    /// Returns whether data is in Curator's frame.
    pub(crate) const fn is_framed(self) -> bool {
        matches!(
            self,
            Self::Curator | Self::CuratorPriority | Self::CuratorDelay
        )
    }

    /// Returns the name of an item without the number that the server appends.
    pub(crate) fn name_prefix(
        self,
        priority: Option<i32>,
        due: u64,
    ) -> Result<String, Unsupported> {
        if due != 0 && !self.has_delays() {
            return Err(Unsupported::Delay);
        }
        Ok(match (self, priority) {
            (Self::Recipe, None) => "qn-".to_owned(),
            (Self::Curator, None) => "queue-".to_owned(),
            (Self::CuratorDelay, None) => format!("queue-|{due:08X}|"),
            (Self::Native, priority) => native_prefix(priority.unwrap_or(0), due, 0),
            (Self::Kazoo, priority) => match priority.unwrap_or(KAZOO_DEFAULT) {
                priority @ 0..=999 => format!("entry-{priority:03}-"),
                _ => return Err(Unsupported::Priority),
            },
            (Self::CuratorPriority, priority) => {
                let priority = priority.unwrap_or(0);
                format!("queue-{}{priority:08X}", u8::from(priority >= 0))
            }
            (Self::Recipe | Self::Curator | Self::CuratorDelay, Some(_)) => {
                return Err(Unsupported::Priority);
            }
        })
    }

    /// Parses the name of a child; `None` if it is not an item of this layout.
    pub(crate) fn parse(self, name: &str) -> Option<ItemKey> {
        let fifo = |sequence| ItemKey {
            priority: 0,
            due: 0,
            deliveries: 0,
            sequence,
        };
        match self {
            Self::Recipe => Some(fifo(Sequence::parse(name.strip_prefix("qn-")?)?)),
            Self::Curator => Some(fifo(Sequence::parse(name.strip_prefix("queue-")?)?)),
            Self::Native => parse_native(name),
            Self::Kazoo => {
                let (priority, number) = name.strip_prefix("entry-")?.split_once('-')?;
                let is_three = priority.len() == 3 && priority.bytes().all(|b| b.is_ascii_digit());
                Some(ItemKey {
                    priority: is_three.then(|| priority.parse().ok())??,
                    ..fifo(Sequence::parse(number)?)
                })
            }
            Self::CuratorPriority => {
                let rest = name.strip_prefix("queue-")?;
                let (sign, digits, number) = (rest.get(..1)?, rest.get(1..9)?, rest.get(9..)?);
                let bits = hex(digits).and_then(|bits| u32::try_from(bits).ok())?;
                let priority = bits.cast_signed();
                Some(ItemKey {
                    priority: (sign == if priority < 0 { "0" } else { "1" }).then_some(priority)?,
                    ..fifo(Sequence::parse(number)?)
                })
            }
            Self::CuratorDelay => {
                let (due, number) = name.strip_prefix("queue-|")?.split_once('|')?;
                Some(ItemKey {
                    due: hex(due)?,
                    ..fifo(Sequence::parse(number)?)
                })
            }
        }
    }
}

impl ItemKey {
    /// Returns the key under which the item is delivered again at `due`.
    pub(crate) const fn postponed(self, due: u64, deliveries: u32) -> Self {
        Self {
            due,
            deliveries,
            ..self
        }
    }

    /// Returns the complete name in the native layout; it keeps the number.
    pub(crate) fn native_name(&self) -> String {
        let prefix = native_prefix(self.priority, self.due, self.deliveries);
        format!("{prefix}{}", self.sequence)
    }
}

/// Negative priorities begin with `n`, because `-` separates the fields.
fn native_prefix(priority: i32, due: u64, deliveries: u32) -> String {
    let sign = if priority < 0 { "n" } else { "" };
    let priority = priority.unsigned_abs();
    format!("w-{sign}{priority}-{due:x}-{deliveries}-")
}

/// Accepts only what [`native_prefix`] writes: otherwise one item could have two names.
fn parse_native(name: &str) -> Option<ItemKey> {
    let mut fields = name.strip_prefix("w-")?.splitn(4, '-');
    let (priority, due, deliveries) = (fields.next()?, fields.next()?, fields.next()?);
    let sequence = Sequence::parse(fields.next()?)?;
    let priority = match priority.strip_prefix('n') {
        Some(digits) => i32::try_from(-digits.parse::<i64>().ok()?).ok()?,
        None => priority.parse().ok()?,
    };
    let key = ItemKey {
        priority,
        due: u64::from_str_radix(due, 16).ok()?,
        deliveries: deliveries.parse().ok()?,
        sequence,
    };
    (key.native_name() == name).then_some(key)
}

/// Parses hexadecimal digits, without a sign.
fn hex(digits: &str) -> Option<u64> {
    let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The default priority of kazoo's `put`.
const KAZOO_DEFAULT: i32 = 100;

#[cfg(test)]
mod tests;
