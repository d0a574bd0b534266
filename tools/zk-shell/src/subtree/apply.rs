//! Makes an existing subtree like the wanted one, or says what that would change.

use std::time::Duration;

use serde_json::{Value, json};
use zk_core::NodePath;

use super::counts::{counts, nodes};
use super::deletion_plan::Extra;
use super::difference::{Existing, Refusal, Step, step};
use super::node::RelativePath;
use super::reconcile::{Pair, Reconcile};
use super::writer::Writer;
use crate::escape;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::protected::protected;
use crate::signals::Interruption;

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
    /// How many nodes are not wanted and not ephemeral.
    pub(crate) extra_count: u64,
    /// Nodes that are not wanted, in the order of a walk, if they are listed.
    pub(crate) extra: Vec<Extra>,
}

/// What becomes of the nodes that are not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extras {
    Count,
    /// They are listed, and take memory.
    List,
}

/// Goes through all nodes and carries out, prints or counts the changes. Nodes that are not wanted are counted or
/// returned, and never deleted here.
///
/// After a failure or an interruption, the nodes that were written get their access rules as far as possible.
pub(crate) async fn apply(
    reconcile: &mut Reconcile,
    root: &NodePath,
    existing: Existing,
    extras: Extras,
    mut mode: Mode<'_>,
    progress: &Progress,
    interruption: &mut Interruption,
) -> Result<Changes, Failure> {
    let applying = apply_all(reconcile, root, existing, extras, &mut mode, progress);
    let applied = interruption.end(applying).await;
    if let (Err(failure), Mode::Write(mut writer)) = (&applied, mode) {
        if failure.is_interrupted() {
            writer.abandon_in(CLEAN_UP).await;
        } else {
            writer.abandon().await;
            writer.end().await;
        }
    }
    applied
}

async fn apply_all(
    reconcile: &mut Reconcile,
    root: &NodePath,
    existing: Existing,
    extras: Extras,
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
                        )
                        .await?;
                    }
                    Mode::Count => {}
                }
            }
            Pair::Present {
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
                            print_change(output, "set", &path, Some(node.data.len())).await?;
                        }
                        if acl {
                            print_change(output, "setacl", &path, None).await?;
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
                    let problem = format!("{path} exists, and this session may not read it");
                    return Err(Failure::operation(problem, Some(reconcile.remedy())));
                }
            }
            Pair::Extra { path, stat } => {
                let is_ephemeral = stat.is_some_and(|stat| stat.ephemeral_owner.is_some());
                changes.extra_count += u64::from(!is_ephemeral);
                if extras == Extras::List {
                    changes.extra.push(Extra {
                        path,
                        czxid: stat.map_or(0, |stat| stat.czxid),
                        version: stat.map_or(0, |stat| stat.version),
                        is_ephemeral,
                        children: stat.map(|stat| stat.num_children),
                    });
                }
            }
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
pub(crate) async fn print_change(
    output: &Output,
    action: &str,
    path: &NodePath,
    bytes: Option<usize>,
) -> Result<(), Failure> {
    output
        .result(
            || {
                let bytes = bytes
                    .map(|bytes| format!("  {bytes} bytes"))
                    .unwrap_or_default();
                format!("{action} {}{bytes}\n", escape::line(path.as_str()))
            },
            || json!({"action": action, "path": path.as_str(), "bytes": bytes}),
        )
        .await
}

/// How long access rules may take to be set after a signal, which ends the program a little later.
const CLEAN_UP: Duration = Duration::from_secs(6);
