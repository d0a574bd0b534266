//! Parses and formats the names of items, in the formats of this crate and of other clients.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use zk_core::{NodePath, Sequence};

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
/// | [`CuratorId`](Self::CuratorId) | `queue-\|<id>\|%010d` | Curator's frame | Curator's `DistributedIdQueue` |
///
/// With [`CuratorPriority`](Self::CuratorPriority) and [`CuratorDelay`](Self::CuratorDelay), `queue-%010d` is an item, too,
/// which comes first: so Curator's consumers with a lock path name an item whose processing has failed.
/// A node that Curator wrote with `putMulti` holds several items; they are taken one by one.
/// Curator's `DistributedQueue` deletes an item before it processes it, or protects it by a node below a lock path.
/// A [`Queue`](crate::Queue) does not read lock paths: share a path with a `DistributedQueue` only if it has none. A
/// [`WorkQueue`](crate::WorkQueue) shares one that has a lock path, see [`WorkLayout`](crate::WorkLayout).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// ZooKeeper's own recipe: first in, first out.
    #[default]
    Recipe,
    /// Priorities and delays; the default of a [`WorkQueue`](crate::WorkQueue).
    Native,
    /// Priorities from 0 to 999.
    Kazoo,
    /// First in, first out, in Curator's frame.
    Curator,
    /// Priorities, in Curator's frame.
    CuratorPriority,
    /// Delays, in Curator's frame.
    CuratorDelay,
    /// First in, first out, in Curator's frame; each item has an [id of the application](crate::Offer::id).
    CuratorId,
}

/// What an offer asks of the name of its item.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NameFields<'a> {
    /// The default of the layout if it is `None`.
    pub(crate) priority: Option<i32>,
    /// When the item may be taken; zero for at once.
    pub(crate) due: u64,
    pub(crate) id: Option<&'a str>,
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
    Id,
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

    /// Returns whether the path has to stay when the queue is empty: Curator and kazoo create it once for each of their
    /// queues, and cannot put items when a container is gone later.
    pub(crate) const fn has_persistent_path(self) -> bool {
        !matches!(self, Self::Recipe | Self::Native)
    }

    /// Returns whether each item has an [id of the application](crate::Offer::id).
    pub const fn has_ids(self) -> bool {
        matches!(self, Self::CuratorId)
    }

    /// Returns whether data is in Curator's frame.
    pub(crate) const fn is_framed(self) -> bool {
        matches!(
            self,
            Self::Curator | Self::CuratorPriority | Self::CuratorDelay | Self::CuratorId
        )
    }

    /// Returns the name of an item without the number that the server appends.
    pub(crate) fn name_prefix(self, fields: NameFields<'_>) -> Result<String, Unsupported> {
        let NameFields { priority, due, id } = fields;
        if due != 0 && !self.has_delays() {
            return Err(Unsupported::Delay);
        }
        if id.is_some() != self.has_ids() {
            return Err(Unsupported::Id);
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
            (Self::CuratorId, None) => {
                let id = id.and_then(stored_id).ok_or(Unsupported::Id)?;
                format!("queue-|{id}|")
            }
            (Self::Recipe | Self::Curator | Self::CuratorDelay | Self::CuratorId, Some(_)) => {
                return Err(Unsupported::Priority);
            }
        })
    }

    /// Returns the id in the name of an item, if the layout has ids.
    pub(crate) fn id_of(self, name: &str) -> Option<&str> {
        let is_item = self.has_ids() && self.parse(name).is_some();
        is_item.then(|| name.split('|').nth(1))?
    }

    /// Returns the name of the node that claims an item.
    ///
    /// Other clients, which see no segments, give a claim the name of its item.
    pub(crate) fn claim_name(self, segment: u32, item: &str) -> String {
        if segment == 0 && self != Self::Native {
            item.to_owned()
        } else {
            format!("{segment}-{item}")
        }
    }

    /// Parses the name of a claim: the segment and the name of its item.
    pub(crate) fn parse_claim_name(self, claim: &str) -> Option<(u32, &str)> {
        let (segment, item) = match claim.split_once('-') {
            _ if self != Self::Native && self.parse(claim).is_some() => (0, claim),
            Some((segment, item)) => (segment.parse().ok()?, item),
            None => return None,
        };
        let is_item = self.parse(item).is_some();
        is_item.then_some((segment, item))
    }

    /// Returns the version of the nodes of our claims, if other clients claim items, too. The nodes of their claims have
    /// version zero, and they do not change the version of an item: a transaction that checks this version cannot take a
    /// claim of theirs for ours.
    pub(crate) const fn claim_version(self) -> Option<i32> {
        match self {
            Self::Native => None,
            _ => Some(1),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Recipe => "recipe",
            Self::Native => "native",
            Self::Kazoo => "kazoo",
            Self::Curator => "curator",
            Self::CuratorPriority => "curator-priority",
            Self::CuratorDelay => "curator-delay",
            Self::CuratorId => "curator-id",
        }
    }

    /// Returns the data of a queue's node, which names the layout.
    pub(crate) fn record(self) -> String {
        format!("{RECORD}{self}")
    }

    /// Returns the layout that the data of a queue's node names, if it names one.
    pub(crate) fn of_record(data: &[u8]) -> Option<Self> {
        let name = str::from_utf8(data).ok()?.strip_prefix(RECORD)?;
        ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Returns the layout of which a name is; `None` if it is not that of an item.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let mut all = ALL.into_iter();
        all.find(|layout| layout.parse(name).is_some())
    }

    /// Returns the number of an item that has lost its priority or due time: when processing fails, Curator's consumers
    /// with a lock path create the item again with a name of its plain queue. They take it before all others.
    fn requeued_sequence(self, name: &str) -> Option<Sequence> {
        let loses_field = matches!(self, Self::CuratorPriority | Self::CuratorDelay);
        let number = name.strip_prefix("queue-").filter(|_| loses_field)?;
        Sequence::parse(number)
    }

    /// Returns the priority in an item's name, if it has one.
    pub(crate) fn priority_of(self, name: &str) -> Option<i32> {
        let has_field = self.has_priorities() && self.requeued_sequence(name).is_none();
        Some(self.parse(name).filter(|_| has_field)?.priority)
    }

    /// Parses the name of a child; `None` if it is not an item of this layout.
    pub(crate) fn parse(self, name: &str) -> Option<ItemKey> {
        let fifo = |sequence| ItemKey {
            priority: 0,
            due: 0,
            deliveries: 0,
            sequence,
        };
        if let Some(sequence) = self.requeued_sequence(name) {
            let is_first = self == Self::CuratorPriority;
            return Some(ItemKey {
                priority: if is_first { i32::MIN } else { 0 },
                ..fifo(sequence)
            });
        }
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
            Self::CuratorId => {
                let (id, number) = name.strip_prefix("queue-|")?.split_once('|')?;
                (!id.is_empty()).then(|| Some(fifo(Sequence::parse(number)?)))?
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

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns an id as Curator writes it into a name, where `/` and `|` cannot be; `None` if no name can contain it.
pub(crate) fn stored_id(id: &str) -> Option<String> {
    let stored = id.replace(['/', '|'], "_");
    let is_name = NodePath::parse(&format!("/queue-|{stored}|")).is_ok();
    (!stored.is_empty() && is_name).then_some(stored)
}

/// Parses hexadecimal digits, without a sign.
fn hex(digits: &str) -> Option<u64> {
    let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The names of [`CuratorDelay`](Layout::CuratorDelay) are also names of [`CuratorId`](Layout::CuratorId), which
/// therefore comes later.
const ALL: [Layout; 7] = [
    Layout::Recipe,
    Layout::Native,
    Layout::Kazoo,
    Layout::Curator,
    Layout::CuratorPriority,
    Layout::CuratorDelay,
    Layout::CuratorId,
];
/// What precedes the name of a layout in the data of a queue's node.
const RECORD: &str = "zk-queue ";
/// The default priority of kazoo's `put`.
const KAZOO_DEFAULT: i32 = 100;

#[cfg(test)]
mod tests;
