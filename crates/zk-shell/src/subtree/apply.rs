//! Makes an existing subtree like the wanted one, or says what that would change, or what differs.

use std::cmp::Reverse;

use futures_util::future::join_all;
use serde_json::Value;
use serde_json::json;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;

use super::deletion::Extra;
use super::difference::Existing;
use super::difference::Refusal;
use super::difference::Step;
use super::difference::step;
use super::node::RelativePath;
use super::reconcile::Pair;
use super::reconcile::Reconcile;
use super::writer::Writer;
use crate::crawl::counted;
use crate::escape;
use crate::failure::Failure;
use crate::failure::tell;
use crate::output::Output;
use crate::progress::Progress;
use crate::protected::protected;

/// What is done with the changes.
pub(crate) enum Mode<'a> {
    Write(Box<Writer>),
    Print(&'a Output),
    Count,
}

/// What was changed, or would be.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) created: u64,
    /// Nodes whose data was replaced.
    pub(crate) data_set: u64,
    /// Nodes whose access rules were replaced.
    pub(crate) acl_set: u64,
    /// Nodes that were left as they are, equal or not.
    pub(crate) left: u64,
    /// Nodes that this session may not read, with those below them.
    pub(crate) unreadable: u64,
    /// Nodes that are not wanted, in the order of a walk.
    pub(crate) extra: Vec<Extra>,
}

/// Which of the nodes that are not wanted were deleted.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    pub(crate) count: u64,
    /// Nodes that this session may not delete.
    pub(crate) refused: u64,
}

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

/// Goes through all nodes and carries out, prints or counts the changes. Nodes that are not wanted are returned, and
/// never deleted here.
pub(crate) async fn apply(
    reconcile: &mut Reconcile,
    root: &NodePath,
    existing: Existing,
    mode: &mut Mode<'_>,
    progress: &Progress,
) -> Result<Changes, Failure> {
    let applied = apply_all(reconcile, root, existing, mode, progress).await;
    if let (Err(_), Mode::Write(writer)) = (&applied, mode) {
        writer.abandon().await;
    }
    applied
}

async fn apply_all(
    reconcile: &mut Reconcile,
    root: &NodePath,
    existing: Existing,
    mode: &mut Mode<'_>,
    progress: &Progress,
) -> Result<Changes, Failure> {
    let mut changes = Changes::default();
    while let Some(pair) = reconcile.next().await? {
        match pair {
            Pair::Missing { node, has_children } => {
                progress.add(1);
                changes.created += 1;
                mode.reach(&node.path);
                check_target(&node.path.below(root)?, reconcile.chroot())?;
                match mode {
                    Mode::Write(writer) => {
                        let data = Vec::from(node.data);
                        writer
                            .create(&node.path, data, &node.acl, has_children)
                            .await?;
                    }
                    Mode::Print(output) => {
                        print_change(
                            output,
                            "create",
                            &node.path.below(root)?,
                            Some(node.data.len()),
                        )?;
                    }
                    Mode::Count => {}
                }
            }
            Pair::Both {
                node,
                stat,
                difference,
            } => {
                progress.add(1);
                mode.reach(&node.path);
                // The node `/` is always there, and that of the ensemble is never changed.
                let is_fixed = root.is_root()
                    && node.path.is_root()
                    && (existing != Existing::Overwrite || reconcile.chroot().is_root());
                let step = if is_fixed {
                    Step::Leave
                } else {
                    step(existing, difference)
                };
                let path = node.path.below(root)?;
                let Step::Change { data, acl } = accepted(step, &path)? else {
                    changes.left += 1;
                    continue;
                };
                changes.data_set += u64::from(data);
                changes.acl_set += u64::from(acl);
                match mode {
                    Mode::Write(writer) => {
                        if data {
                            writer
                                .set(&node.path, Vec::from(node.data), stat.version)
                                .await?;
                        }
                        if acl {
                            writer.set_acl(&node.path, &node.acl);
                        }
                    }
                    Mode::Print(output) => {
                        if data {
                            print_change(output, "set", &path, Some(node.data.len()))?;
                        }
                        if acl {
                            print_change(output, "setacl", &path, None)?;
                        }
                    }
                    Mode::Count => {}
                }
            }
            Pair::Unreadable { path, left_out } => {
                progress.add(1 + left_out);
                changes.unreadable += 1 + left_out;
                if existing == Existing::Overwrite {
                    let path = path.below(root)?;
                    return Err(Failure::operation(
                        format!("{path} exists, and this session may not read it"),
                        Some(
                            "put the credentials of a user who may into the environment: ZK_AUTH=user:password",
                        ),
                    ));
                }
            }
            Pair::Extra { path, stat } => changes.extra.push(Extra {
                path,
                czxid: stat.map_or(0, |stat| stat.czxid),
                version: stat.map_or(0, |stat| stat.version),
                is_ephemeral: stat.is_some_and(|stat| stat.ephemeral_owner.is_some()),
                children: stat.map(|stat| stat.num_children),
            }),
        }
    }
    if let Mode::Write(writer) = mode {
        writer.finish().await?;
    }
    Ok(changes)
}

/// Fails if nothing may be written to a node. The node `/` passes: it is left as it is.
pub(crate) fn check_target(path: &NodePath, chroot: &NodePath) -> Result<(), Failure> {
    match protected(path, chroot) {
        Some(reason) if !(path.is_root() && chroot.is_root()) => Err(Failure::usage(
            format!("{path} is never written, because {reason}; nothing was written"),
            "choose another path for it",
        )),
        _ => Ok(()),
    }
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
            Pair::Both {
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
            print_difference(output, what, &path.below(root)?, &words)?;
        }
    }
    found.ephemeral = reconcile.ephemerals_left_out();
    Ok(found)
}

/// Deletes nodes, children before their parents: those that are still what the walk has seen. Any other is kept, and
/// named on standard error with the reason.
pub(crate) async fn delete(
    session: &Session,
    root: &NodePath,
    mut extras: Vec<Extra>,
    progress: &Progress,
) -> Result<Deleted, Failure> {
    let depth = |extra: &Extra| extra.path.names().count();
    extras.sort_by_key(|extra| Reverse(depth(extra)));
    let mut deleted = Deleted::default();
    let levels = extras.chunk_by(|one, other| depth(one) == depth(other));
    for some in levels.flat_map(|level| level.chunks(DELETED_AT_ONCE)) {
        let mut paths = Vec::with_capacity(some.len());
        for extra in some {
            paths.push(extra.path.below(root)?);
        }
        let deletions = paths.iter().zip(some).map(|(path, extra)| {
            let delete = session.delete(path).version(extra.version);
            delete.created_by(extra.czxid).into_future()
        });
        for (result, path) in join_all(deletions).await.into_iter().zip(&paths) {
            progress.add(1);
            let reason = match result.as_ref().map_err(Error::kind) {
                Ok(()) => {
                    deleted.count += 1;
                    continue;
                }
                Err(ErrorKind::NoNode) => "it vanished meanwhile, or was replaced by another node",
                Err(ErrorKind::BadVersion) => "its data was changed meanwhile",
                Err(ErrorKind::NotEmpty) => "there are nodes below it",
                Err(ErrorKind::NoAuth) => {
                    deleted.refused += 1;
                    "this session may not delete it"
                }
                Err(_) => {
                    result?;
                    continue;
                }
            };
            tell_kept(path, reason);
        }
    }
    Ok(deleted)
}

/// Says why a node that is not wanted stays.
pub(crate) fn tell_kept(path: &NodePath, reason: &str) {
    tell(&format!("kept {}: {reason}\n", escape::line(path.as_str())));
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

impl Changes {
    pub(crate) fn json(&self) -> Value {
        json!({
            "created": self.created,
            "data_set": self.data_set,
            "acl_set": self.acl_set,
            "left": self.left,
            "unreadable": self.unreadable,
        })
    }

    /// Says what changed, as in `3 nodes created, 1 changed, 2 left as they were`.
    pub(crate) fn words(&self) -> String {
        let rest = [
            (self.data_set, "with other data"),
            (self.acl_set, "with other access rules"),
            (self.left, "left as they were"),
            (
                self.unreadable,
                "left because this session may not read them",
            ),
        ];
        counts(format!("{} created", nodes(self.created)), &rest)
    }
}

impl Mode<'_> {
    fn reach(&mut self, path: &RelativePath) {
        if let Self::Write(writer) = self {
            writer.reach(path);
        }
    }
}

/// Joins the first count and those of the rest that are not zero.
fn counts(first: String, rest: &[(u64, &str)]) -> String {
    let rest = rest.iter().filter(|(count, _)| *count > 0);
    let rest = rest.map(|(count, what)| format!("{count} {what}"));
    std::iter::once(first)
        .chain(rest)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Formats a number of nodes.
pub(crate) fn nodes(count: u64) -> String {
    counted(count, "node")
}

fn accepted(step: Step, path: &NodePath) -> Result<Step, Failure> {
    let Step::Refuse(refusal) = step else {
        return Ok(step);
    };
    let (problem, help) = match refusal {
        Refusal::Exists => (
            format!("{path} exists already"),
            "choose what to do with nodes that exist: --existing skip or --existing overwrite, or --resume after an interrupted import",
        ),
        Refusal::Differs => (
            format!("{path} has other data than the export"),
            "it is not what the interrupted import wrote; choose --existing skip or --existing overwrite instead",
        ),
        Refusal::IsEphemeral => (
            format!("{path} exists and is ephemeral, so that no other node can be there"),
            "stop the process whose session owns it; `zk stat` prints the session as ephemeralOwner",
        ),
    };
    Err(Failure::operation(problem, Some(help)))
}

/// Prints a change that would be made.
pub(crate) fn print_change(
    output: &Output,
    action: &str,
    path: &NodePath,
    bytes: Option<usize>,
) -> Result<(), Failure> {
    output.result(
        || {
            let bytes = bytes
                .map(|bytes| format!("  {bytes} bytes"))
                .unwrap_or_default();
            format!("{action} {}{bytes}\n", escape::line(path.as_str()))
        },
        || json!({"action": action, "path": path.as_str(), "bytes": bytes}),
    )
}

fn print_difference(
    output: &Output,
    what: &str,
    path: &NodePath,
    words: &str,
) -> Result<(), Failure> {
    output.result(
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
}

/// How many nodes are deleted at the same time.
const DELETED_AT_ONCE: usize = 64;
/// How many differences are printed; all are counted.
const MOST_PRINTED: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    // covers: O4
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
