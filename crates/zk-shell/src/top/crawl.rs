//! Goes through the tree, counts each subtree, and compares it with the crawl before.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;

use super::recipe_names;
use super::sample::Subtree;
use super::sample::Tree;

/// The nodes that were listed so far, and those that are to be listed.
#[derive(Debug)]
pub(crate) struct Crawl {
    /// When it began, in milliseconds since 1970.
    pub(crate) began: u64,
    limit: u64,
    /// The children of each node that has some.
    families: BTreeMap<String, BTreeSet<String>>,
    waiting: VecDeque<String>,
    nodes: u64,
    unreadable: u64,
    is_cut: bool,
}

/// Why a node was not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unlisted {
    /// It was deleted meanwhile.
    Gone,
    /// It may not be read.
    Unreadable,
}

impl Crawl {
    /// Creates a crawl of at most `limit` nodes.
    pub(crate) fn new(began: u64, limit: u64) -> Self {
        Self {
            began,
            limit,
            families: BTreeMap::new(),
            waiting: VecDeque::from(["/".to_owned()]),
            nodes: 1,
            unreadable: 0,
            is_cut: false,
        }
    }

    /// Takes the next nodes to be listed, at most `most` of them. There are none when the crawl is over.
    pub(crate) fn batch(&mut self, most: usize) -> Vec<String> {
        let most = most.min(self.waiting.len());
        self.waiting.drain(..most).collect()
    }

    /// Takes over the children of a node.
    pub(crate) fn listed(&mut self, path: &str, children: Result<Vec<String>, Unlisted>) {
        let children = match children {
            Ok(children) => children,
            Err(Unlisted::Gone) => return,
            Err(Unlisted::Unreadable) => {
                self.unreadable += 1;
                return;
            }
        };
        if children.is_empty() {
            return;
        }
        self.nodes += children.len() as u64;
        for child in &children {
            if self.nodes <= self.limit {
                self.waiting.push_back(joined(path, child));
            } else {
                self.is_cut = true;
            }
        }
        self.families
            .insert(path.to_owned(), children.into_iter().collect());
    }

    /// The paths that recipes use, at most `most`.
    fn recipes(&self, most: usize) -> Vec<String> {
        let of_work_queues: BTreeSet<_> = self
            .families
            .iter()
            .filter_map(|(path, names)| {
                let names: Vec<_> = names.iter().cloned().collect();
                let (items, claims) = recipe_names::work_queue(&names)?;
                Some([joined(path, items), joined(path, claims)])
            })
            .flatten()
            .collect();
        let families = self.families.iter().filter(|(path, names)| {
            let names: Vec<_> = names.iter().cloned().collect();
            recipe_names::work_queue(&names).is_some()
                || recipe_names::contenders(&names).is_some() && !of_work_queues.contains(*path)
        });
        families.map(|(path, _)| path.clone()).take(most).collect()
    }

    /// The largest subtrees and those that have changed most, compared with an earlier crawl.
    pub(crate) fn tree(&self, before: Option<&Self>) -> Tree {
        // A crawl that was cut counts other nodes each time.
        let before = before.filter(|before| !self.is_cut && !before.is_cut);
        let now = self.descendants();
        let then = before.map(Self::descendants);
        let changes = before.map(|before| self.changes_since(before));
        let subtrees = self.families.iter().map(|(path, children)| {
            let descendants = now.get(path.as_str()).copied().unwrap_or(0);
            Subtree {
                path: path.clone(),
                children: children.len() as u64,
                descendants,
                growth: then.as_ref().map(|then| {
                    let then = then.get(path.as_str()).copied().unwrap_or(0);
                    descendants.cast_signed() - then.cast_signed()
                }),
                changes: changes
                    .as_ref()
                    .map(|changes| changes.get(path.as_str()).copied().unwrap_or(0)),
            }
        });
        let mut subtrees: Vec<_> = subtrees.collect();
        subtrees.sort_by_key(|subtree| std::cmp::Reverse(subtree.descendants));
        let mut rest = subtrees.split_off(subtrees.len().min(LARGEST));
        rest.sort_by_key(|subtree| std::cmp::Reverse(subtree.changes));
        rest.truncate(FASTEST);
        subtrees.extend(rest);
        Tree {
            nodes: self.nodes,
            is_cut: self.is_cut,
            is_running: !self.waiting.is_empty(),
            unreadable: self.unreadable,
            compared_with: before.map(|before| self.began.saturating_sub(before.began)),
            subtrees,
            recipes: self.recipes(MOST_RECIPES),
        }
    }

    /// How far the crawl is.
    pub(crate) fn progress(&self) -> Tree {
        Tree {
            nodes: self.nodes,
            is_cut: self.is_cut,
            is_running: true,
            unreadable: self.unreadable,
            compared_with: None,
            subtrees: Vec::new(),
            recipes: Vec::new(),
        }
    }

    /// The number of nodes below each node that has children.
    fn descendants(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for (path, children) in &self.families {
            for ancestor in with_ancestors(path) {
                *counts.entry(ancestor).or_default() += children.len() as u64;
            }
        }
        counts
    }

    /// How many names came or went below each node.
    fn changes_since<'a>(&'a self, before: &'a Self) -> BTreeMap<&'a str, u64> {
        let none = BTreeSet::new();
        let paths: BTreeSet<&String> = self.families.keys().chain(before.families.keys()).collect();
        let mut changes = BTreeMap::new();
        for path in paths {
            let now = self.families.get(path).unwrap_or(&none);
            let then = before.families.get(path).unwrap_or(&none);
            let changed = now.symmetric_difference(then).count() as u64;
            for ancestor in with_ancestors(path) {
                *changes.entry(ancestor).or_default() += changed;
            }
        }
        changes
    }
}

/// The path and all above it.
fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    })
}

pub(crate) fn joined(parent: &str, name: &str) -> String {
    if parent == "/" {
        format!("/{name}")
    } else {
        format!("{parent}/{name}")
    }
}

/// How many subtrees are kept for their size, and how many more for their changes.
const LARGEST: usize = 200;
const FASTEST: usize = 50;
const MOST_RECIPES: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    /// Crawls a tree that is given by its leaves and inner nodes.
    fn crawl(began: u64, limit: u64, paths: &[&str]) -> Crawl {
        let mut children = BTreeMap::<String, BTreeSet<String>>::new();
        for path in paths {
            let mut parent = String::from("/");
            for name in path.split('/').skip(1) {
                children
                    .entry(parent.clone())
                    .or_default()
                    .insert(name.to_owned());
                parent = joined(&parent, name);
            }
        }
        let mut crawl = Crawl::new(began, limit);
        loop {
            let batch = crawl.batch(3);
            if batch.is_empty() {
                return crawl;
            }
            for path in batch {
                let names = children.get(&path).cloned().unwrap_or_default();
                crawl.listed(&path, Ok(names.into_iter().collect()));
            }
        }
    }

    type RowOfTree<'a> = (&'a str, u64, u64, Option<i64>, Option<u64>);

    fn rows(tree: &Tree) -> Vec<RowOfTree<'_>> {
        let rows = tree.subtrees.iter();
        rows.map(|row| {
            (
                row.path.as_str(),
                row.children,
                row.descendants,
                row.growth,
                row.changes,
            )
        })
        .collect()
    }

    // covers: O6
    #[test]
    fn subtrees_are_counted_and_compared() {
        let before = crawl(1_000, 100, &["/a/x/1", "/a/x/2", "/a/y", "/b/1"]);
        assert_eq!(
            rows(&before.tree(None)),
            [
                ("/", 2, 7, None, None),
                ("/a", 2, 4, None, None),
                ("/a/x", 2, 2, None, None),
                ("/b", 1, 1, None, None),
            ]
        );
        let after = crawl(
            61_000,
            100,
            &["/a/x/2", "/a/x/3", "/a/y", "/b/1", "/b/2", "/c"],
        );
        let tree = after.tree(Some(&before));
        assert_eq!(
            rows(&tree),
            [
                ("/", 3, 9, Some(2), Some(4)),
                ("/a", 2, 4, Some(0), Some(2)),
                ("/a/x", 2, 2, Some(0), Some(2)),
                ("/b", 2, 2, Some(1), Some(1)),
            ]
        );
        assert_eq!((tree.nodes, tree.compared_with), (10, Some(60_000)));
    }

    #[test]
    fn a_deleted_family_counts_as_changes_of_its_ancestors() {
        let before = crawl(0, 100, &["/a/b/1", "/a/b/2"]);
        let after = crawl(1, 100, &["/a/b", "/a/c"]);
        assert_eq!(
            rows(&after.tree(Some(&before))),
            [
                ("/", 1, 3, Some(-1), Some(3)),
                ("/a", 2, 2, Some(-1), Some(3))
            ]
        );
    }

    #[test]
    fn a_crawl_ends_at_its_limit_and_says_so() {
        let paths: Vec<String> = (0..50).map(|n| format!("/p{n}/c")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let cut = crawl(0, 20, &paths);
        let tree = cut.tree(None);
        assert!(tree.is_cut && !tree.is_running, "{tree:?}");
        let whole = crawl(0, 1_000, &paths);
        assert!(!whole.tree(None).is_cut);
        assert_eq!(whole.tree(Some(&cut)).compared_with, None);
    }

    #[test]
    fn nodes_that_cannot_be_listed_do_not_end_a_crawl() {
        let mut crawl = Crawl::new(0, 10);
        crawl.listed("/", Ok(vec!["a".to_owned(), "b".to_owned()]));
        crawl.listed("/a", Err(Unlisted::Unreadable));
        crawl.listed("/b", Err(Unlisted::Gone));
        let tree = crawl.tree(None);
        assert_eq!((tree.nodes, tree.unreadable), (3, 1));
    }

    // covers: O6
    #[test]
    fn a_crawl_finds_the_paths_of_recipes() {
        let found = crawl(
            0,
            100,
            &[
                "/locks/a/_c_1-lock-0000000001",
                "/locks/b/note",
                "/jobs/items/w-00000000-0000000000000-000-0000000001",
                "/jobs/claims/w-1",
                "/fifo/qn-0000000003",
                "/elections/e/_c_1-latch-0000000004",
            ],
        );
        assert_eq!(
            found.recipes(10),
            ["/elections/e", "/fifo", "/jobs", "/locks/a"]
        );
        assert_eq!(found.recipes(1).len(), 1);
    }
}
