//! Makes a subtree of another ensemble, or another subtree of the same one, equal to a subtree, by writing only what
//! differs.

use std::collections::HashSet;

use clap::Args;
use serde_json::json;
use zk_core::{NodePath, Session, Stat};

use crate::confirm::confirm;
use crate::context::{Context, close};
use crate::credentials::has_target_variables;
use crate::escape;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Interruption;
use crate::subtree::apply::{Changes, Extras, Mode, apply, check_target, print_change};
use crate::subtree::compare::{Strictness, Verdict, compare};
use crate::subtree::counts::nodes;
use crate::subtree::delete_extra::{delete, note_kept};
use crate::subtree::deletion_plan::{Plan, plan};
use crate::subtree::difference::Existing;
use crate::subtree::reconcile::{MORE_RIGHTS_FOR_TARGET, Reconcile, Wanted};
use crate::subtree::walk::{RESERVED, Walk};
use crate::subtree::writer::{User, Writer, authenticate, create_parents};

/// The arguments.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of the command line"
)]
pub(crate) struct Mirror {
    /// The target: an ensemble and a path, host:port,host:port/path, or only a path; with the credentials and TLS
    /// settings of the source, unless `ZK_TO_AUTH`, `ZK_TO_SASL` or `ZK_TO_TLS_CA` are in the environment
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Delete nodes of the target that the source does not have
    #[arg(long)]
    delete: bool,
    /// The largest number of nodes to delete
    #[arg(
        long,
        value_name = "NODES",
        default_value_t = 1000,
        requires = "delete"
    )]
    limit: usize,
    /// Do not ask before nodes are deleted, or created in /
    #[arg(short, long)]
    yes: bool,
    /// Create the ephemeral nodes of the source too, as persistent ones
    #[arg(long)]
    ephemerals: bool,
    /// Print what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// The root of the source
    path: String,
}

impl Mirror {
    /// Counts the differences, asks before anything is deleted, writes and compares. The time limit applies to each
    /// request.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let source_path = context.path(&self.path)?;
        let (connect, target_path) = parse_target(&self.to)?;
        let mut access = context.access()?;
        let is_encrypted = access.tls.is_some();
        let kept = access.replace_for_target()?;
        if connect.is_some() && !kept.is_empty() {
            let kept = kept.join(" and the ");
            let note = format!(
                "the target gets the {kept} of the source; the variables ZK_TO_… give it others"
            );
            context.output().note(&note).await;
        }
        if is_encrypted && access.tls.is_none() {
            let note =
                "the connection to the target is not encrypted, because ZK_TO_TLS_CA is empty";
            context.output().note(note).await;
        }
        let source = context.session().await?;
        let user = if access.has_user() {
            User::Known
        } else {
            User::OfSession
        };
        let is_own = connect.is_some() || user == User::OfSession || has_target_variables();
        let target = if is_own {
            let connect = match connect {
                Some(connect) => connect.to_owned(),
                None => context.connect_string()?,
            };
            context.open_other(connect, access).await?
        } else {
            source.clone()
        };
        // From here on a signal must not keep the session from being closed, nor nodes from getting their rules.
        let mut interruption = context.interrupter().interruption();
        let endpoints = Endpoints {
            source,
            source_path,
            target,
            target_path,
            is_other: connect.is_some(),
            user,
        };
        let result = self.mirror(context, &endpoints, &mut interruption).await;
        if is_own {
            close(endpoints.target).await;
        }
        result
    }

    async fn mirror(
        &self,
        context: &mut Context,
        endpoints: &Endpoints,
        interruption: &mut Interruption,
    ) -> Result<(), Failure> {
        let root = interruption.end(endpoints.prepare()).await?;

        // First without changes, so that nothing is written if too much would be deleted.
        let mode = if self.dry_run {
            Mode::Print(context.output())
        } else {
            Mode::Count
        };
        let mut changes = self.pass(endpoints, mode, "compared", interruption).await?;
        let extra = std::mem::take(&mut changes.extra);
        let seen = plan(extra, |_| self.delete);
        if self.dry_run {
            let printing = self.print_dry_run(context.output(), endpoints, &seen, &changes);
            return interruption.end(printing).await;
        }
        let asking = async {
            self.ask(context, endpoints, &seen, changes.created).await?;
            create_parents(&endpoints.target, &endpoints.target_path).await
        };
        interruption.end(asking).await?;
        let writer = Writer::new(
            &endpoints.target,
            &endpoints.target_path,
            context.output(),
            endpoints.user,
        );
        let mode = Mode::Write(Box::new(writer));
        let mut changes = self.pass(endpoints, mode, "mirrored", interruption).await?;
        let finishing = async {
            // A source that is being deleted must not empty the target.
            let root_now = endpoints.source.exists(&endpoints.source_path).await?;
            if root_now.is_none_or(|now| now.czxid != root.czxid) {
                return Err(Failure::operation(
                    format!(
                        "{} was deleted or replaced meanwhile; nothing of the target was deleted",
                        endpoints.source_path
                    ),
                    Some("run the command again once the source is complete"),
                ));
            }
            // Only what was not wanted before, when that was confirmed, and is not wanted now.
            let extra = std::mem::take(&mut changes.extra);
            let approved: HashSet<_> = seen
                .delete
                .into_iter()
                .map(|extra| (extra.path, extra.czxid))
                .collect();
            let plan = plan(extra, |extra| {
                approved.contains(&(extra.path.clone(), extra.czxid))
            });
            let output = context.output();
            self.note_kept(output, endpoints, &plan).await?;
            let progress = Progress::new("deleted", Some(plan.delete.len() as u64));
            let (target, root) = (&endpoints.target, &endpoints.target_path);
            let deleted = delete(target, root, plan.delete, output, &progress).await?;
            drop(progress);
            self.print(output, endpoints, &changes, deleted.count)
                .await?;
            self.compare(output, endpoints).await?;
            if deleted.refused > 0 {
                let refused = nodes(deleted.refused);
                return Err(Failure::operation(
                    format!("this session may not delete {refused} of the target"),
                    Some(MORE_RIGHTS_FOR_TARGET),
                ));
            }
            Ok(())
        };
        interruption.end(finishing).await
    }

    /// Prints what is left to say of a dry run, after the changes.
    async fn print_dry_run(
        &self,
        output: &Output,
        endpoints: &Endpoints,
        seen: &Plan,
        changes: &Changes,
    ) -> Result<(), Failure> {
        for extra in &seen.delete {
            let path = extra.path.below(&endpoints.target_path)?;
            print_change(output, "delete", &path, None).await?;
        }
        self.note_kept(output, endpoints, seen).await?;
        let deletions = seen.delete.len() as u64;
        self.print(output, endpoints, changes, deletions).await
    }

    /// Asks before nodes are deleted, or created in `/`; fails if too many would be deleted.
    async fn ask(
        &self,
        context: &mut Context,
        endpoints: &Endpoints,
        seen: &Plan,
        created: u64,
    ) -> Result<(), Failure> {
        let count = nodes(seen.delete.len() as u64);
        if seen.delete.len() > self.limit {
            return Err(Failure::operation(
                format!(
                    "{count} of the target would be deleted, and the limit is {}; nothing was written",
                    self.limit
                ),
                Some("see with --dry-run which ones, and raise --limit if that is right"),
            ));
        }
        if !seen.delete.is_empty() && !self.yes {
            let mut list = format!("the source does not have {count} of the target:");
            for extra in seen.delete.iter().rev().take(SHOWN) {
                let path = extra.path.below(&endpoints.target_path)?;
                list = format!("{list}\n  {}", escape::line(path.as_str()));
            }
            if seen.delete.len() > SHOWN {
                list = format!("{list}\n  and {} more", seen.delete.len() - SHOWN);
            }
            context.output().note(&list).await;
            let refusal =
                format!("{count} of the target would be deleted, and nothing was written");
            let question = format!("Delete {count}? [y/N] ");
            confirm(context, &question, &refusal).await?;
        }
        if endpoints.target_path.is_root() && created > 0 && !self.yes {
            let question = format!(
                "This creates {} in / of the target.\nMirror? [y/N] ",
                nodes(created)
            );
            confirm(context, &question, "nothing was written").await?;
        }
        Ok(())
    }

    /// Says what was changed, or would be.
    async fn print(
        &self,
        output: &Output,
        endpoints: &Endpoints,
        changes: &Changes,
        deletions: u64,
    ) -> Result<(), Failure> {
        let word = if self.dry_run {
            "Would mirror"
        } else {
            "Mirrored"
        };
        let kept = changes.extra_count.saturating_sub(deletions);
        output
            .result(
                || {
                    let deleted = format!(", {deletions} deleted");
                    let kept = match kept {
                        0 => String::new(),
                        kept => format!(", {kept} that only the target has were kept"),
                    };
                    format!(
                        "{word} {} to {}: {}{deleted}{kept}\n",
                        escape::line(endpoints.source_path.as_str()),
                        escape::line(&self.to),
                        changes.words()
                    )
                },
                || {
                    let mut document = changes.json();
                    document["deleted"] = json!(deletions);
                    document["kept"] = json!(kept);
                    document["path"] = endpoints.source_path.as_str().into();
                    document["to"] = self.to.as_str().into();
                    document["dry_run"] = self.dry_run.into();
                    document
                },
            )
            .await
    }

    /// Compares all nodes of the source with those of the target, and fails if they differ. Nodes that only the target
    /// has were counted before.
    async fn compare(&self, output: &Output, endpoints: &Endpoints) -> Result<(), Failure> {
        endpoints.sync().await?;
        let root = &endpoints.target_path;
        let strictness = Strictness {
            may_differ: false,
            may_have_extra: true,
            may_root_differ: root.is_root() && endpoints.target.servers().chroot.is_root(),
        };
        let progress = Progress::new("compared", None);
        let mut reconcile = self.reconcile(endpoints);
        let found = compare(&mut reconcile, root, strictness, output, &progress).await?;
        drop(progress);
        let verdict = found.verdict();
        output
            .result(
                || format!("{verdict:?}: {}\n", found.words()),
                || {
                    json!({
                        "verified": verdict == Verdict::Verified,
                        "path": endpoints.source_path.as_str(),
                        "to": self.to,
                        "nodes": found.json(),
                    })
                },
            )
            .await?;
        match verdict {
            Verdict::Verified => Ok(()),
            Verdict::Different => Err(Failure::operation(
                "the target differs from the source as it is now",
                Some("one of them was changed meanwhile: run the command again"),
            )),
            Verdict::Incomplete => Err(Failure::operation(
                format!(
                    "{} could not be compared with the source",
                    nodes(found.unreadable)
                ),
                Some(MORE_RIGHTS_FOR_TARGET),
            )),
        }
    }

    /// Names the nodes that are not wanted and cannot be deleted.
    async fn note_kept(
        &self,
        output: &Output,
        endpoints: &Endpoints,
        plan: &Plan,
    ) -> Result<(), Failure> {
        if self.delete {
            for path in &plan.keep {
                let reason = "a node below it is ephemeral, new, or may not be read";
                note_kept(output, &path.below(&endpoints.target_path)?, reason).await;
            }
        }
        Ok(())
    }

    /// Walks over both subtrees once.
    async fn pass(
        &self,
        endpoints: &Endpoints,
        mode: Mode<'_>,
        verb: &'static str,
        interruption: &mut Interruption,
    ) -> Result<Changes, Failure> {
        let progress = Progress::new(verb, None);
        apply(
            &mut self.reconcile(endpoints),
            &endpoints.target_path,
            Existing::Overwrite,
            if self.delete {
                Extras::List
            } else {
                Extras::Count
            },
            mode,
            &progress,
            interruption,
        )
        .await
    }

    fn reconcile(&self, endpoints: &Endpoints) -> Reconcile {
        let walk = Walk::new(&endpoints.source, &endpoints.source_path);
        Reconcile::new(
            Wanted::Walk(Box::new(walk)),
            self.ephemerals,
            &endpoints.target,
            &endpoints.target_path,
        )
    }
}

/// The two subtrees.
struct Endpoints {
    source: Session,
    source_path: NodePath,
    target: Session,
    target_path: NodePath,
    /// Whether the target was given with an ensemble.
    is_other: bool,
    /// As whom the target is written.
    user: User,
}

impl Endpoints {
    /// Checks that the target may be written, and returns the root of the source.
    async fn prepare(&self) -> Result<Stat, Failure> {
        if self.user == User::OfSession {
            authenticate(&self.target).await?;
        }
        self.sync().await?;
        check_target(&self.target_path, &self.target.servers().chroot)?;
        let root = self.source.stat(&self.source_path).await?;
        self.check_apart().await?;
        Ok(root)
    }

    /// Lets both sessions see everything that was written before.
    async fn sync(&self) -> Result<(), Failure> {
        self.source.sync(&self.source_path).await?;
        Ok(self.target.sync(&self.target_path).await?)
    }

    /// Fails if one subtree contains the other.
    async fn check_apart(&self) -> Result<(), Failure> {
        let source_path = self.absolute_source()?;
        let overlaps = self.target_path.depth_below(&source_path).is_some()
            || source_path.depth_below(&self.target_path).is_some();
        if overlaps && (!self.is_other || self.is_same_ensemble(&source_path).await?) {
            return Err(Failure::usage(
                format!(
                    "{} and {} of the same ensemble overlap, so that one cannot mirror the other",
                    source_path, self.target_path
                ),
                "choose a target that neither contains the source nor is below it",
            ));
        }
        Ok(())
    }

    /// Returns the path of the source as a session without chroot sees it, if the target has such a session.
    fn absolute_source(&self) -> Result<NodePath, Failure> {
        let chroot = &self.source.servers().chroot;
        Ok(if !self.is_other {
            self.source_path.clone()
        } else if self.source_path.is_root() {
            chroot.clone()
        } else {
            chroot.join(&self.source_path.as_str()[1..])?
        })
    }

    /// Returns whether the target's ensemble has the very nodes of the source: of the same transactions and times.
    async fn is_same_ensemble(&self, source_path: &NodePath) -> Result<bool, Failure> {
        let (mut ours, mut theirs) = (self.source_path.clone(), source_path.clone());
        if source_path.is_root() {
            // The root has no history in common that would show anything.
            let (mut names, _) = self.source.list(&ours).await?;
            names.retain(|name| name != RESERVED);
            names.sort_unstable();
            let Some(name) = names.first() else {
                return Ok(false);
            };
            (ours, theirs) = (ours.join(name)?, theirs.join(name)?);
        }
        let ours = self.source.exists(&ours).await?;
        let theirs = self.target.exists(&theirs).await?;
        let creation = |stat: Stat| (stat.czxid, stat.ctime);
        Ok(ours.is_some() && ours.map(creation) == theirs.map(creation))
    }
}

/// Splits a target into a connect string and a path.
fn parse_target(target: &str) -> Result<(Option<&str>, NodePath), Failure> {
    let slash = target.find('/');
    let (connect, path) = target.split_at(slash.unwrap_or(target.len()));
    if path.is_empty() {
        return Err(Failure::usage(
            format!("the target {target:?} has no path"),
            "as in --to 127.0.0.1:2181/app, or --to /copy in the same ensemble",
        ));
    }
    let path = NodePath::parse(path)?;
    Ok(((!connect.is_empty()).then_some(connect), path))
}

/// How many of the nodes that would be deleted are named in the question.
const SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_ensemble_and_a_path() {
        let of = |target| parse_target(target).map(|(connect, path)| (connect, path.to_string()));
        assert_eq!(
            of("h:1,i:2/a/b").unwrap(),
            (Some("h:1,i:2"), "/a/b".to_owned())
        );
        assert_eq!(of("h:1/").unwrap(), (Some("h:1"), "/".to_owned()));
        assert_eq!(of("/copy").unwrap(), (None, "/copy".to_owned()));
        for target in ["", "h:1", "h:1/a/", "h:1//a", "h:1/.."] {
            assert!(of(target).is_err(), "{target}");
        }
    }
}
