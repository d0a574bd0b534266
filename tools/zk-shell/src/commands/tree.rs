//! `tree`: a subtree as a drawing.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::crawl::{Children, Crawl, DEFAULT_LIMIT, Found};
use crate::escape;
use crate::failure::Failure;
use crate::output::{self, Style};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// Print the length of the data and the owner of ephemeral nodes too
    #[arg(short)]
    long: bool,
    /// Print only so many levels below the node
    #[arg(short, long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Print at most so many nodes
    #[arg(long, value_name = "NODES", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// The node; the root by default
    path: Option<String>,
}

impl Tree {
    /// Draws a subtree.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path_or_here(self.path.as_deref())?;
        let session = context.session().await?;
        let mut crawl = Crawl::new(&session, &path, self.limit, self.depth);
        loop {
            let batch = crawl.next_with_little_data(context).await?;
            let output = context.output();
            if batch.is_empty() {
                return crawl.finish(output).await;
            }
            let text = |found: &Found| {
                let name = if found.depth == 0 {
                    path.as_str()
                } else {
                    found.path.name().unwrap_or_default()
                };
                let name = output.styled(Style::of(&found.stat), &escape::line(name));
                format!("{}{name}{}\n", branch(&found.is_last), self.remark(found))
            };
            output.results(&batch, text, Found::json).await?;
        }
    }

    /// Returns what follows the name of a node.
    fn remark(&self, found: &Found) -> String {
        let mut remarks = Vec::new();
        if self.long {
            remarks.push(format!("{} B", found.stat.data_length));
        }
        if let Some(owner) = found.stat.ephemeral_owner {
            remarks.push(if self.long {
                format!("ephemeral of {owner}")
            } else {
                "ephemeral".to_owned()
            });
        }
        if found.children == Children::Hidden {
            return "  (not permitted)".to_owned();
        }
        if let Some(problem) = found.children.problem() {
            let count = found.stat.num_children;
            remarks.push(format!("{count} below, not listed: {problem}"));
        }
        if remarks.is_empty() {
            String::new()
        } else {
            format!("  ({})", remarks.join(", "))
        }
    }
}

impl Found {
    /// Returns the document of a node.
    pub(crate) fn json(&self) -> serde_json::Value {
        let mut document = json!({
            "path": self.path.as_str(),
            "depth": self.depth,
        });
        if self.children != Children::Hidden {
            document["stat"] = output::stat_json(&self.stat);
        }
        if let Some(problem) = self.children.problem() {
            document["not_listed"] = problem.into();
        }
        document
    }
}

/// Returns the lines that lead to a node.
fn branch(is_last: &[bool]) -> String {
    let Some((&last, above)) = is_last.split_last() else {
        return String::new();
    };
    let above = above
        .iter()
        .map(|&is_last| if is_last { "    " } else { "│   " });
    let mut line: String = above.collect();
    line.push_str(if last { "└── " } else { "├── " });
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_end_where_the_last_child_is() {
        for (is_last, expected) in [
            (&[][..], ""),
            (&[false], "├── "),
            (&[true], "└── "),
            (&[false, true], "│   └── "),
            (&[true, false], "    ├── "),
            (&[true, false, true], "    │   └── "),
        ] {
            assert_eq!(branch(is_last), expected);
        }
    }
}
