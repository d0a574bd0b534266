//! Compares an existing subtree with the wanted one, and prints how they differ.

use serde_json::{Value, json};
use zk_core::NodePath;

use super::counts::{counts, nodes};
use super::reconcile::{Pair, Reconcile};
use crate::escape;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;

/// How a subtree differs from the wanted one.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) equal: u64,
    pub(crate) missing: u64,
    pub(crate) different: u64,
    /// Nodes that differ, and may.
    pub(crate) left: u64,
    /// Ephemeral nodes that are not wanted as persistent ones.
    pub(crate) ephemeral: u64,
    pub(crate) extra: u64,
    /// Nodes that this session may not read, with those below them.
    pub(crate) unreadable: u64,
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Verified,
    Different,
    /// No difference was found, and not all nodes were compared.
    Incomplete,
}

/// What counts as a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strictness {
    /// Nodes that exist may differ, because they were left as they were.
    pub(crate) may_differ: bool,
    /// Nodes that are not wanted may exist.
    pub(crate) may_have_extra: bool,
    /// The root's own data and rules may differ.
    pub(crate) may_root_differ: bool,
}

/// Compares all nodes, and prints the first differences.
pub(crate) async fn compare(
    reconcile: &mut Reconcile,
    root: &NodePath,
    strictness: Strictness,
    output: &Output,
    progress: &Progress,
) -> Result<Comparison, Failure> {
    let mut found = Comparison::default();
    let mut printed = 0;
    while let Some(pair) = reconcile.next().await? {
        progress.add(1);
        let (what, path, words) = match pair {
            Pair::Missing { node, .. } => {
                found.missing += 1;
                ("missing", node.path, String::new())
            }
            Pair::Present {
                node, difference, ..
            } => {
                let may_differ =
                    strictness.may_differ || (strictness.may_root_differ && node.path.is_root());
                if difference.is_none() {
                    found.equal += 1;
                    continue;
                }
                let (count, what) = if may_differ {
                    (&mut found.left, "left")
                } else {
                    (&mut found.different, "differs")
                };
                *count += 1;
                (what, node.path, difference.words())
            }
            Pair::Unreadable { left_out, .. } => {
                progress.add(left_out);
                found.unreadable += 1 + left_out;
                continue;
            }
            Pair::Extra {
                stat: Some(stat), ..
            } if stat.ephemeral_owner.is_some() => continue,
            Pair::Extra { .. } if strictness.may_have_extra => continue,
            Pair::Extra { path, .. } => {
                found.extra += 1;
                ("extra", path, String::new())
            }
        };
        if printed < MOST_PRINTED {
            printed += 1;
            print_difference(output, what, &path.below(root)?, &words).await?;
        }
    }
    found.ephemeral = reconcile.ephemerals_left_out();
    Ok(found)
}

impl Comparison {
    pub(crate) const fn verdict(&self) -> Verdict {
        if self.missing + self.different + self.extra > 0 {
            Verdict::Different
        } else if self.unreadable > 0 {
            Verdict::Incomplete
        } else {
            Verdict::Verified
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "equal": self.equal,
            "missing": self.missing,
            "different": self.different,
            "left": self.left,
            "ephemeral": self.ephemeral,
            "extra": self.extra,
            "unreadable": self.unreadable,
        })
    }

    /// Says the result, as in `12 nodes are equal, 1 is missing`.
    pub(crate) fn words(&self) -> String {
        let rest = [
            (self.missing, "missing"),
            (self.different, "different"),
            (self.left, "different and left as they were"),
            (self.ephemeral, "ephemeral and left out"),
            (self.extra, "not in the source"),
            (
                self.unreadable,
                "not compared, because this session may not read them",
            ),
        ];
        counts(format!("{} equal", nodes(self.equal)), &rest)
    }
}

async fn print_difference(
    output: &Output,
    what: &str,
    path: &NodePath,
    words: &str,
) -> Result<(), Failure> {
    output
        .result(
            || {
                let words = if words.is_empty() {
                    String::new()
                } else {
                    format!("  {words}")
                };
                format!("{what} {}{words}\n", escape::line(path.as_str()))
            },
            || json!({"difference": what, "path": path.as_str(), "what": words}),
        )
        .await
}

/// How many differences are printed; all are counted.
const MOST_PRINTED: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_compared_completely_is_verified() {
        for bits in 0..64_u64 {
            let bit = |at: u64| bits >> at & 1;
            let found = Comparison {
                equal: 7,
                missing: bit(0),
                different: bit(1),
                extra: bit(2),
                unreadable: bit(3),
                left: bit(4),
                ephemeral: bit(5),
            };
            let verdict = match (bits & 0b111, bit(3)) {
                (0, 0) => Verdict::Verified,
                (0, _) => Verdict::Incomplete,
                _ => Verdict::Different,
            };
            assert_eq!(found.verdict(), verdict, "{found:?}");
            // Each count that is not zero is printed.
            let commas = found.words().matches(", ").count();
            let expected = bits.count_ones() as usize + usize::from(bit(3) == 1);
            assert_eq!(commas, expected, "{}", found.words());
        }
    }
}
