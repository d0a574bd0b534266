//! `du`: where the nodes and the bytes of a subtree are.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use serde_json::json;
use zk_core::NodePath;

use crate::context::Context;
use crate::crawl::{Crawl, DEFAULT_LIMIT, Found};
use crate::escape;
use crate::failure::Failure;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Du {
    /// What the rows are sorted by, the largest first
    #[arg(long, value_enum, default_value_t = By::Bytes)]
    by: By,
    /// Print the subtrees of so many levels below the node; all with --by children
    #[arg(short, long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Print only so many rows
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    top: usize,
    /// Visit at most so many nodes
    #[arg(long, value_name = "NODES", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// The node; the root by default
    path: Option<String>,
}

/// An order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The data of the subtree
    Bytes,
    /// The nodes of the subtree
    Nodes,
    /// The children of the node alone
    Children,
}

/// A subtree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    path: NodePath,
    depth: usize,
    bytes: u64,
    nodes: u64,
    children: u32,
    /// Whether something in it could not be visited, so that the numbers are too small.
    is_partial: bool,
}

impl Du {
    /// Prints the largest subtrees.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path_or_here(self.path.as_deref())?;
        let session = context.session().await?;
        let mut crawl = Crawl::new(&session, &path, self.limit, None);
        let mut sums = Sums::new(self.depth.unwrap_or(match self.by {
            By::Bytes | By::Nodes => 1,
            By::Children => usize::MAX,
        }));
        while let Some(found) = crawl.next(context).await? {
            sums.add(&found);
        }
        let rows = sorted(sums.finish(), self.by, self.top);
        if context.output().is_json() {
            for row in &rows {
                context.output().result(String::new, || row.json()).await?;
            }
        } else {
            context
                .output()
                .result(|| table(&rows), || json!(null))
                .await?;
        }
        crawl.finish(context.output()).await
    }
}

impl Row {
    fn json(&self) -> serde_json::Value {
        json!({
            "path": self.path.as_str(),
            "depth": self.depth,
            "bytes": self.bytes,
            "nodes": self.nodes,
            "children": self.children,
            "is_partial": self.is_partial,
        })
    }
}

/// The sums of the subtrees down to a depth, from nodes in the order of a crawl.
#[derive(Debug)]
struct Sums {
    depth: usize,
    /// The subtrees that the last node was in, the largest first.
    open: Vec<Row>,
    done: Vec<Row>,
}

impl Sums {
    fn new(depth: usize) -> Self {
        Self {
            depth,
            open: Vec::new(),
            done: Vec::new(),
        }
    }

    fn add(&mut self, found: &Found) {
        while self.open.len() > found.depth.min(self.depth.saturating_add(1)) {
            self.close();
        }
        let row = Row {
            path: found.path.clone(),
            depth: found.depth,
            bytes: u64::from(found.stat.data_length),
            nodes: 1,
            children: found.stat.num_children,
            is_partial: found.children.problem().is_some(),
        };
        if found.depth <= self.depth {
            self.open.push(row);
        } else if let Some(above) = self.open.last_mut() {
            above.include(&row);
        }
    }

    fn finish(mut self) -> Vec<Row> {
        while !self.open.is_empty() {
            self.close();
        }
        self.done
    }

    fn close(&mut self) {
        if let Some(row) = self.open.pop() {
            if let Some(above) = self.open.last_mut() {
                above.include(&row);
            }
            self.done.push(row);
        }
    }
}

impl Row {
    fn include(&mut self, below: &Self) {
        self.bytes += below.bytes;
        self.nodes += below.nodes;
        self.is_partial |= below.is_partial;
    }
}

/// Returns the largest rows.
fn sorted(mut rows: Vec<Row>, by: By, top: usize) -> Vec<Row> {
    let size = |row: &Row| match by {
        By::Bytes => row.bytes,
        By::Nodes => row.nodes,
        By::Children => u64::from(row.children),
    };
    rows.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.path.cmp(&b.path)));
    rows.truncate(top);
    rows
}

/// A partial number is followed by a `+`.
fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>12}  {:>10}  {:>10}  PATH\n",
        "BYTES", "NODES", "CHILDREN"
    );
    for row in rows {
        let plus = if row.is_partial { "+" } else { " " };
        let (bytes, nodes, children) = (row.bytes, row.nodes, row.children);
        let path = escape::line(row.path.as_str());
        // Writing to a text cannot fail.
        _ = writeln!(
            text,
            "{bytes:>11}{plus}  {nodes:>9}{plus}  {children:>10}  {path}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use zk_core::Stat;

    use super::*;
    use crate::crawl::Children;

    fn found(path: &str, data_length: u32, children: Children) -> Found {
        let path = NodePath::parse(path).unwrap();
        let depth = path.depth_below(&NodePath::root()).unwrap();
        let stat = Stat {
            data_length,
            ..Stat::default()
        };
        Found {
            path,
            depth,
            stat,
            children,
            is_last: vec![false; depth],
        }
    }

    fn sums(depth: usize) -> Vec<(String, u64, u64, bool)> {
        let mut sums = Sums::new(depth);
        for (path, bytes) in [
            ("/", 1),
            ("/a", 2),
            ("/a/b", 4),
            ("/a/b/c", 8),
            ("/d", 16),
            ("/e", 32),
            ("/e/f", 64),
        ] {
            let children = if path == "/a/b/c" {
                Children::TooMany
            } else {
                Children::Listed
            };
            sums.add(&found(path, bytes, children));
        }
        let rows = sorted(sums.finish(), By::Bytes, 100);
        rows.into_iter()
            .map(|row| (row.path.to_string(), row.bytes, row.nodes, row.is_partial))
            .collect()
    }

    fn row(path: &str, bytes: u64, nodes: u64, is_partial: bool) -> (String, u64, u64, bool) {
        (path.to_owned(), bytes, nodes, is_partial)
    }

    #[test]
    fn each_node_counts_in_every_subtree_that_it_is_in() {
        let all = row("/", 127, 7, true);
        assert_eq!(sums(0), std::slice::from_ref(&all));
        let level = [
            all,
            row("/e", 96, 2, false),
            row("/d", 16, 1, false),
            row("/a", 14, 3, true),
        ];
        assert_eq!(sums(1), level);
        let mut deep = level.to_vec();
        deep.insert(2, row("/e/f", 64, 1, false));
        deep.insert(5, row("/a/b", 12, 2, true));
        assert_eq!(sums(2), deep);
        deep.insert(6, row("/a/b/c", 8, 1, true));
        assert_eq!(sums(3), deep);
        assert_eq!(sums(usize::MAX), deep);
    }

    #[test]
    fn rows_are_sorted_by_what_was_asked_for_and_cut() {
        let of = |path: &str, bytes, nodes, children| Row {
            path: NodePath::parse(path).unwrap(),
            depth: 1,
            bytes,
            nodes,
            children,
            is_partial: false,
        };
        let rows = vec![of("/a", 3, 1, 5), of("/b", 2, 2, 5), of("/c", 1, 3, 6)];
        let paths = |by, top| -> Vec<String> {
            let rows = sorted(rows.clone(), by, top);
            rows.iter().map(|row| row.path.to_string()).collect()
        };
        assert_eq!(paths(By::Bytes, 9), ["/a", "/b", "/c"]);
        assert_eq!(paths(By::Nodes, 9), ["/c", "/b", "/a"]);
        assert_eq!(paths(By::Children, 9), ["/c", "/a", "/b"]);
        assert_eq!(paths(By::Children, 2), ["/c", "/a"]);
    }
}
