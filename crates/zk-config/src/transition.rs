//! Decides how a node changed between two reads, and which changes a listener receives.
//!
//! Pure: no I/O and no clock.

use zk_core::Stat;

/// A change of a node between two reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transition {
    /// The first read found no node.
    Absent,
    /// The first read found the node.
    Present,
    Created,
    Changed,
    Deleted,
}

/// The settings of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListenOptions {
    pub(crate) initial: ValueDelivery,
    pub(crate) on_create: ValueDelivery,
    pub(crate) mode: ListenMode,
}

/// Whether a listener delivers a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueDelivery {
    /// Deliver it.
    #[default]
    Deliver,
    /// Do not deliver it, only the next change.
    Skip,
}

/// How long a listener listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListenMode {
    /// Until it is dropped or the session is over.
    #[default]
    Forever,
    /// Until it has delivered one value.
    Once,
}

/// A node as of the last read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum NodeState {
    #[default]
    Unknown,
    Absent,
    Present {
        czxid: i64,
        mzxid: i64,
    },
}

impl NodeState {
    /// Takes a read, and returns the changes since the last one.
    ///
    /// Nodes are compared by transaction, not by version: a node that was created again was deleted before.
    /// A read that is older than the last one is ignored; it came from a lagging server.
    pub(crate) fn update(&mut self, now: Option<&Stat>) -> Vec<Transition> {
        let next = now.map_or(Self::Absent, |stat| Self::Present {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
        });
        let transitions = match (*self, next) {
            (Self::Unknown, Self::Present { .. }) => vec![Transition::Present],
            (Self::Unknown, _) => vec![Transition::Absent],
            (Self::Absent, Self::Present { .. }) => vec![Transition::Created],
            (Self::Present { .. }, Self::Absent) => vec![Transition::Deleted],
            (
                Self::Present { czxid, mzxid },
                Self::Present {
                    czxid: created,
                    mzxid: changed,
                },
            ) => match changed.cmp(&mzxid) {
                std::cmp::Ordering::Less => return Vec::new(),
                std::cmp::Ordering::Equal => Vec::new(),
                std::cmp::Ordering::Greater if created == czxid => vec![Transition::Changed],
                std::cmp::Ordering::Greater => vec![Transition::Deleted, Transition::Created],
            },
            (Self::Absent, _) | (Self::Present { .. }, Self::Unknown) => Vec::new(),
        };
        *self = next;
        transitions
    }
}

impl ListenOptions {
    /// Returns whether a listener with these options receives a change.
    pub(crate) fn includes(self, transition: Transition) -> bool {
        match transition {
            Transition::Present => self.initial == ValueDelivery::Deliver,
            Transition::Created => self.on_create == ValueDelivery::Deliver,
            Transition::Absent | Transition::Changed | Transition::Deleted => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stat of a node created by one transaction and last changed by another.
    fn stat(czxid: i64, mzxid: i64) -> Stat {
        let mut stat = Stat::zeroed();
        (stat.czxid, stat.mzxid) = (czxid, mzxid);
        stat
    }

    // covers: G2
    #[test]
    fn transitions_are_the_difference_between_two_reads() {
        use Transition::Absent;
        use Transition::Changed;
        use Transition::Created;
        use Transition::Deleted;
        use Transition::Present;
        let node = |czxid, mzxid| Some(stat(czxid, mzxid));
        for (reads, transitions) in [
            (vec![None, None], vec![Absent]),
            (vec![node(1, 1), node(1, 1)], vec![Present]),
            (
                vec![None, node(1, 1), node(1, 2)],
                vec![Absent, Created, Changed],
            ),
            (vec![node(1, 1), None, None], vec![Present, Deleted]),
            // Created again between two reads, whatever its version.
            (
                vec![node(1, 1), node(3, 3)],
                vec![Present, Deleted, Created],
            ),
            (
                vec![node(1, 1), None, node(3, 3)],
                vec![Present, Deleted, Created],
            ),
            // A lagging server.
            (vec![node(1, 5), node(1, 2), node(1, 5)], vec![Present]),
            (
                vec![node(3, 3), node(1, 2), node(3, 4)],
                vec![Present, Changed],
            ),
        ] {
            let mut state = NodeState::default();
            let seen: Vec<_> = reads
                .iter()
                .flat_map(|read| state.update(read.as_ref()))
                .collect();
            assert_eq!(seen, transitions, "{reads:?}");
        }
    }

    // covers: G2
    #[test]
    fn options_skip_the_initial_value_and_that_of_a_creation() {
        use ValueDelivery::Deliver;
        use ValueDelivery::Skip;
        let all = [
            Transition::Absent,
            Transition::Present,
            Transition::Created,
            Transition::Changed,
            Transition::Deleted,
        ];
        for (initial, on_create, skipped) in [
            (Deliver, Deliver, &[][..]),
            (Skip, Deliver, &[Transition::Present]),
            (Deliver, Skip, &[Transition::Created]),
            (Skip, Skip, &[Transition::Present, Transition::Created]),
        ] {
            let options = ListenOptions {
                initial,
                on_create,
                mode: ListenMode::Forever,
            };
            for transition in all {
                assert_eq!(
                    options.includes(transition),
                    !skipped.contains(&transition),
                    "{options:?} {transition:?}"
                );
            }
        }
    }
}
