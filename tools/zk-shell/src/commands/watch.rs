//! `watch`: the changes of a node or a subtree as they happen, with what was there before.

use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use serde_json::{Value, json};
use zk_cache::{CacheOptions, Event, Node, TreeCache};

use crate::context::Context;
use crate::crawl::{Crawl, DEFAULT_LIMIT, counted};
use crate::date::clock_time;
use crate::duration::parse_timeout;
use crate::failure::{Failure, chain};
use crate::output::{self, Output, Style};
use crate::{diff, escape};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Follow everything below the node too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print no data, only what happened
    #[arg(short, long)]
    quiet: bool,
    /// End after this time: 30s, 10m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_timeout)]
    duration: Option<Duration>,
    /// End after so many changes
    #[arg(long, value_name = "CHANGES")]
    count: Option<usize>,
    /// Follow no more nodes than this, whose data is kept in memory
    #[arg(long, value_name = "NODES", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// The node, which need not exist
    path: String,
}

impl Watch {
    /// Prints changes until Ctrl-C, or until the time or the number that was asked for.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        if self.recursive {
            let exists = session.exists(&path).timeout(context.remaining()).await?;
            if exists.is_some() {
                let crawl = Crawl::new(&session, &path, self.limit, None);
                let summary = crawl.count(context).await?;
                if let Some(problem) = summary.limit_problem(self.limit) {
                    return Err(Failure::operation(
                        format!("nothing is watched: {problem}"),
                        Some("give more with --limit NODES, or watch less"),
                    ));
                }
            }
        }
        let mut options = CacheOptions::default();
        if !self.recursive {
            options = options.with_max_depth(0);
        }
        let cache = TreeCache::start_with(&session, &path, &options)?;
        let loaded = context
            .within(async { Ok(cache.synchronized().await) })
            .await?;
        let before = loaded.map_err(|end| Failure::operation(chain(&end), None))?;
        let mut nodes = before.len();
        self.check_limit(nodes)?;
        let output = context.output().clone();
        output
            .result(
                || {
                    let nodes = counted(before.len() as u64, "node");
                    let path = escape::line(path.as_str());
                    format!(
                        "{}  watching {path}, {nodes}\n",
                        clock_time(SystemTime::now())
                    )
                },
                || json!({"event": "watching", "path": path.as_str(), "nodes": before.len()}),
            )
            .await?;
        let mut events = cache.events_since(&before);
        let started = Instant::now();
        let (mut changes, mut missed) = (0, None);
        while self.count.is_none_or(|count| changes < count) {
            let event = match self.duration {
                None => events.next().await,
                Some(limit) => {
                    let left = limit.saturating_sub(started.elapsed());
                    match tokio::time::timeout(left, events.next()).await {
                        Ok(event) => event,
                        Err(_) => break,
                    }
                }
            };
            match event {
                Some(event) => {
                    changes += usize::from(is_change(&event));
                    match event {
                        Event::Created(_) => nodes += 1,
                        Event::Deleted(_) => nodes = nodes.saturating_sub(1),
                        _ => {}
                    }
                    self.print(&output, &event, &mut missed).await?;
                    self.check_limit(nodes)?;
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Fails if there are more nodes than may be followed.
    fn check_limit(&self, nodes: usize) -> Result<(), Failure> {
        if nodes <= self.limit || !self.recursive {
            return Ok(());
        }
        Err(Failure::operation(
            format!(
                "the subtree has grown beyond {} nodes, and is no longer watched",
                self.limit
            ),
            Some("give more with --limit NODES, or watch less"),
        ))
    }

    /// Prints an event. `missed` is the number of changes since the connection was lost; `None` while it is there.
    async fn print(
        &self,
        output: &Output,
        event: &Event,
        missed: &mut Option<u64>,
    ) -> Result<(), Failure> {
        if let (Some(missed), true) = (missed.as_mut(), is_change(event)) {
            *missed += 1;
        }
        let now = clock_time(SystemTime::now());
        let line = |style, what: &str, node: &Node| {
            let path = escape::line(node.path());
            format!("{now}  {}  {path}", output.styled(style, what))
        };
        match event {
            Event::Created(node) => output.result(
                || {
                    let stat = node.stat();
                    let kind = if stat.ephemeral_owner.is_some() { ", ephemeral" } else { "" };
                    let line = line(Style::Added, "created", node);
                    let length = stat.data_length;
                    format!("{line}, {length} B{kind}\n{}", self.difference(output, None, Some(node)))
                },
                || self.document("created", node, None),
            ).await,
            Event::Changed { old, new } => output.result(
                || {
                    let line = line(Style::Changed, "changed", new);
                    let version = new.stat().version;
                    format!("{line}, version {version}\n{}", self.difference(output, Some(old), Some(new)))
                },
                || self.document("changed", new, Some(old)),
            ).await,
            Event::Deleted(node) => output.result(
                || {
                    let line = line(Style::Removed, "deleted", node);
                    format!("{line}\n{}", self.difference(output, Some(node), None))
                },
                || self.document("deleted", node, None),
            ).await,
            Event::Stale => {
                *missed = Some(0);
                output.result(
                    || format!("{now}  the connection is lost; what changes meanwhile follows\n"),
                    || json!({"event": "stale"}),
                ).await
            }
            Event::Synchronized { .. } => {
                let Some(missed) = missed.take() else {
                    return Ok(());
                };
                output.result(
                    || {
                        let changes = counted(missed, "change");
                        format!("{now}  connected and complete again; {changes} meanwhile\n")
                    },
                    || json!({"event": "synchronized", "missed": missed}),
                ).await
            }
            Event::Incomplete { path, reason } => output.result(
                || format!("{now}  {}: {reason}\n", escape::line(path.as_str())),
                || json!({"event": "incomplete", "path": path.as_str(), "reason": reason.to_string()}),
            ).await,
            Event::Ended(end) => Err(Failure::operation(chain(end), None)),
            _ => Ok(()),
        }
    }

    /// Returns the difference of the data, line by line.
    fn difference(&self, output: &Output, old: Option<&Node>, new: Option<&Node>) -> String {
        if self.quiet {
            return String::new();
        }
        let text =
            |node: Option<&Node>| escape::bytes(node.and_then(Node::data).unwrap_or_default());
        difference(output, &text(old), &text(new))
    }

    /// Returns an event as JSON.
    fn document(&self, event: &str, node: &Node, old: Option<&Node>) -> Value {
        let mut document = json!({
            "event": event,
            "path": node.path(),
            "stat": output::stat_json(&node.stat()),
        });
        if self.quiet {
            return document;
        }
        output::add_data(&mut document, node.data().unwrap_or_default());
        if let Some(old) = old {
            let mut before = json!({});
            output::add_data(&mut before, old.data().unwrap_or_default());
            document["old"] = before;
        }
        document
    }
}

/// Returns the lines that were removed and added, indented, with two lines around them.
fn difference(output: &Output, old: &str, new: &str) -> String {
    let difference = diff::lines(old, new);
    let mut unified = difference.unified_diff();
    let shown = unified
        .context_radius(2)
        .missing_newline_hint(false)
        .to_string();
    let lines = shown.lines().map(|line| {
        let style = match line.as_bytes().first() {
            Some(b'+') => Style::Added,
            Some(b'-') => Style::Removed,
            _ => Style::Plain,
        };
        format!("    {}\n", output.styled(style, line))
    });
    lines.collect()
}

fn is_change(event: &Event) -> bool {
    matches!(
        event,
        Event::Created(_) | Event::Changed { .. } | Event::Deleted(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_show_what_was_removed_and_added() {
        let output = Output::new(false);
        for (old, new, expected) in [
            ("", "", ""),
            ("a", "a", ""),
            ("", "a", "    @@ -0,0 +1 @@\n    +a\n"),
            ("a", "", "    @@ -1 +0,0 @@\n    -a\n"),
            ("a", "b", "    @@ -1 +1 @@\n    -a\n    +b\n"),
            (
                "1\n2\n3\n4\n5\n6\n",
                "1\n2\n3\nx\n5\n6\n",
                "    @@ -2,5 +2,5 @@\n     2\n     3\n    -4\n    +x\n     5\n     6\n",
            ),
        ] {
            assert_eq!(difference(&output, old, new), expected, "{old:?} {new:?}");
        }
    }
}
