//! Goes through the tree, counts each subtree, and compares it with the crawl before.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::sample::{Subtree, Tree};
use crate::recipe_names::{RecipeKind, recipe_kind, work_queue_parts};

/// The nodes that were listed so far, and those that are to be listed.
#[derive(Debug)]
pub(crate) struct TreeCrawl {
    /// When it began, in milliseconds since 1970.
    pub(crate) began: u64,
    limit: u64,
    /// The children of each node that has some.
    child_lists: BTreeMap<String, ChildList>,
    /// The paths that recipes use, and those of the parts of work queues.
    recipes: BTreeSet<String>,
    work_queue_parts: BTreeSet<String>,
    waiting: VecDeque<String>,
    /// How many nodes of the last batch were not listed yet.
    unlisted: usize,
    nodes: u64,
    refused: u64,
    failed: u64,
    failed_in_a_row: usize,
    first_failure: Option<String>,
    is_cut: bool,
}

/// The children of one node.
#[derive(Debug, Default)]
struct ChildList {
    children: u64,
    /// Empty beyond the limit: the crawl is compared with no other one then.
    names: BTreeSet<String>,
}

/// Why a node was not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListProblem {
    /// It was deleted meanwhile.
    Gone,
    /// This session may not list its children.
    Refused,
    /// There was no answer: its children are unknown.
    Failed(String),
}

impl TreeCrawl {
    /// Creates a crawl of at most `limit` nodes.
    pub(crate) fn new(began: u64, limit: u64) -> Self {
        Self {
            began,
            limit,
            child_lists: BTreeMap::new(),
            recipes: BTreeSet::new(),
            work_queue_parts: BTreeSet::new(),
            waiting: VecDeque::from(["/".to_owned()]),
            unlisted: 0,
            nodes: 1,
            refused: 0,
            failed: 0,
            failed_in_a_row: 0,
            first_failure: None,
            is_cut: false,
        }
    }

    /// Takes the next nodes to be listed, at most `most` of them. There are none when the crawl is over.
    pub(crate) fn batch(&mut self, most: usize) -> Vec<String> {
        self.unlisted = most.min(self.waiting.len());
        self.waiting.drain(..self.unlisted).collect()
    }

    /// Whether so many nodes in a row could not be listed that the crawl is over.
    pub(crate) fn is_given_up(&self) -> bool {
        self.failed_in_a_row == MAX_FAILED_IN_A_ROW
    }

    /// Takes over the children of a node. After several failures in a row the crawl is over, also for the rest of a batch.
    pub(crate) fn listed(&mut self, path: &str, children: Result<Vec<String>, ListProblem>) {
        if self.is_given_up() {
            return;
        }
        self.unlisted -= 1;
        let failed_before = std::mem::take(&mut self.failed_in_a_row);
        let children = match children {
            Ok(children) => children,
            Err(ListProblem::Gone) => return,
            Err(ListProblem::Refused) => {
                self.refused += 1;
                return;
            }
            Err(ListProblem::Failed(reason)) => {
                self.failed += 1;
                self.first_failure.get_or_insert(reason);
                self.failed_in_a_row = failed_before + 1;
                if self.is_given_up() {
                    self.failed += (self.unlisted + self.waiting.len()) as u64;
                    self.waiting.clear();
                }
                return;
            }
        };
        if children.is_empty() {
            return;
        }
        if recipe_kind(&children) != RecipeKind::Unknown {
            self.recipes.insert(path.to_owned());
        }
        if let Some(parts) = work_queue_parts(&children) {
            let parts = [parts.items, parts.claims].map(|name| joined(path, name));
            self.work_queue_parts.extend(parts);
        }
        let mut list = ChildList {
            children: children.len() as u64,
            names: BTreeSet::new(),
        };
        self.nodes += list.children;
        for child in &children {
            if self.nodes <= self.limit {
                self.waiting.push_back(joined(path, child));
            } else {
                self.is_cut = true;
            }
        }
        if self.nodes <= self.limit {
            list.names.extend(children);
        }
        self.child_lists.insert(path.to_owned(), list);
    }

    /// Whether all nodes are counted that this session may list, so that another crawl can be compared with it.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.failed == 0 && !self.is_cut
    }

    /// The paths that recipes use, at most `most`, and how many more there are.
    fn recipes(&self, most: usize) -> (Vec<String>, u64) {
        let mut paths = self.recipes.difference(&self.work_queue_parts);
        let first = paths.by_ref().take(most).cloned().collect();
        (first, paths.count() as u64)
    }

    /// The largest subtrees and those that have changed most, compared with an earlier crawl if both are complete.
    pub(crate) fn tree(&self, before: Option<&Self>) -> Tree {
        let before = before.filter(|before| self.is_complete() && before.is_complete());
        let now = self.descendants();
        let then = before.map(Self::descendants);
        let changes = before.map(|before| self.changes_since(before));
        let subtrees = self.child_lists.iter().map(|(path, list)| {
            let descendants = now.get(path.as_str()).copied().unwrap_or(0);
            Subtree {
                path: path.clone(),
                children: list.children,
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
        let (recipes, more_recipes) = self.recipes(MAX_RECIPES);
        Tree {
            is_running: !self.waiting.is_empty(),
            compared_with: before.map(|before| self.began.saturating_sub(before.began)),
            subtrees,
            recipes,
            more_recipes,
            ..self.progress()
        }
    }

    /// How far the crawl is.
    pub(crate) fn progress(&self) -> Tree {
        Tree {
            nodes: self.nodes,
            is_cut: self.is_cut,
            is_running: true,
            refused: self.refused,
            failed: self.failed,
            failure: self.first_failure.clone(),
            compared_with: None,
            subtrees: Vec::new(),
            recipes: Vec::new(),
            more_recipes: 0,
        }
    }

    /// The number of nodes below each node that has children.
    fn descendants(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for (path, list) in &self.child_lists {
            for ancestor in with_ancestors(path) {
                *counts.entry(ancestor).or_default() += list.children;
            }
        }
        counts
    }

    /// How many names came or went below each node.
    fn changes_since<'a>(&'a self, before: &'a Self) -> BTreeMap<&'a str, u64> {
        let none = ChildList::default();
        let paths: BTreeSet<&String> = self
            .child_lists
            .keys()
            .chain(before.child_lists.keys())
            .collect();
        let mut changes = BTreeMap::new();
        for path in paths {
            let now = self.child_lists.get(path).unwrap_or(&none);
            let then = before.child_lists.get(path).unwrap_or(&none);
            let changed = now.names.symmetric_difference(&then.names).count() as u64;
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
const MAX_RECIPES: usize = 50;
/// After so many nodes in a row that could not be listed, none of the others is tried.
const MAX_FAILED_IN_A_ROW: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Crawls a tree that is given by its leaves and inner nodes.
    fn crawl(began: u64, limit: u64, paths: &[&str]) -> TreeCrawl {
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
        let mut crawl = TreeCrawl::new(began, limit);
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
    fn deleted_children_count_as_changes_of_its_ancestors() {
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
        // All children are counted, and the names beyond the limit are not kept.
        assert_eq!(tree.subtrees[0].children, 50);
        let kept = cut.child_lists.values().map(|list| list.names.len());
        assert!(kept.sum::<usize>() <= 20, "{cut:?}");
        let whole = crawl(0, 1_000, &paths);
        assert!(!whole.tree(None).is_cut);
        assert_eq!(whole.tree(Some(&cut)).compared_with, None);
    }

    #[test]
    fn nodes_that_may_not_be_listed_or_are_gone_leave_a_crawl_complete() {
        let before = crawl(0, 10, &["/a", "/b"]);
        let mut crawl = TreeCrawl::new(0, 10);
        assert!(!crawl.is_complete());
        let root = crawl.batch(1);
        crawl.listed(&root[0], Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(crawl.batch(2), ["/a", "/b"]);
        crawl.listed("/a", Err(ListProblem::Refused));
        crawl.listed("/b", Err(ListProblem::Gone));
        let tree = crawl.tree(Some(&before));
        assert_eq!((tree.nodes, tree.refused, tree.failed), (3, 1, 0));
        assert!(tree.compared_with.is_some());
    }

    #[test]
    fn a_crawl_with_a_failure_is_compared_with_no_other() {
        let failed = || ListProblem::Failed("timed out".to_owned());
        let whole = crawl(0, 10, &["/a", "/b"]);
        let mut partial = TreeCrawl::new(1, 10);
        let root = partial.batch(1);
        partial.listed(&root[0], Ok(vec!["a".to_owned(), "b".to_owned()]));
        for path in partial.batch(2) {
            let is_first = path == "/a";
            partial.listed(
                &path,
                if is_first {
                    Err(failed())
                } else {
                    Ok(Vec::new())
                },
            );
        }
        let tree = partial.tree(Some(&whole));
        assert_eq!((tree.failed, tree.refused), (1, 0));
        assert_eq!(tree.failure.as_deref(), Some("timed out"));
        assert_eq!((tree.compared_with, tree.subtrees[0].growth), (None, None));
        assert_eq!(whole.tree(Some(&partial)).compared_with, None);
        assert!(whole.tree(Some(&whole)).compared_with.is_some());
    }

    #[test]
    fn a_crawl_ends_after_three_failures_in_a_row() {
        let mut crawl = TreeCrawl::new(0, 100);
        let root = crawl.batch(1);
        let children = (0..9).map(|child| child.to_string());
        crawl.listed(&root[0], Ok(children.collect()));
        let mut listed = 0;
        while let [path] = &crawl.batch(1)[..] {
            listed += 1;
            let result = match listed {
                3 => Ok(Vec::new()),
                _ => Err(ListProblem::Failed(format!("{listed}: timed out"))),
            };
            crawl.listed(path, result);
        }
        assert_eq!(listed, 6);
        let tree = crawl.tree(None);
        assert_eq!(
            (tree.failed, tree.failure.as_deref()),
            (8, Some("1: timed out"))
        );
        assert!(!tree.is_running);
    }

    #[test]
    fn a_crawl_that_has_given_up_does_not_go_on_with_its_batch() {
        let mut crawl = TreeCrawl::new(0, 100);
        let root = crawl.batch(1);
        let children = (0..9).map(|child| child.to_string());
        crawl.listed(&root[0], Ok(children.collect()));
        for (number, path) in crawl.batch(7).iter().enumerate() {
            let result = match number {
                0..3 => Err(ListProblem::Failed("timed out".to_owned())),
                _ => Ok(vec!["child".to_owned()]),
            };
            crawl.listed(path, result);
            assert_eq!(crawl.is_given_up(), number >= 2, "{number}");
        }
        assert_eq!(crawl.batch(7), [""; 0]);
        let tree = crawl.tree(None);
        assert_eq!((tree.nodes, tree.failed, tree.is_running), (10, 9, false));
    }

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
            found.recipes(10).0,
            ["/elections/e", "/fifo", "/jobs", "/locks/a"]
        );
        let first = vec!["/elections/e".to_owned()];
        assert_eq!(found.recipes(1), (first, 3));
    }
}
