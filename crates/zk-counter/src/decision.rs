//! Decides what the operations of one write do to the number of a counter.
//!
//! Pure: no I/O and no clock.

use crate::format::Format;

/// What a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Add(i64),
    Set(i64),
    CompareAndSet { expected: i64, new: i64 },
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The number before and after it.
    Applied { before: i64, after: i64 },
    /// The number is not the expected one.
    Different { found: i64 },
    /// The result is not a number of the format.
    Overflow { value: i64 },
}

impl Operation {
    /// Applies the operation to a number.
    pub(crate) fn decide(self, format: Format, value: i64) -> Decision {
        let after = match self {
            Self::Get => Some(value),
            Self::Add(amount) => value.checked_add(amount),
            Self::CompareAndSet { expected, .. } if expected != value => {
                return Decision::Different { found: value };
            }
            Self::Set(new) | Self::CompareAndSet { new, .. } => Some(new),
        };
        // What is there stays readable, even if it is outside the range.
        match after.filter(|after| *after == value || format.range().contains(after)) {
            Some(after) => Decision::Applied {
                before: value,
                after,
            },
            None => Decision::Overflow { value },
        }
    }

    /// Returns whether it may change the number.
    pub(crate) const fn is_write(self) -> bool {
        !matches!(self, Self::Get)
    }
}

/// Applies operations one after the other. Returns the number after them, and what became of each.
///
/// One write applies them all, so that other clients see none of the numbers in between.
pub(crate) fn decide_all(
    format: Format,
    value: i64,
    operations: impl IntoIterator<Item = Operation>,
) -> (i64, Vec<Decision>) {
    let mut now = value;
    let decide = |operation: Operation| {
        let decision = operation.decide(format, now);
        if let Decision::Applied { after, .. } = decision {
            now = after;
        }
        decision
    };
    let decisions = operations.into_iter().map(decide).collect();
    (now, decisions)
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::{Just, Strategy, any};
    use proptest::{prop_oneof, proptest};

    #[test]
    fn an_addition_that_does_not_fit_is_refused_and_changes_nothing() {
        for (format, value, amount, after) in [
            (Format::Long, i64::MAX - 1, 1, Some(i64::MAX)),
            (Format::Long, i64::MAX, 1, None),
            (Format::Long, i64::MIN, -1, None),
            (Format::Text, i64::MAX, 1, None),
            (
                Format::Integer,
                i64::from(i32::MAX) - 1,
                1,
                Some(i64::from(i32::MAX)),
            ),
            (Format::Integer, i64::from(i32::MAX), 1, None),
            (Format::Integer, i64::from(i32::MIN), -1, None),
            (Format::Integer, 0, i64::MAX, None),
        ] {
            let expected = match after {
                Some(after) => Decision::Applied {
                    before: value,
                    after,
                },
                None => Decision::Overflow { value },
            };
            assert_eq!(Operation::Add(amount).decide(format, value), expected);
            let (now, _) = decide_all(format, value, [Operation::Add(amount)]);
            assert_eq!(now, after.unwrap_or(value));
        }
        let set = Operation::Set(1 << 40);
        assert_eq!(
            set.decide(Format::Integer, 7),
            Decision::Overflow { value: 7 }
        );
    }

    #[test]
    fn each_operation_sees_the_ones_before_it() {
        let operations = [
            Operation::Add(2),
            Operation::Get,
            Operation::CompareAndSet {
                expected: 7,
                new: 1,
            },
            Operation::CompareAndSet {
                expected: 1,
                new: 9,
            },
            Operation::Set(5),
        ];
        let applied = |before, after| Decision::Applied { before, after };
        let (now, decisions) = decide_all(Format::Long, 5, operations);
        assert_eq!(now, 5);
        assert_eq!(
            decisions,
            [
                applied(5, 7),
                applied(7, 7),
                applied(7, 1),
                applied(1, 9),
                applied(9, 5)
            ]
        );
        let compare = Operation::CompareAndSet {
            expected: 4,
            new: 1,
        };
        assert_eq!(
            compare.decide(Format::Long, 5),
            Decision::Different { found: 5 }
        );
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let near = || prop_oneof![-3..3_i64, Just(i64::MAX), Just(i64::MIN), any::<i64>()];
        prop_oneof![
            Just(Operation::Get),
            near().prop_map(Operation::Add),
            near().prop_map(Operation::Set),
            (near(), near()).prop_map(|(expected, new)| Operation::CompareAndSet { expected, new }),
        ]
    }

    proptest! {
        #[test]
        fn what_was_applied_adds_up(
            value in -5..5_i64,
            operations in proptest::collection::vec(operation(), 0..20),
        ) {
            for format in [Format::Long, Format::Integer, Format::Text] {
                let (now, decisions) = decide_all(format, value, operations.clone());
                assert_eq!(decisions.len(), operations.len());
                let mut at = value;
                for decision in decisions {
                    if let Decision::Applied { before, after } = decision {
                        assert_eq!(before, at);
                        assert!(format.range().contains(&after));
                        at = after;
                    }
                }
                assert_eq!(at, now);
            }
        }
    }
}
