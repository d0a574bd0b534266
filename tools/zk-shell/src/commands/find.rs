//! `find`: the nodes of a subtree that meet conditions.

use std::time::{Duration, SystemTime};

use clap::Args;
use regex::{Regex, bytes};
use zk_core::{ErrorKind, SessionId};

use crate::context::Context;
use crate::crawl::{Children, Crawl, DEFAULT_LIMIT, Found, note_unreadable};
use crate::duration::parse_age;
use crate::escape;
use crate::failure::Failure;
use crate::filter::{self, Filter};
use crate::output::Style;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Find {
    /// Only nodes with such a name: * stands for any characters, ? for one
    #[arg(long, value_name = "PATTERN", value_parser = filter::parse_name)]
    name: Option<Regex>,
    /// Only nodes whose data was last changed at least so long ago: 10m, 36h, 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older: Option<Duration>,
    /// Only nodes whose data was last changed at most so long ago
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    newer: Option<Duration>,
    /// Only nodes with more data than this: 512, 10k, 1M
    #[arg(long, value_name = "SIZE", value_parser = filter::parse_size)]
    larger: Option<u64>,
    /// Only nodes with less data than this
    #[arg(long, value_name = "SIZE", value_parser = filter::parse_size)]
    smaller: Option<u64>,
    /// Only nodes with more children than this
    #[arg(long, value_name = "CHILDREN")]
    children: Option<u32>,
    /// Only ephemeral nodes of this session
    #[arg(long, value_name = "SESSION", value_parser = filter::parse_session)]
    owner: Option<SessionId>,
    /// Only ephemeral nodes
    #[arg(long, conflicts_with = "persistent")]
    ephemeral: bool,
    /// Only nodes that are not ephemeral
    #[arg(long, conflicts_with = "owner")]
    persistent: bool,
    /// Only nodes whose data matches this regular expression
    #[arg(long, value_name = "REGEX")]
    data: Option<bytes::Regex>,
    /// Search only so many levels below the node
    #[arg(short, long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Visit at most so many nodes
    #[arg(long, value_name = "NODES", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// The node; the root by default
    path: Option<String>,
}

impl Find {
    /// Prints the nodes that meet the conditions.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path_or_here(self.path.as_deref())?;
        let session = context.session().await?;
        let filter = Filter {
            name: self.name,
            older: self.older,
            newer: self.newer,
            larger: self.larger,
            smaller: self.smaller,
            children: self.children,
            owner: self.owner,
            is_ephemeral: match (self.ephemeral, self.persistent) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
        };
        let mut crawl = Crawl::new(&session, &path, self.limit, self.depth);
        let mut unreadable = 0;
        loop {
            let mut batch = crawl.next_with_little_data(context).await?;
            if batch.is_empty() {
                note_unreadable(context.output(), unreadable).await;
                return crawl.finish(context.output()).await;
            }
            let now = SystemTime::now();
            batch.retain(|found| {
                // Nothing but the name is known of a node that may not be read.
                let is_known = found.children != Children::Hidden || filter.is_about_names();
                is_known && filter.matches(&found.path, &found.stat, now)
            });
            if let Some(pattern) = &self.data {
                let paths = batch.iter().map(|found| &found.path);
                let read = session.get_many(paths).timeout(context.remaining()).await?;
                let mut is_match = read.iter().map(|node| match node {
                    Ok((data, _)) => pattern.is_match(data),
                    Err(error) => {
                        unreadable += u64::from(error.kind() == ErrorKind::NoAuth);
                        false
                    }
                });
                batch.retain(|_| is_match.next() == Some(true));
            }
            let output = context.output();
            output
                .results(
                    &batch,
                    |found| {
                        let shown = escape::line(found.path.as_str());
                        format!("{}\n", output.styled(Style::of(&found.stat), &shown))
                    },
                    Found::json,
                )
                .await?;
        }
    }
}
