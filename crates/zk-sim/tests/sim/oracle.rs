//! Operations of `zk-core` under chaos, checked one by one: an acknowledged write is applied once, a refused one is not,
//! an unknown one is applied at most once, and no session reads backwards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use zk_core::{Error, ErrorClass, ErrorKind, Session};
use zk_sim::wait::pass;
use zk_sim::{Chaos, Check, Disturbance, Ensemble};

/// The state of a node with a single writer: its version and data, if it exists.
type State = Option<(i32, String)>;

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestOutcome {
    Done,
    /// Refused by a server, without effect.
    Refused(ErrorKind),
    /// Never applied.
    Undone,
    Unknown,
}

fn outcome<T>(result: &Result<T, Error>) -> RequestOutcome {
    match result {
        Ok(_) => RequestOutcome::Done,
        Err(error) if error.is_outcome_unknown() => RequestOutcome::Unknown,
        Err(error) if error.class() == ErrorClass::Outcome => RequestOutcome::Refused(error.kind()),
        Err(_) => RequestOutcome::Undone,
    }
}

/// The counts of the outcomes.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    refused: usize,
    unknown: usize,
    undone: usize,
}

/// One writer and its node, with all possible states of the node.
struct Writer<'a> {
    session: Session,
    path: String,
    possible: Vec<State>,
    /// The newest change of each node that this session has read.
    newest: BTreeMap<String, i64>,
    /// Each name of a sequential node, and whether it was acknowledged.
    queued: Vec<(String, RequestOutcome)>,
    next: usize,
    tally: &'a RefCell<Tally>,
}

impl Writer<'_> {
    fn data(&mut self) -> String {
        self.next += 1;
        format!("{}:{}", self.path, self.next)
    }

    /// Records a write: `apply` is its effect on a state in which it is possible.
    fn learn<T: std::fmt::Debug>(
        &mut self,
        what: &str,
        result: &Result<T, Error>,
        apply: impl Fn(&State) -> Result<State, ErrorKind>,
    ) {
        let outcome = outcome(result);
        let before = std::mem::take(&mut self.possible);
        let applied = before.iter().filter_map(|state| apply(state).ok());
        let mut tally = self.tally.borrow_mut();
        let mut possible: Vec<State> = match outcome {
            RequestOutcome::Done => {
                tally.done += 1;
                applied.collect()
            }
            RequestOutcome::Refused(kind) => {
                tally.refused += 1;
                let is_it = |state: &&State| apply(state) == Err(kind);
                before.iter().filter(is_it).cloned().collect()
            }
            RequestOutcome::Unknown => {
                tally.unknown += 1;
                before.iter().cloned().chain(applied).collect()
            }
            RequestOutcome::Undone => {
                tally.undone += 1;
                before.clone()
            }
        };
        possible.dedup();
        assert!(
            !possible.is_empty(),
            "{what} of {} cannot be: {result:?} on {before:?}",
            self.path
        );
        self.possible = possible;
    }

    async fn create(&mut self) {
        let data = self.data();
        let result = self
            .session
            .create(&self.path, data.as_str())
            .idempotent()
            .await;
        self.learn("create", &result, |state| match state {
            None => Ok(Some((0, data.clone()))),
            Some(_) => Err(ErrorKind::NodeExists),
        });
    }

    async fn set(&mut self, version: i32) {
        let data = self.data();
        let set = self.session.set(&self.path, data.as_str());
        let result = set.version(version).idempotent().await;
        self.learn("set", &result, |state| match state {
            None => Err(ErrorKind::NoNode),
            Some((at, _)) if *at == version => Ok(Some((version + 1, data.clone()))),
            Some(_) => Err(ErrorKind::BadVersion),
        });
    }

    async fn delete(&mut self) {
        let result = self.session.delete(&self.path).await;
        let is_done = result.is_ok();
        self.learn("delete", &result, |state| match state {
            // A lost reply makes no difference: the node is gone, as intended.
            None if is_done => Ok(None),
            None => Err(ErrorKind::NoNode),
            Some(_) => Ok(None),
        });
    }

    /// Changes the node and another one together or not at all.
    async fn transact(&mut self, version: i32) {
        let data = self.data();
        let name = format!("/marks/{}", data.replace(['/', ':'], "-"));
        let transaction = self
            .session
            .transaction()
            .create(name.as_str(), "")
            .set_version(self.path.as_str(), data.as_str(), version);
        let result = transaction.commit().await;
        self.learn("transaction", &result, |state| match state {
            None => Err(ErrorKind::NoNode),
            Some((at, _)) if *at == version => Ok(Some((version + 1, data.clone()))),
            Some(_) => Err(ErrorKind::BadVersion),
        });
        // A session never reads an older state than before.
        let is_set = self.look().await;
        let is_marked = self.session.exists(name.as_str()).await;
        if let (Ok(mark), Some(state)) = (is_marked, is_set)
            && state.as_ref().is_none_or(|(at, _)| *at <= version + 1)
        {
            let is_set = state.is_some_and(|(_, found)| found == data);
            assert_eq!(mark.is_some(), is_set, "half of a transaction: {name}");
        }
    }

    async fn enqueue(&mut self) {
        self.next += 1;
        let name = format!("{}-{}-", self.path.replace('/', ""), self.next);
        let create = self.session.create(format!("/queue/{name}"), "");
        let create = create.sequential();
        let result = if fastrand::bool() {
            create.protected().await
        } else {
            create.await
        };
        self.queued.push((name, outcome(&result)));
    }

    /// Reads the node from a server that has caught up: it must be in a possible state, which is the only possible one from then on.
    async fn look(&mut self) -> Option<State> {
        let path = self.path.clone();
        self.session.sync(&path).with_quorum().await.ok()?;
        let found = match self.session.get(&path).await {
            Ok((data, stat)) => Some((stat.version, String::from_utf8(data.into()).unwrap())),
            Err(error) if error.is_no_node() => None,
            Err(_) => return None,
        };
        assert!(
            self.possible.contains(&found),
            "{path} is {found:?}, and could only be {:?}",
            self.possible
        );
        self.possible = vec![found.clone()];
        Some(found)
    }

    /// Reads another writer's node without a sync: the result may be old, but not older than an earlier read.
    async fn glance(&mut self, path: &str) {
        let Ok((_, stat)) = self.session.get(path).await else {
            return;
        };
        let newest = self.newest.entry(path.to_owned()).or_default();
        assert!(
            stat.mzxid >= *newest,
            "{path} of {:#x} is read after {newest:#x}",
            stat.mzxid
        );
        *newest = stat.mzxid;
    }

    fn known_version(&self) -> i32 {
        let first = self.possible.first().cloned().flatten();
        first.map_or(0, |(version, _)| version)
    }

    async fn write(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let version = self.known_version();
            match fastrand::u8(0..10) {
                0 | 1 => self.create().await,
                2..4 => self.set(version).await,
                4 => self.set(version + 1).await,
                5 => self.delete().await,
                6 => self.transact(version).await,
                7 => self.enqueue().await,
                8 => drop(self.look().await),
                _ => {
                    let other = fastrand::usize(0..WRITERS);
                    self.glance(&format!("/node-{other}")).await;
                }
            }
            pass(Duration::from_millis(fastrand::u64(0..60))).await;
        }
    }
}

async fn run(ensemble: Ensemble, tally: &RefCell<Tally>) {
    let session = ensemble.connect().await;
    for path in ["/queue", "/marks"] {
        session.create(path, "").await.unwrap();
    }
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(Writer {
            session: ensemble.connect().await,
            path: format!("/node-{number}"),
            possible: vec![None],
            newest: BTreeMap::new(),
            queued: Vec::new(),
            next: 0,
            tally,
        });
    }
    let chaos = Chaos::default()
        .lasting(Duration::from_secs(3))
        .every(Duration::from_millis(60))
        .longest(Duration::from_secs(12))
        .weight(Disturbance::Expire, 1);
    let disturbing = tokio::spawn(chaos.run(&ensemble));
    let all = writers.iter_mut().map(|writer| writer.write(ROUNDS));
    futures_util::future::join_all(all).await;
    disturbing.await.unwrap();
    for writer in &writers {
        tokio::select! {
            biased;
            () = writer.session.settled() => {}
            _ = writer.session.lost() => {}
        }
    }
    // End all delays.
    pass(Duration::from_secs(30)).await;
    let tree = ensemble.tree();
    for writer in &writers {
        let found = tree.node(&writer.path).map(|node| {
            let data = String::from_utf8(node.data().to_vec()).unwrap();
            (node.stat().version, data)
        });
        assert!(
            writer.possible.contains(&found),
            "{} ends as {found:?}, and could only be {:?}",
            writer.path,
            writer.possible
        );
        for (name, outcome) in &writer.queued {
            let queue = tree.node("/queue").unwrap();
            let count = queue
                .children()
                .filter(|child| child.contains(name))
                .count();
            let expected = match outcome {
                RequestOutcome::Done => 1..2,
                RequestOutcome::Refused(_) | RequestOutcome::Undone => 0..1,
                RequestOutcome::Unknown => 0..2,
            };
            assert!(
                expected.contains(&count),
                "{name}: {outcome:?}, {count} times"
            );
        }
    }
}

#[test]
fn what_is_acknowledged_is_done_once_and_what_is_refused_is_not_done() {
    let tally = RefCell::default();
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, _| run(ensemble, &tally).await);
    println!("{:?} in {checked}", tally.borrow());
    let tally = tally.into_inner();
    assert!(
        checked.seeds == 1
            || (tally.unknown > 100 && tally.done > 10_000 && tally.refused > 10_000),
        "{tally:?} proves nothing"
    );
}

const SEEDS: u64 = 1000;
const WRITERS: usize = 4;
const ROUNDS: usize = 25;
