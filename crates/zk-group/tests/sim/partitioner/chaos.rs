//! Everything at once, at random, by seed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use zk_sim::wait::{pass, until};
use zk_sim::{Chaos, Check, Ensemble};

use super::oracle::{Command, Oracle};
use super::start;

const ITEMS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
/// Two members have the same id.
const IDS: [&str; 4] = ["a", "b", "c", "c"];

/// Members that come and go at random and whose items change, under random faults. No item is owned twice; and after that,
/// each is owned once.
#[test]
fn no_item_is_owned_twice_and_in_the_end_each_is_owned() {
    Check::new(0..60)
        .seeds_from_env()
        .run(async |sim: Ensemble, seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let processes = IDS.map(|_| sim.open_sessions());
            let oracle = Arc::new(Oracle::default());
            let join = |at: usize, random: &mut fastrand::Rng| {
                let member = start(&processes[at], IDS[at], &ITEMS);
                let (sender, commands) = mpsc::unbounded_channel();
                let member = Arc::clone(&oracle).run(member, at, commands, random.fork());
                tokio::spawn(member);
                sender
            };
            let mut members = IDS.map(|_| None);
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(60))
                .every(Duration::from_millis(500));
            let chaos = tokio::spawn(chaos.run(&sim));
            for _ in 0..30 {
                pass(Duration::from_millis(random.u64(0..4000))).await;
                let at = random.usize(..members.len());
                let count = random.usize(4..=ITEMS.len());
                members[at] = match members[at].take() {
                    None => Some(join(at, &mut random)),
                    Some(member) => match random.u8(0..3) {
                        0 => {
                            member.send(Command::SetItems(&ITEMS[..count])).unwrap();
                            Some(member)
                        }
                        1 => {
                            let limit = Duration::from_millis(random.u64(0..1000));
                            member.send(Command::Leave(limit)).unwrap();
                            None
                        }
                        // It is dropped.
                        _ => None,
                    },
                };
            }
            chaos.await.expect("nothing panics there");
            members[3] = None;
            for (at, member) in members.iter_mut().enumerate().take(3) {
                let member = member.get_or_insert_with(|| join(at, &mut random));
                member.send(Command::SetItems(&ITEMS)).unwrap();
            }
            let is_quiet = async || {
                let owners = oracle.owners();
                let count = |member: usize| owners.values().filter(|of| **of == member).count();
                owners.len() == ITEMS.len() && (0..3).all(|member| [2, 3].contains(&count(member)))
            };
            until("each item is owned", is_quiet).await;
        });
}
