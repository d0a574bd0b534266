//! What happened to a node between two looks at it, and what of that a listener wants to hear.
//!
//! Pure: no I/O and no clock.

use zk_core::Stat;

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It was not there at the first look.
    Absent,
    /// It was there at the first look.
    Present,
    Created,
    Changed,
    Deleted,
}

/// What a listener is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) initial: Delivery,
    pub(crate) on_create: Delivery,
    pub(crate) lasting: Lasting,
}

/// Whether a value is delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// It is.
    #[default]
    Deliver,
    /// It is not; the next change is.
    Skip,
}

/// How long a listener listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lasting {
    /// Until it is dropped or the session is over.
    #[default]
    Forever,
    /// Until the first value was delivered.
    Once,
}

/// A node as it was at the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Life {
    #[default]
    NotSeen,
    Absent,
    Present {
        czxid: i64,
        mzxid: i64,
    },
}

impl Life {
    /// Takes a look, and tells what became of the node since the last one.
    ///
    /// Identity is told by transactions and not by versions: a node that was made anew was deleted before.
    /// A look that shows less than an earlier one says nothing; a server that lags has answered it.
    pub(crate) fn see(&mut self, now: Option<&Stat>) -> Vec<Turn> {
        let next = now.map_or(Self::Absent, |stat| Self::Present {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
        });
        let turns = match (*self, next) {
            (Self::NotSeen, Self::Present { .. }) => vec![Turn::Present],
            (Self::NotSeen, _) => vec![Turn::Absent],
            (Self::Absent, Self::Present { .. }) => vec![Turn::Created],
            (Self::Present { .. }, Self::Absent) => vec![Turn::Deleted],
            (
                Self::Present { czxid, mzxid },
                Self::Present {
                    czxid: created,
                    mzxid: changed,
                },
            ) => match changed.cmp(&mzxid) {
                std::cmp::Ordering::Less => return Vec::new(),
                std::cmp::Ordering::Equal => Vec::new(),
                std::cmp::Ordering::Greater if created == czxid => vec![Turn::Changed],
                std::cmp::Ordering::Greater => vec![Turn::Deleted, Turn::Created],
            },
            (Self::Absent, _) | (Self::Present { .. }, Self::NotSeen) => Vec::new(),
        };
        *self = next;
        turns
    }
}

impl Wishes {
    /// Whether a listener with these wishes is told of this.
    pub(crate) fn includes(self, turn: Turn) -> bool {
        match turn {
            Turn::Present => self.initial == Delivery::Deliver,
            Turn::Created => self.on_create == Delivery::Deliver,
            Turn::Absent | Turn::Changed | Turn::Deleted => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node made by one transaction and last changed by another.
    fn stat(czxid: i64, mzxid: i64) -> Stat {
        let mut stat = Stat::zeroed();
        (stat.czxid, stat.mzxid) = (czxid, mzxid);
        stat
    }

    // covers: G2
    #[test]
    fn turns_are_exactly_the_difference_between_two_looks() {
        use Turn::Absent;
        use Turn::Changed;
        use Turn::Created;
        use Turn::Deleted;
        use Turn::Present;
        let node = |czxid, mzxid| Some(stat(czxid, mzxid));
        for (looks, turns) in [
            (vec![None, None], vec![Absent]),
            (vec![node(1, 1), node(1, 1)], vec![Present]),
            (
                vec![None, node(1, 1), node(1, 2)],
                vec![Absent, Created, Changed],
            ),
            (vec![node(1, 1), None, None], vec![Present, Deleted]),
            // Made anew while nobody looked, whatever its version.
            (
                vec![node(1, 1), node(3, 3)],
                vec![Present, Deleted, Created],
            ),
            (
                vec![node(1, 1), None, node(3, 3)],
                vec![Present, Deleted, Created],
            ),
            // A server that lags.
            (vec![node(1, 5), node(1, 2), node(1, 5)], vec![Present]),
            (
                vec![node(3, 3), node(1, 2), node(3, 4)],
                vec![Present, Changed],
            ),
        ] {
            let mut life = Life::default();
            let seen: Vec<_> = looks
                .iter()
                .flat_map(|look| life.see(look.as_ref()))
                .collect();
            assert_eq!(seen, turns, "{looks:?}");
        }
    }

    // covers: G2
    #[test]
    fn wishes_leave_out_the_value_at_the_start_and_that_of_a_creation() {
        use Delivery::Deliver;
        use Delivery::Skip;
        let all = [
            Turn::Absent,
            Turn::Present,
            Turn::Created,
            Turn::Changed,
            Turn::Deleted,
        ];
        for (initial, on_create, left_out) in [
            (Deliver, Deliver, &[][..]),
            (Skip, Deliver, &[Turn::Present]),
            (Deliver, Skip, &[Turn::Created]),
            (Skip, Skip, &[Turn::Present, Turn::Created]),
        ] {
            let wishes = Wishes {
                initial,
                on_create,
                lasting: Lasting::Forever,
            };
            for turn in all {
                assert_eq!(
                    wishes.includes(turn),
                    !left_out.contains(&turn),
                    "{wishes:?} {turn:?}"
                );
            }
        }
    }
}
