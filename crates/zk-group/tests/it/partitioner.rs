//! Partitioners on real servers, whose sessions expire and whose connections are cut.

use std::array;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use zk_core::{RetryPolicy, Session, Sessions};
use zk_fault_proxy::{Clients, Close, Route};
use zk_group::partitioner::{Partitioner, PartitionerOptions};
use zk_harness::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::oracle::{Command, Oracle};

const MEMBERS: usize = 8;
const ITEMS: [&str; 20] = [
    "00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15",
    "16", "17", "18", "19",
];
const SETTLE: Duration = Duration::from_millis(100);
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

fn start(sessions: &Sessions, id: &str) -> Partitioner {
    let options = PartitionerOptions::default().with_settle_time(SETTLE);
    let none = [""; 0];
    Partitioner::start_with(sessions, "/shards", id, none, options).expect("good arguments")
}

fn sessions(ensemble: &Ensemble) -> Sessions {
    let builder = Session::builder(ensemble.connect_string()).session_timeout(SESSION_TIMEOUT);
    builder.sessions(RetryPolicy::constant(Duration::from_millis(50)))
}

/// Changes the members so many times, and checks every tenth time that each item gets one owner.
async fn change_members(changes: usize) {
    let ensemble = Ensemble::builder().servers(3).proxied(true);
    let ensemble = ensemble.start().await.expect("three servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let oracle = Arc::new(Oracle::default());
    let processes: [Sessions; MEMBERS] = array::from_fn(|_| sessions(&ensemble));
    let mut members: [Option<mpsc::UnboundedSender<Command>>; MEMBERS] = array::from_fn(|_| None);
    let mut random = fastrand::Rng::with_seed(7);
    let mut expired = 0;
    for change in 1..=changes {
        let at = random.usize(..MEMBERS);
        let session = soon("there is a session", processes[at].session());
        let session = session.await.unwrap();
        members[at] = match (members[at].take(), random.u8(0..4)) {
            (None, _) => {
                let (sender, commands) = mpsc::unbounded_channel();
                sender.send(Command::SetItems(&ITEMS)).unwrap();
                let member = start(&processes[at], &at.to_string());
                let member = Arc::clone(&oracle).run(member, at, commands, random.fork());
                tokio::spawn(member);
                Some(sender)
            }
            (Some(member), 0) => {
                let limit = Duration::from_millis(random.u64(0..100));
                member.send(Command::Leave(limit)).unwrap();
                None
            }
            // It is dropped.
            (Some(_), 1) => None,
            (member, _) => {
                // Until its session has expired. A session that another client ends at once is no test: its locks do not
                // promise to be lost before they are granted again.
                expired += 1;
                let clients = Clients::Session(session.id().as_i64());
                proxy.route(clients, Route::Refuse).unwrap();
                proxy.cut(clients, Close::Rst).await;
                member
            }
        };
        let cut = soon(
            "there is a session",
            processes[random.usize(..MEMBERS)].session(),
        );
        let cut = Clients::Session(cut.await.unwrap().id().as_i64());
        proxy.cut(cut, Close::Rst).await;
        // Often before the group has settled.
        pass(Duration::from_millis(random.u64(0..200))).await;
        if change % 10 == 0 && members.iter().any(Option::is_some) {
            soon("each item has one owner", all_owned(&oracle, &members)).await;
        }
    }
    println!("{changes} changes, of which {expired} cut-off sessions");
    assert!(expired > changes / 10, "it proves too little");
    drop(members);
    let none = async {
        while !oracle.owners().is_empty() {
            pass(Duration::from_millis(20)).await;
        }
    };
    soon("all is released", none).await;
    ensemble.down().await.expect("the servers go down");
}

/// Waits until each item has one owner, and the owners' shares are equal.
async fn all_owned<T>(oracle: &Oracle, members: &[Option<T>]) {
    let present: BTreeSet<_> = (0..members.len())
        .filter(|at| members[*at].is_some())
        .collect();
    let fewest = ITEMS.len() / present.len();
    loop {
        let owners = oracle.owners();
        let count = |member: &usize| owners.values().filter(|of| *of == member).count();
        let are_equal = present
            .iter()
            .map(count)
            .all(|count| count.abs_diff(fewest) <= 1);
        if owners.len() == ITEMS.len()
            && are_equal
            && owners.values().all(|of| present.contains(of))
        {
            return;
        }
        pass(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_item_is_owned_twice_over_forty_changes_of_members() {
    change_members(40).await;
}

mod deep {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn no_item_is_owned_twice_over_1000_changes_of_members() {
        change_members(1_000).await;
    }
}
