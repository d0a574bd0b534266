//! The master's view of tasks and workers: three caches, plus the steps it carried out that they do not show yet.

use std::collections::BTreeMap;
use std::str::FromStr;

use futures_util::FutureExt as _;
use zk_cache::{CacheOptions, ChildrenCache, Event, Events, Snapshot, TreeCache};
use zk_core::NodePath;

use crate::member::Member;
use crate::plan::{Step, View};
use crate::reporter::Reporter;
use crate::tree::Tree;

/// The tasks, the workers and the assignments, kept up to date.
///
/// The three caches show three different moments; a task in transit may be in two of them for a while, or in none.
#[derive(Debug)]
pub(crate) struct AssignmentView {
    tree: Tree,
    reporter: Reporter,
    tasks: ChildrenCache,
    workers: ChildrenCache,
    assigned: TreeCache,
    news: [Events; 3],
    /// The steps carried out, by the node that each deleted and the `czxid` of that node.
    ///
    /// Without this a task would be moved again until the caches show that it is gone. The ensemble rejects such moves,
    /// so they would only waste requests.
    carried_out: BTreeMap<(NodePath, i64), Step>,
}

/// A step, and the node that it moves, as read from the caches.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub(crate) step: Step,
    source: NodePath,
    czxid: i64,
    /// The data of the task.
    pub(crate) data: Vec<u8>,
}

impl AssignmentView {
    /// Starts the caches with this session. The view is empty until [`changed`](Self::changed) returns.
    pub(crate) fn new(member: &Member) -> Self {
        let (session, tree) = (&member.session, &member.tree);
        let depth = CacheOptions::default().with_max_depth(2);
        let tasks = ChildrenCache::start(session, &tree.tasks).expect("the path is one");
        let workers = ChildrenCache::start(session, &tree.workers).expect("the path is one");
        let assigned = TreeCache::start_with(session, &tree.assigned, &depth);
        let assigned = assigned.expect("the path is one");
        Self {
            tree: tree.clone(),
            reporter: member.reporter.clone(),
            news: [tasks.events(), workers.events(), assigned.events()],
            tasks,
            workers,
            assigned,
            carried_out: BTreeMap::new(),
        }
    }

    /// Waits for the next events and discards pending ones. Fails if a cache has ended or may not list its node.
    pub(crate) async fn changed(&mut self) -> anyhow::Result<()> {
        let roots = [&self.tree.tasks, &self.tree.workers, &self.tree.assigned];
        let [tasks, workers, assigned] = &mut self.news;
        let (event, root) = tokio::select! {
            biased;
            event = tasks.next() => (event, roots[0]),
            event = workers.next() => (event, roots[1]),
            event = assigned.next() => (event, roots[2]),
        };
        check_event(event, root, &self.reporter)?;
        for (news, root) in self.news.iter_mut().zip(roots) {
            while let Some(event) = news.next().now_or_never() {
                check_event(event, root, &self.reporter)?;
            }
        }
        Ok(())
    }

    /// Returns the current view, or `None` while a cache is not synchronised.
    pub(crate) fn view(&mut self) -> Option<View> {
        let (tasks, workers) = (self.tasks.snapshot(), self.workers.snapshot());
        let assigned = self.assigned.snapshot();
        let all = [&tasks, &workers, &assigned];
        if !all.iter().all(|it| it.is_synchronized()) {
            return None;
        }
        let shows = |(path, czxid): &(NodePath, i64)| {
            let node = all.iter().find_map(|it| it.get(path));
            node.is_some_and(|node| node.stat().czxid == *czxid)
        };
        self.carried_out.retain(|source, _| shows(source));
        let mut view = View {
            workers: named(&workers, &self.tree.workers)
                .into_iter()
                .map(|(worker, _)| worker)
                .collect(),
            ..View::default()
        };
        for (task, czxid) in named(&tasks, &self.tree.tasks) {
            match self.carried_out.get(&(self.tree.task(task), czxid)) {
                Some(Step::Assign { task, to }) => {
                    view.assigned.entry(*to).or_default().insert(*task);
                }
                _ => drop(view.waiting.insert(task)),
            }
        }
        for (worker, czxid) in named(&assigned, &self.tree.assigned) {
            let path = self.tree.assigned_to(worker);
            if self.carried_out.contains_key(&(path.clone(), czxid)) {
                continue;
            }
            let has = view.assigned.entry(worker).or_default();
            for (task, czxid) in named(&assigned, &path) {
                let source = (self.tree.assignment(worker, task), czxid);
                if !self.carried_out.contains_key(&source) {
                    has.insert(task);
                }
            }
        }
        Some(view)
    }

    /// Returns the node that a step moves; `None` if it is gone.
    pub(crate) fn find(&self, step: Step) -> Option<Move> {
        let (cache, source) = match step {
            Step::Assign { task, .. } => (self.tasks.snapshot(), self.tree.task(task)),
            Step::TakeBack { task, from } => {
                (self.assigned.snapshot(), self.tree.assignment(from, task))
            }
            Step::Forget { worker } => (self.assigned.snapshot(), self.tree.assigned_to(worker)),
        };
        let node = cache.get(&source)?;
        Some(Move {
            step,
            czxid: node.stat().czxid,
            data: node.data().unwrap_or_default().to_vec(),
            source,
        })
    }

    /// Records that a step was carried out.
    pub(crate) fn note(&mut self, done: Move) {
        self.carried_out
            .insert((done.source, done.czxid), done.step);
    }
}

/// Returns an error for an event after which the cache is useless: the cache has ended, or may not list its root.
///
/// A single unreadable child is reported and ignored, like a child with a foreign name. If it ended this process, it
/// would end the next one too.
pub(crate) fn check_event(
    event: Option<Event>,
    root: &NodePath,
    reporter: &Reporter,
) -> anyhow::Result<Event> {
    match event {
        Some(Event::Ended(end)) => Err(end.into()),
        Some(Event::Incomplete { path, reason: gap }) if path == *root => {
            Err(anyhow::Error::new(gap).context(format!("{path} cannot be followed")))
        }
        Some(event) => {
            if let Event::Incomplete { path, reason: gap } = &event {
                reporter.report(format_args!("leaves {path} alone: {gap}"));
            }
            Ok(event)
        }
        None => anyhow::bail!("the cache has ended"),
    }
}

/// Returns the children with parseable names, and their `czxid`s.
fn named<T: FromStr>(cache: &Snapshot, parent: &NodePath) -> Vec<(T, i64)> {
    let children = cache.children(parent);
    children
        .filter_map(|node| Some((node.name()?.parse().ok()?, node.stat().czxid)))
        .collect()
}
