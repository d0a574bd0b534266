//! Walks a subtree with few requests in flight and few nodes in memory, and says what it left out.
//!
//! Nodes come in the order of a listing: each before its children, children sorted by name. Requests are sent for up to
//! [`BATCH`] nodes at a time. The children of a node are listed only if they fit into the limit; so a crawl holds at most as many
//! paths as its limit, whatever it meets.
//!
//! It reads stats and names. `subtree::walk` also reads data and access rules, which have to belong together, and bounds their
//! bytes; `top::crawl` counts by names alone, because `zk top` may send two reads a second.

use futures_util::future::join_all;
use zk_core::{ErrorKind, NodePath, Session, Stat};

use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::output::Output;

/// A node that a crawl has found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) path: NodePath,
    /// The number of levels below the root of the crawl.
    pub(crate) depth: usize,
    pub(crate) stat: Stat,
    pub(crate) children: Children,
    /// For each level down to this node, whether it is the last child of its parent.
    pub(crate) is_last: Vec<bool>,
}

/// Whether a crawl goes on below a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Children {
    /// It does.
    Listed,
    /// The session may not list them.
    Forbidden,
    /// The session may read nothing of the node, not even its stat, which is all zeros.
    Hidden,
    /// There are more than the limit allows.
    TooMany,
    /// They are below the depth that was asked for.
    TooDeep,
}

impl Children {
    /// Returns why the children are left out, if they are not to be expected.
    pub(crate) fn problem(self) -> Option<&'static str> {
        match self {
            Self::Listed | Self::TooDeep => None,
            Self::Forbidden | Self::Hidden => Some("not permitted"),
            Self::TooMany => Some("limit"),
        }
    }
}

/// What a crawl has met so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The nodes that were found.
    pub(crate) nodes: usize,
    /// The bytes of their data.
    pub(crate) bytes: u64,
    /// The ephemeral ones among them.
    pub(crate) ephemerals: usize,
    /// Nodes whose children may not be listed, and the first of them.
    pub(crate) forbidden: usize,
    first_forbidden: Option<NodePath>,
    /// Nodes whose children are beyond the limit, the first of them, and the number of those children.
    pub(crate) beyond_limit: usize,
    first_beyond_limit: Option<NodePath>,
    children_beyond_limit: u64,
}

/// A walk through a subtree.
#[derive(Debug)]
pub(crate) struct Crawl {
    session: Session,
    /// What comes next is last.
    stack: Vec<Entry>,
    limit: usize,
    max_depth: usize,
    /// The nodes whose paths are known: those found, and those on the stack.
    known: usize,
    summary: Summary,
}

#[derive(Debug)]
struct Entry {
    path: NodePath,
    is_last: Vec<bool>,
    read: Option<(Stat, Children, Vec<String>)>,
}

impl Crawl {
    /// Starts at `root`, which must exist.
    pub(crate) fn new(
        session: &Session,
        root: &NodePath,
        limit: usize,
        depth: Option<usize>,
    ) -> Self {
        let root = Entry {
            path: root.clone(),
            is_last: Vec::new(),
            read: None,
        };
        Self {
            session: session.clone(),
            stack: vec![root],
            limit,
            max_depth: depth.unwrap_or(usize::MAX),
            known: 1,
            summary: Summary::default(),
        }
    }

    /// Returns the next node, or `None` at the end. A node that vanishes meanwhile is left out, unless it is the root.
    pub(crate) async fn next(&mut self, context: &mut Context) -> Result<Option<Found>, Failure> {
        while let Some(top) = self.stack.last() {
            if top.read.is_none() {
                self.read_ahead(context).await?;
                continue;
            }
            let Some(Entry {
                path,
                is_last,
                read: Some((stat, children, names)),
            }) = self.stack.pop()
            else {
                continue;
            };
            self.push(&path, &is_last, names);
            self.summary.add(&path, &stat, children);
            return Ok(Some(Found {
                depth: is_last.len(),
                path,
                stat,
                children,
                is_last,
            }));
        }
        Ok(None)
    }

    /// Returns the next nodes, whose data together is short enough to be read at once; none at the end.
    pub(crate) async fn next_with_little_data(
        &mut self,
        context: &mut Context,
    ) -> Result<Vec<Found>, Failure> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BYTES_AT_ONCE {
            let Some(found) = self.next(context).await? else {
                break;
            };
            bytes += u64::from(found.stat.data_length);
            batch.push(found);
        }
        Ok(batch)
    }

    /// Walks to the end, and returns what it has met.
    pub(crate) async fn count(mut self, context: &mut Context) -> Result<Summary, Failure> {
        while self.next(context).await?.is_some() {}
        Ok(self.summary)
    }

    /// Walks to the end, and returns the paths, each after its parent, and what it has met.
    pub(crate) async fn collect(
        mut self,
        context: &mut Context,
    ) -> Result<(Vec<NodePath>, Summary), Failure> {
        let mut paths = Vec::new();
        while let Some(found) = self.next(context).await? {
            paths.push(found.path);
        }
        Ok((paths, self.summary))
    }

    /// Notes what had to be left out; fails if the limit was the reason.
    pub(crate) async fn finish(self, output: &Output) -> Result<(), Failure> {
        if let Some(note) = self.summary.forbidden_note() {
            output.note(&note).await;
        }
        match self.summary.limit_problem(self.limit) {
            None => Ok(()),
            Some(problem) => Err(Failure::operation(
                problem,
                Some("give more with --limit NODES, or begin further down"),
            )),
        }
    }

    /// Reads the nodes that come next: first all stats, then the children of those that have some.
    async fn read_ahead(&mut self, context: &mut Context) -> Result<(), Failure> {
        let next = self.stack.iter().enumerate().rev();
        let unread = next.filter(|(_, entry)| entry.read.is_none());
        let at: Vec<usize> = unread.take(BATCH).map(|(at, _)| at).collect();
        let timeout = context.remaining();
        let stats = at.iter().map(|&at| {
            let request = self.session.stat(&self.stack[at].path).timeout(timeout);
            request.into_future()
        });
        let mut to_list = Vec::new();
        for (&at, stat) in at.iter().zip(join_all(stats).await) {
            let entry = &mut self.stack[at];
            let stat = match stat {
                Ok(stat) => stat,
                Err(error) if error.is_no_node() && !entry.is_last.is_empty() => continue,
                Err(error) if error.kind() == ErrorKind::NoAuth => {
                    entry.read = Some((Stat::default(), Children::Hidden, Vec::new()));
                    continue;
                }
                Err(error) => return Err(context.failure(error)),
            };
            let count = usize::try_from(stat.num_children).unwrap_or(usize::MAX);
            let children = if count == 0 {
                Children::Listed
            } else if entry.is_last.len() >= self.max_depth {
                Children::TooDeep
            } else if count > self.limit.saturating_sub(self.known) {
                Children::TooMany
            } else {
                self.known += count;
                to_list.push((at, count));
                Children::Listed
            };
            entry.read = Some((stat, children, Vec::new()));
        }
        let paths = to_list.iter().map(|&(at, _)| &self.stack[at].path);
        let lists = self.session.list_many(paths).timeout(context.remaining());
        let lists = lists.await.map_err(|error| context.failure(error))?;
        for ((at, count), list) in to_list.into_iter().zip(lists) {
            // The children may have changed since the stat was read, or may not be listed.
            let listed = list.as_ref().map_or(0, Vec::len);
            self.known = (self.known + listed).saturating_sub(count);
            let entry = &mut self.stack[at];
            match (&mut entry.read, list) {
                (Some((_, _, names)), Ok(list)) => *names = list,
                (Some((_, children, _)), Err(error)) if error.kind() == ErrorKind::NoAuth => {
                    *children = Children::Forbidden;
                }
                (read, Err(error)) if error.is_no_node() && !entry.is_last.is_empty() => {
                    *read = None;
                }
                (_, Err(error)) => return Err(context.failure(error)),
                (None, Ok(_)) => {}
            }
        }
        // Those that have vanished since their parent was listed.
        for at in at {
            if self.stack[at].read.is_none() {
                self.stack.remove(at);
            }
        }
        Ok(())
    }

    fn push(&mut self, path: &NodePath, is_last: &[bool], mut names: Vec<String>) {
        names.sort_unstable_by(|a, b| b.cmp(a));
        for (at, name) in names.iter().enumerate() {
            // A server lists no name that it would refuse; another implementation may.
            let Ok(path) = path.join(name) else { continue };
            let mut is_last = is_last.to_vec();
            is_last.push(at == 0);
            self.stack.push(Entry {
                path,
                is_last,
                read: None,
            });
        }
    }
}

impl Summary {
    fn add(&mut self, path: &NodePath, stat: &Stat, children: Children) {
        self.nodes += 1;
        self.bytes += u64::from(stat.data_length);
        self.ephemerals += usize::from(stat.ephemeral_owner.is_some());
        match children {
            Children::Listed | Children::TooDeep => {}
            Children::Forbidden | Children::Hidden => {
                self.forbidden += 1;
                self.first_forbidden.get_or_insert_with(|| path.clone());
            }
            Children::TooMany => {
                self.beyond_limit += 1;
                self.children_beyond_limit += u64::from(stat.num_children);
                self.first_beyond_limit.get_or_insert_with(|| path.clone());
            }
        }
    }

    /// Returns which subtrees may not be listed, if any.
    pub(crate) fn forbidden_note(&self) -> Option<String> {
        let first = self.first_forbidden.as_ref()?;
        Some(format!(
            "the children of {} may not be listed, first {}; put the credentials into the environment: ZK_AUTH=user:password",
            counted(self.forbidden as u64, "node"),
            escape::line(first.as_str())
        ))
    }

    /// Returns what is beyond the limit, if anything.
    pub(crate) fn limit_problem(&self, limit: usize) -> Option<String> {
        let first = self.first_beyond_limit.as_ref()?;
        Some(format!(
            "the limit of {limit} nodes left out {} of {}, first those of {}, and all that is below them",
            counted_as(self.children_beyond_limit, "child", "children"),
            counted(self.beyond_limit as u64, "node"),
            first.as_str()
        ))
    }
}

/// Notes how many nodes have data that the session may not read, if any.
pub(crate) async fn note_unreadable(output: &Output, nodes: u64) {
    if nodes > 0 {
        let nodes = counted(nodes, "node");
        let note = format!("the data of {nodes} may not be read");
        output.note(&note).await;
    }
}

/// Returns a number with its noun.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    counted_as(number, noun, &format!("{noun}s"))
}

fn counted_as(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// How many nodes are asked for at once.
pub(crate) const BATCH: usize = 64;
/// How much data is asked for at once, but for the last node.
const BYTES_AT_ONCE: u64 = 4 << 20;
/// The default limit of nodes that a crawl visits.
pub(crate) const DEFAULT_LIMIT: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_sim::Ensemble;

    use super::*;
    use crate::context::Settings;

    fn summary(nodes: &[(&str, u32, u32, Children)]) -> Summary {
        let mut summary = Summary::default();
        for (path, data_length, num_children, children) in nodes {
            let stat = Stat {
                data_length: *data_length,
                num_children: *num_children,
                ..Stat::default()
            };
            summary.add(&NodePath::parse(path).unwrap(), &stat, *children);
        }
        summary
    }

    #[test]
    fn a_summary_says_what_was_left_out_and_why() {
        let all = summary(&[
            ("/a", 3, 1, Children::Listed),
            ("/a/b", 4, 9, Children::TooDeep),
        ]);
        assert_eq!((all.nodes, all.bytes), (2, 7));
        assert_eq!((all.forbidden_note(), all.limit_problem(5)), (None, None));
        let some = summary(&[
            ("/a", 0, 4, Children::Listed),
            ("/a/b", 0, 1, Children::TooMany),
            ("/a/c", 0, 2, Children::Forbidden),
            ("/a/d", 0, 2, Children::Forbidden),
        ]);
        assert_eq!(
            some.limit_problem(5).unwrap(),
            "the limit of 5 nodes left out 1 child of 1 node, first those of /a/b, and all that is below them"
        );
        assert!(
            some.forbidden_note()
                .unwrap()
                .starts_with("the children of 2 nodes may not be listed, first /a/c;")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_crawl_that_takes_too_long_names_the_limit_of_the_command() {
        let ensemble = Ensemble::new(1);
        let session = ensemble.connect().await;
        let mut context = Context::new(Settings {
            connect: None,
            acl: None,
            timeout: Duration::from_millis(1),
            max_buffer: None,
            assume_release: None,
            is_json: false,
        });
        while !context.remaining().is_zero() {
            std::hint::spin_loop();
        }
        let crawl = Crawl::new(&session, &NodePath::root(), 1, None);
        let failure = crawl.count(&mut context).await.unwrap_err();
        assert_eq!(
            failure.to_string(),
            "the time limit of the command, 1ms, had passed"
        );
    }
}
