//! The application on a simulated ensemble, under paused time: failures by seed, and where a test wants them.

#![cfg(test)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use master_workers::settings::Settings;
use master_workers::{Node, Reporter, Stop, Stopper, TaskId, Tree};
use tokio::task::JoinHandle;
use zk_core::codec::{Codec as _, Toml};
use zk_core::{NodePath, Session};
use zk_sim::Ensemble;
use zk_sim::wait::soon;

mod chaos;
mod inbox;
mod life;
mod master;
mod mended;

fn tree() -> Tree {
    Tree::new(NodePath::parse("/app").expect("a good path"))
}

/// Somebody who listens to nothing.
fn deaf(name: &str) -> Reporter {
    Reporter::new(name, |_| {})
}

/// What somebody has said.
type Lines = Arc<Mutex<Vec<String>>>;

/// Somebody whose lines are kept.
fn heard(name: &str) -> (Reporter, Lines) {
    let lines = Lines::default();
    let noted = Arc::clone(&lines);
    let reporter = Reporter::new(name, move |line| {
        noted.lock().unwrap().push(line.to_owned());
    });
    (reporter, lines)
}

fn texts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("paint {number}"))
}

/// Runs a process with one session after the other, as it would over a network.
async fn run(ensemble: Ensemble, node: Node, stop: Stop) {
    loop {
        let connecting = ensemble.connect().within(Duration::from_secs(600));
        let session = connecting.await;
        let served = tokio::select! {
            biased;
            served = node.serve(&session, &stop) => served,
            _ = session.lost() => continue,
        };
        match served {
            Ok(()) => return,
            Err(_) if session.state().is_lost() => {}
            Err(error) => panic!("{error:#}"),
        }
    }
}

/// A process, and what it has said.
struct Process {
    lines: Lines,
    stopper: Stopper,
    running: JoinHandle<()>,
}

impl Process {
    fn start(ensemble: &Ensemble, name: &str) -> Self {
        let (reporter, lines) = heard(name);
        let (stopper, stop) = Stopper::new();
        let node = Node::new(tree(), reporter);
        Self {
            lines,
            stopper,
            running: tokio::spawn(run(ensemble.clone(), node, stop)),
        }
    }

    /// In how many lines it has said this.
    fn said(&self, what: &str) -> usize {
        said(&self.lines, what)
    }

    /// Asks it to end, and waits until it has.
    async fn end(self) {
        self.stopper.stop();
        soon("it ends", self.running).await.unwrap();
    }
}

fn said(lines: &Lines, what: &str) -> usize {
    let lines = lines.lock().unwrap();
    lines.iter().filter(|it| it.contains(what)).count()
}

/// Sets how long work takes, and nothing else.
async fn working_for(session: &Session, work: Duration) {
    let settings = Settings {
        work,
        ..Settings::default()
    };
    set(session, &settings).await;
}

async fn set(session: &Session, settings: &Settings) {
    let data = Toml.encode(settings).expect("numbers and times");
    let set = session.create(tree().settings, data).parents().or_set();
    set.await.expect("nothing is in the way");
}

/// Where each task is, as the leading server has it at this moment.
fn places(ensemble: &Ensemble) -> BTreeMap<TaskId, Vec<String>> {
    let tree = ensemble.tree();
    let mut places: BTreeMap<TaskId, Vec<String>> = BTreeMap::new();
    for (path, _) in tree.nodes() {
        if let Some(Ok(task)) = path.name().map(str::parse) {
            places.entry(task).or_default().push(path.to_string());
        }
    }
    places
}

/// How many children a node has.
fn count(ensemble: &Ensemble, path: &NodePath) -> usize {
    let tree = ensemble.tree();
    tree.node(path.as_str())
        .map_or(0, |node| node.children().count())
}

/// Looks until it is so, for at most ten minutes of the simulated time.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            zk_sim::wait::pass(Duration::from_millis(20)).await;
        }
    };
    let looked = tokio::time::timeout(Duration::from_secs(600), looking).await;
    assert!(looked.is_ok(), "waited ten minutes for this: {what}");
}
