//! `getacl` and `setacl`: who may do what with a node.

use clap::Args;
use futures_util::future::join_all;
use serde_json::json;
use zk_core::{Acl, ErrorKind};

use crate::confirm::confirm;
use crate::context::Context;
use crate::crawl::{BATCH, Crawl, DEFAULT_LIMIT, counted};
use crate::failure::Failure;
use crate::protected::protected;
use crate::{acl_text, escape, output};

/// The arguments of `getacl`.
#[derive(Debug, Args)]
pub(crate) struct Getacl {
    /// Print the metadata too
    #[arg(short)]
    stat: bool,
    /// The node
    path: String,
}

impl Getacl {
    /// Prints the entries as `setacl` takes them.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let (acl, stat) = session.acl(&path).timeout(context.remaining()).await?;
        context
            .output()
            .result(
                || {
                    let lines: Vec<_> = acl.entries().iter().map(acl_text::entry).collect();
                    let stat = self.stat.then(|| output::stat(&stat));
                    format!(
                        "{}\n{}",
                        escape::block(&lines.join("\n")),
                        stat.unwrap_or_default()
                    )
                },
                || {
                    let entries: Vec<_> = acl.entries().iter().map(acl_text::document).collect();
                    json!({"path": path.as_str(), "acl": entries, "stat": output::stat_json(&stat)})
                },
            )
            .await
    }
}

/// The arguments of `setacl`.
#[derive(Debug, Args)]
pub(crate) struct Setacl {
    /// Print the metadata after the change
    #[arg(short, conflicts_with = "recursive")]
    stat: bool,
    /// Change everything below the node too
    #[arg(short = 'R', long, conflicts_with = "version")]
    recursive: bool,
    /// Do not ask before everything below is changed
    #[arg(short, long)]
    yes: bool,
    /// Change only if the ACL has this version, which `stat` prints as aclVersion
    #[arg(short, value_name = "VERSION", value_parser = clap::value_parser!(i32).range(0..))]
    version: Option<i32>,
    /// Refuse to change more nodes than this
    #[arg(long, value_name = "NODES", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// The node
    path: String,
    /// The entries, scheme:id:permissions with the letters of cdrwa, as in world:anyone:r
    #[arg(required = true)]
    entries: Vec<String>,
}

impl Setacl {
    /// Replaces the ACL of a node, or of all nodes of a subtree once that was confirmed.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let acl = parse(&self.entries)?;
        let shown = escape::line(path.as_str()).into_owned();
        if self.recursive
            && let Some(reason) = protected(&path, &context.chroot())
        {
            return Err(Failure::usage(
                format!("no ACL is changed: {shown} is protected, because {reason}"),
                "give a node further down, or change one node at a time, without -R",
            ));
        }
        let session = context.session().await?;
        if !self.recursive {
            let request = session.set_acl(&path, acl).timeout(context.remaining());
            let stat = match self.version {
                Some(version) => request.version(version).await?,
                None => request.await?,
            };
            let text = || {
                let stat = self.stat.then(|| output::stat(&stat));
                stat.unwrap_or_default()
            };
            return context
                .output()
                .result(text, || json!({"path": path.as_str(), "changed": 1}))
                .await;
        }
        let crawl = Crawl::new(&session, &path, self.limit, None);
        let (mut paths, summary) = crawl.collect(context).await?;
        if let Some(note) = summary.forbidden_note() {
            return Err(Failure::operation(
                format!("no ACL was changed: {note}"),
                Some("begin further down, or with credentials that may list all of it"),
            ));
        }
        if let Some(problem) = summary.limit_problem(self.limit) {
            return Err(Failure::operation(
                format!("no ACL was changed: {problem}"),
                Some("give more with --limit NODES if you mean all of them"),
            ));
        }
        if !self.yes {
            let nodes = counted(paths.len() as u64, "node");
            let question = format!(
                "This changes the ACLs of {shown} and all below it: {nodes}.\nChange? [y/N] "
            );
            confirm(context, &question, "no ACL was changed").await?;
        }
        // Children first: a list that keeps this session out must not keep it from the rest.
        paths.reverse();
        let mut changed = 0_u64;
        for some in paths.chunks(BATCH) {
            let timeout = context.remaining();
            let requests = some.iter().map(|path| {
                let request = session.set_acl(path, acl.clone());
                request.timeout(timeout).into_future()
            });
            let mut failed = None;
            for result in join_all(requests).await {
                match result {
                    Ok(_) => changed += 1,
                    Err(error) if error.is_no_node() => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                let is_refused = error.kind() == ErrorKind::NoAuth;
                let done = counted(changed, "ACL");
                let failure = Failure::from(error).about(&format!("{done} changed, and"));
                return Err(if is_refused {
                    failure.with_help("the session needs ADMIN on each node")
                } else {
                    failure
                });
            }
        }
        context
            .output()
            .result(
                || format!("Changed {shown}, {}\n", counted(changed, "ACL")),
                || json!({"path": path.as_str(), "changed": changed}),
            )
            .await
    }
}

/// Parses the entries of an access control list.
pub(super) fn parse(entries: &[String]) -> Result<Acl, Failure> {
    let mut parsed = Vec::new();
    for text in entries {
        let entries = acl_text::parse(text);
        parsed.extend(entries.map_err(|problem| {
            Failure::usage(
                format!("the entry {text:?}: {problem}"),
                "as in world:anyone:r, auth::cdrwa or digest:user:HASH:cdrwa",
            )
        })?);
    }
    Ok(Acl::new(parsed))
}
