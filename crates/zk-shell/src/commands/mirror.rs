//! Makes a subtree of another ensemble, or another subtree of the same one, equal to a subtree, by writing only what
//! differs.

use std::collections::HashSet;

use clap::Args;
use serde_json::json;
use zk_core::NodePath;
use zk_core::Session;

use crate::ask::confirm;
use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::failure::tell;
use crate::progress::Progress;
use crate::subtree::apply::Changes;
use crate::subtree::apply::Mode;
use crate::subtree::apply::apply;
use crate::subtree::apply::check_target;
use crate::subtree::apply::delete;
use crate::subtree::apply::nodes;
use crate::subtree::apply::print_change;
use crate::subtree::apply::tell_kept;
use crate::subtree::deletion::Extra;
use crate::subtree::deletion::Plan;
use crate::subtree::deletion::plan;
use crate::subtree::difference::Existing;
use crate::subtree::reconcile::Reconcile;
use crate::subtree::reconcile::Wanted;
use crate::subtree::walk::RESERVED;
use crate::subtree::walk::Walk;
use crate::subtree::writer::Writer;
use crate::subtree::writer::authenticate;
use crate::subtree::writer::create_parents;

/// The arguments.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of the command line"
)]
pub(crate) struct Mirror {
    /// The target: an ensemble and a path, host:port,host:port/path, or only a path
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
    /// Do not ask before nodes are deleted
    #[arg(short, long, requires = "delete")]
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
    /// Counts the differences, asks before anything is deleted, and writes. The time limit applies to each request.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let source_path = context.path(&self.path)?;
        let (connect, target_path) = parse_target(&self.to)?;
        let source = context.session().await?;
        let has_user = context.has_credentials();
        let target = match connect {
            Some(connect) => context.open_other(connect).await?,
            None if has_user => source.clone(),
            None => {
                let connect = context.connect_string()?;
                context.open_other(&connect).await?
            }
        };
        let both = Both {
            source,
            source_path,
            target,
            target_path,
            is_other: connect.is_some(),
        };
        let result = async {
            if !has_user {
                authenticate(&both.target).await?;
            }
            self.mirror(context, &both).await
        }
        .await;
        if both.is_other || !has_user {
            context.close_other(both.target).await;
        }
        result
    }

    async fn mirror(&self, context: &mut Context, both: &Both) -> Result<(), Failure> {
        both.source.sync(&both.source_path).await?;
        both.target.sync(&both.target_path).await?;
        check_target(&both.target_path, both.target.servers().chroot())?;
        let root = both.source.stat(&both.source_path).await?;
        both.check_apart().await?;

        // First without changes, so that nothing is written if too much would be deleted.
        let mut mode = if self.dry_run {
            Mode::Print(context.output())
        } else {
            Mode::Count
        };
        let mut changes = self.pass(both, &mut mode, "compared").await?;
        let extra = std::mem::take(&mut changes.extra);
        let mut extra_count = persistent(&extra);
        let seen = plan(extra, |_| self.delete);
        let mut deletions = seen.delete.len() as u64;
        if deletions > self.limit as u64 && !self.dry_run {
            return Err(Failure::operation(
                format!(
                    "{} of the target would be deleted, and the limit is {}; nothing was written",
                    nodes(deletions),
                    self.limit
                ),
                Some("see with --dry-run which ones, and raise --limit if that is right"),
            ));
        }
        let mut refused = 0;
        if self.dry_run {
            for extra in &seen.delete {
                let path = extra.path.below(&both.target_path)?;
                print_change(context.output(), "delete", &path, None)?;
            }
            self.tell_kept(both, &seen)?;
        } else {
            if !seen.delete.is_empty() && !self.yes {
                let count = nodes(deletions);
                let shown = seen.delete.iter().rev().take(SHOWN).map(|extra| {
                    let path = extra
                        .path
                        .below(&both.target_path)
                        .unwrap_or_else(|_| both.target_path.clone());
                    format!("  {}\n", escape::line(path.as_str()))
                });
                tell(&format!(
                    "The source does not have {count} of the target:\n{}",
                    shown.collect::<String>()
                ));
                if seen.delete.len() > SHOWN {
                    tell(&format!("  and {} more\n", seen.delete.len() - SHOWN));
                }
                let refusal =
                    format!("{count} of the target would be deleted, and nothing was written");
                confirm(context, &format!("Delete {count}? [y/N] "), &refusal).await?;
            }
            create_parents(&both.target, &both.target_path).await?;
            let writer = Writer::new(&both.target, &both.target_path);
            let mut mode = Mode::Write(Box::new(writer));
            changes = self.pass(both, &mut mode, "mirrored").await?;
            // A source that is being deleted must not empty the target.
            let root_now = both.source.exists(&both.source_path).await?;
            if root_now.is_none_or(|now| now.czxid != root.czxid) {
                return Err(Failure::operation(
                    format!(
                        "{} was deleted or replaced meanwhile; nothing of the target was deleted",
                        both.source_path
                    ),
                    Some("run the command again once the source is complete"),
                ));
            }
            // Only what was not wanted before, when that was confirmed, and is not wanted now.
            let extra = std::mem::take(&mut changes.extra);
            extra_count = persistent(&extra);
            let approved: HashSet<_> = seen
                .delete
                .into_iter()
                .map(|extra| (extra.path, extra.czxid))
                .collect();
            let plan = plan(extra, |extra| {
                approved.contains(&(extra.path.clone(), extra.czxid))
            });
            self.tell_kept(both, &plan)?;
            let progress = Progress::new("deleted", Some(plan.delete.len() as u64));
            let deleted = delete(&both.target, &both.target_path, plan.delete, &progress).await?;
            (deletions, refused) = (deleted.count, deleted.refused);
        }
        let word = if self.dry_run {
            "Would mirror"
        } else {
            "Mirrored"
        };
        let kept = extra_count.saturating_sub(deletions);
        context.output().result(
            || {
                let deleted = format!(", {deletions} deleted");
                let kept = match kept {
                    0 => String::new(),
                    kept => format!(", {kept} that only the target has were kept"),
                };
                format!(
                    "{word} {} to {}: {}{deleted}{kept}\n",
                    escape::line(both.source_path.as_str()),
                    escape::line(&self.to),
                    changes.words()
                )
            },
            || {
                let mut document = changes.json();
                document["deleted"] = json!(deletions);
                document["kept"] = json!(kept);
                document["path"] = both.source_path.as_str().into();
                document["to"] = self.to.as_str().into();
                document["dry_run"] = self.dry_run.into();
                document
            },
        )?;
        if refused > 0 {
            return Err(Failure::operation(
                format!(
                    "this session may not delete {} of the target",
                    nodes(refused)
                ),
                Some(
                    "put the credentials of a user who may into the environment: ZK_AUTH=user:password",
                ),
            ));
        }
        Ok(())
    }

    /// Names the nodes that are not wanted and cannot be deleted.
    fn tell_kept(&self, both: &Both, plan: &Plan) -> Result<(), Failure> {
        if self.delete {
            for path in &plan.keep {
                let reason = "a node below it is ephemeral, new, or may not be read";
                tell_kept(&path.below(&both.target_path)?, reason);
            }
        }
        Ok(())
    }

    /// Walks over both subtrees once.
    async fn pass(
        &self,
        both: &Both,
        mode: &mut Mode<'_>,
        verb: &'static str,
    ) -> Result<Changes, Failure> {
        let progress = Progress::new(verb, None);
        let walk = Walk::new(&both.source, &both.source_path);
        let wanted = Wanted::Walk(Box::new(walk));
        let mut reconcile =
            Reconcile::new(wanted, self.ephemerals, &both.target, &both.target_path);
        apply(
            &mut reconcile,
            &both.target_path,
            Existing::Overwrite,
            mode,
            &progress,
        )
        .await
    }
}

/// The two subtrees.
struct Both {
    source: Session,
    source_path: NodePath,
    target: Session,
    target_path: NodePath,
    /// Whether the target was given with an ensemble.
    is_other: bool,
}

impl Both {
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
        let chroot = self.source.servers().chroot();
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
        let creation = |stat: zk_core::Stat| (stat.czxid, stat.ctime);
        Ok(ours.is_some() && ours.map(creation) == theirs.map(creation))
    }
}

/// Returns how many of the nodes are not ephemeral.
fn persistent(extra: &[Extra]) -> u64 {
    extra.iter().filter(|extra| !extra.is_ephemeral).count() as u64
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
