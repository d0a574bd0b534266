//! Queues on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::time::Duration;

use zk_core::Session;
use zk_core::codec::Text;
use zk_core::transport::Request;
use zk_queue::{Layout, Queue, QueueOptions, WorkQueue};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{Ensemble, Scripted, matching};
use zk_testkit::sim::{children, data_of, ephemerals};

mod acknowledgements;
mod application_ids;
mod basic;
mod batches;
mod cancellation;
mod chaos;
mod contention;
mod counts;
mod dead_letters;
mod delays;
mod faults;
mod golden;
mod guarantees;
mod item_ids;
mod joined;
mod layouts;
mod limits;
mod metrics;
mod number_space;
mod other_client;
mod outages;
mod placement;
mod reads;
mod recreated;
mod segments;
mod shared_chaos;
mod shared_work;
mod sizes;
mod streams;
mod time_to_run;
mod transactions;
mod work;
mod worker;

/// The path of the queue of the tests.
const PATH: &str = "/queues/a";

const LAYOUTS: [Layout; 6] = [
    Layout::Recipe,
    Layout::Native,
    Layout::Kazoo,
    Layout::Curator,
    Layout::CuratorPriority,
    Layout::CuratorDelay,
];

fn queue(session: &Session) -> Queue<String> {
    Queue::new(session, PATH, Text).expect("a good path")
}

fn queue_of(session: &Session, layout: Layout) -> Queue<String> {
    queue_with(session, &QueueOptions::default().with_layout(layout))
}

fn queue_with(session: &Session, options: &QueueOptions) -> Queue<String> {
    Queue::with_options(session, PATH, Text, options).expect("a good path")
}

fn work(session: &Session) -> WorkQueue<String> {
    WorkQueue::new(session, PATH, Text).expect("a good path")
}

/// The data of the children of a node, in the order of their names.
fn data(ensemble: &Ensemble, path: &str) -> Vec<String> {
    let paths = children(ensemble, path)
        .into_iter()
        .map(|name| format!("{path}/{name}"));
    let data = paths.map(|path| data_of(ensemble, &path));
    data.map(|data| data.expect("it is listed")).collect()
}

fn text(item: impl std::fmt::Display) -> String {
    format!("{item}")
}

fn texts<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(text).collect()
}

/// Takes one item after the other until there is none.
async fn all(queue: &Queue<String>) -> Vec<String> {
    let mut items = Vec::new();
    while let Some(item) = soon("an item or none", queue.poll())
        .await
        .expect("nothing is in the way")
    {
        items.push(item);
    }
    items
}

/// Matches reads of the data of a path, alone or with others.
fn reads(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    let (one, several) = (matching::gets(pattern), matching::multi_reads(pattern));
    move |request| one(request) || several(request)
}

/// How many nodes at a path were read, also with one request.
fn nodes_read(ensemble: &Ensemble, pattern: &str) -> usize {
    let is_read = reads(pattern);
    let requests = ensemble.requests().into_iter();
    let read = requests.filter(|seen| seen.has_arrived() && is_read(&seen.request));
    read.map(|seen| matching::paths(&seen.request).len()).sum()
}

/// Waits until a script has had its effect.
async fn triggered(script: &Scripted) {
    soon("the script takes effect", async {
        while script.count() == 0 {
            pass(Duration::from_millis(1)).await;
        }
    })
    .await;
}
