//! Everything at once, at random, by seed.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use zk_core::Session;
use zk_discovery::{InstanceChange, InstanceChanges, Registration, WhenTaken};
use zk_sim::wait::{pass, soon};
use zk_sim::{Chaos, Check, Disturbance, Ensemble};

use crate::{instance, known, providers, registered, registry};

/// Registers, changes and unregisters instances at random, with the next session when its own is lost. What it holds at
/// the end it gives back by its sessions.
async fn serve(ensemble: Ensemble, me: usize, mut random: fastrand::Rng, rest: Arc<Barrier>) {
    let mut session: Session = ensemble.connect().await;
    let mut previous = Vec::new();
    let mut held: Vec<Registration<String>> = Vec::new();
    for round in 0..ROUNDS {
        if session.state().is_lost() {
            previous.push(session.id());
            held.clear();
            session = ensemble.connect().await;
        }
        let registry = registry(&session)
            .with_taken(WhenTaken::WaitFor(Duration::from_millis(300)))
            .succeeding(previous.iter().copied());
        // Some ids are wanted by all of them.
        let id = match random.u8(0..3) {
            0 => "shared".to_owned(),
            _ => format!("{me}-{}", random.u8(0..2)),
        };
        let max_wait = Duration::from_micros(random.u64(0..200_000));
        match random.u8(0..8) {
            0..4 => {
                let registering = registry.register(instance(&id, &format!("{me} {round}")));
                // Some are dropped on the way.
                if let Ok(Ok(one)) = tokio::time::timeout(max_wait, registering).await {
                    held.push(one);
                }
            }
            4..6 => {
                if let Some(one) = held.last() {
                    let update = one.set_payload(format!("{me} {round}"));
                    drop(tokio::time::timeout(max_wait, update).await);
                }
            }
            6 => drop((!held.is_empty()).then(|| held.swap_remove(0))),
            _ => {
                if let Some(one) = held.pop() {
                    drop(tokio::time::timeout(max_wait, one.unregister()).await);
                }
            }
        }
        for one in held.extract_if(.., |one| !one.is_registered()) {
            drop(one);
        }
        pass(Duration::from_micros(random.u64(0..100_000))).await;
    }
    // What it holds is compared between the two.
    rest.wait().await;
    rest.wait().await;
}

/// Plays changes and checks that each fits to those before it.
async fn play(mut changes: InstanceChanges<String>, told: &Cell<usize>) -> Vec<(String, String)> {
    let mut list = std::collections::BTreeMap::new();
    while let Some(change) = changes.next().await {
        told.set(told.get() + 1);
        match change {
            InstanceChange::Added(one) => {
                let before = list.insert(one.id().to_owned(), one.payload().clone());
                assert_eq!(before, None, "{one:?} is added twice");
            }
            InstanceChange::Updated { old, new } => {
                let before = list.insert(new.id().to_owned(), new.payload().clone());
                assert_eq!(before.as_ref(), Some(old.payload()), "{new:?}");
            }
            InstanceChange::Removed(one) => {
                let before = list.remove(one.id());
                assert_eq!(before.as_ref(), Some(one.payload()), "{one:?}");
            }
            InstanceChange::Quarantined(entry) => panic!("{entry:?}"),
            _ => {}
        }
    }
    list.into_iter().collect()
}

async fn run(ensemble: Ensemble, seed: u64, told: &Cell<usize>, compared: &Cell<usize>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let watching = ensemble.connect().await;
    let following = providers(&watching);
    let rest = Arc::new(Barrier::new(4));
    let servers: Vec<_> = (0..3)
        .map(|me| {
            tokio::spawn(serve(
                ensemble.clone(),
                me,
                random.fork(),
                Arc::clone(&rest),
            ))
        })
        .collect();
    let chaos = Chaos::default()
        .lasting(Duration::from_secs(4))
        .every(Duration::from_millis(150))
        .longest(Duration::from_secs(3))
        .weight(Disturbance::Expire, 1);
    let playing = play(following.changes(), told);
    let besetting = async {
        let comparing = async {
            soon("all rest", rest.wait()).await;
            pass(Duration::from_secs(10)).await;
            let what = format!("{following:?} knows {:?}", known(&following));
            let same = async {
                while !watching.state().is_lost() && known(&following) != registered(&ensemble) {
                    pass(Duration::from_millis(100)).await;
                }
            };
            soon(&what, same).await;
            compared.set(compared.get() + known(&following).len());
            rest.wait().await;
        };
        tokio::join!(biased; chaos.run_during(&ensemble, servers), comparing);
        // Every handle is dropped: nothing may be left, of whichever session.
        let left = async {
            while !registered(&ensemble).is_empty() {
                pass(Duration::from_millis(100)).await;
            }
        };
        let left = tokio::time::timeout(Duration::from_secs(60), left).await;
        assert!(left.is_ok(), "left: {:?}", registered(&ensemble));
        let settled = async {
            while !watching.state().is_lost() && !known(&following).is_empty() {
                pass(Duration::from_millis(100)).await;
            }
        };
        let settled = tokio::time::timeout(Duration::from_secs(60), settled).await;
        assert!(settled.is_ok(), "known: {:?}", known(&following));
        let last = known(&following);
        drop(following);
        last
    };
    let (played, last) = tokio::join!(biased; playing, besetting);
    assert_eq!(played, last);
}

/// After each rest a consumer has what there is, its changes lead there, and nothing is left of what was dropped,
/// unregistered or lost.
#[test]
fn whatever_happens_consumers_know_what_there_is_and_nothing_is_left() {
    let (told, compared) = (Cell::new(0), Cell::new(0));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| run(ensemble, seed, &told, &compared).await);
    println!(
        "{} changes told, {} instances compared, in {checked}",
        told.get(),
        compared.get()
    );
    assert!(
        checked.seeds == 1 || (told.get() > 20 * checked.seeds && compared.get() > checked.seeds),
        "{} changes and {} instances prove nothing",
        told.get(),
        compared.get()
    );
}

const SEEDS: u64 = 150;
const ROUNDS: usize = 40;
