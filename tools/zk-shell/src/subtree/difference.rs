//! Decides what is to be done about a node that is wanted and one that was found.
//!
//! Pure: no I/O and no clock.

use super::node::SubtreeNode;

/// How a found node differs from the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Difference {
    pub(crate) data: bool,
    pub(crate) acl: bool,
    /// The found node is ephemeral, and the wanted one is not: only another node would be equal.
    pub(crate) kind: bool,
}

/// What happens to nodes that exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Existing {
    /// Write nothing if there is one
    Fail,
    /// Leave them as they are
    Skip,
    /// Replace their data and access rules
    Overwrite,
    /// Leave those whose data is equal, and fail at another one
    #[value(skip)]
    Resume,
}

/// What is done about a node that is wanted and exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Leave,
    Change { data: bool, acl: bool },
    Refuse(Refusal),
}

/// Why a node is not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists,
    Differs,
    IsEphemeral,
}

/// Compares two nodes.
pub(crate) fn difference(wanted: &SubtreeNode, found: &SubtreeNode) -> Difference {
    Difference {
        data: wanted.data != found.data,
        acl: wanted.acl != found.acl,
        kind: found.is_ephemeral,
    }
}

/// Decides about a node that exists.
pub(crate) fn step(existing: Existing, difference: Difference) -> Step {
    let Difference { data, acl, kind } = difference;
    match existing {
        Existing::Fail => Step::Refuse(Refusal::Exists),
        Existing::Overwrite | Existing::Resume if kind => Step::Refuse(Refusal::IsEphemeral),
        Existing::Resume if data => Step::Refuse(Refusal::Differs),
        Existing::Overwrite | Existing::Resume if data || acl => Step::Change { data, acl },
        Existing::Skip | Existing::Overwrite | Existing::Resume => Step::Leave,
    }
}

impl Difference {
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Says what differs, as in `data and access rules`.
    pub(crate) fn words(self) -> String {
        let words = [
            (self.data, "data"),
            (self.acl, "access rules"),
            (self.kind, "ephemeral"),
        ];
        let words = words
            .iter()
            .filter(|(is_it, _)| *is_it)
            .map(|(_, word)| *word);
        words.collect::<Vec<_>>().join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_exists_is_changed_unless_that_was_asked_for() {
        for bits in 0..8 {
            let difference = Difference {
                data: bits & 1 != 0,
                acl: bits & 2 != 0,
                kind: bits & 4 != 0,
            };
            let Difference { data, acl, kind } = difference;
            assert_eq!(
                step(Existing::Fail, difference),
                Step::Refuse(Refusal::Exists)
            );
            assert_eq!(step(Existing::Skip, difference), Step::Leave);
            let overwritten = match (kind, data || acl) {
                (true, _) => Step::Refuse(Refusal::IsEphemeral),
                (false, true) => Step::Change { data, acl },
                (false, false) => Step::Leave,
            };
            assert_eq!(step(Existing::Overwrite, difference), overwritten);
            let resumed = if data && !kind {
                Step::Refuse(Refusal::Differs)
            } else {
                overwritten
            };
            assert_eq!(step(Existing::Resume, difference), resumed);
            assert_eq!(difference.is_none(), bits == 0);
            assert_eq!(difference.words().is_empty(), bits == 0);
        }
    }
}
