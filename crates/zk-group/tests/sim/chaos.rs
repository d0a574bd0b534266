//! Everything at once, at random, by seed.

use std::time::Duration;

use zk_sim::wait::{pass, soon};
use zk_sim::{Chaos, Check, Ensemble};

use crate::{join, joined, shows};

/// Members that join, write and leave at random, under random faults. After that, every view shows the same.
#[test]
fn after_any_faults_all_views_show_the_members() {
    Check::new(0..60)
        .seeds_from_env()
        .run(async |sim: Ensemble, seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let processes: Vec<_> = (0..3).map(|_| sim.open_sessions()).collect();
            let mut members: Vec<_> = (0..3).map(|_| None).collect();
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(20))
                .every(Duration::from_millis(300));
            let chaos = tokio::spawn(chaos.run(&sim));
            for round in 0..60 {
                pass(Duration::from_millis(random.u64(0..700))).await;
                let at = random.usize(0..3);
                // Two of them want the same id.
                let id = ["a", "b", "b"][at];
                let limit = Duration::from_millis(random.u64(0..1000));
                match (members[at].take(), random.u8(0..4)) {
                    (None, _) => members[at] = Some(join(&processes[at], id, &round.to_string())),
                    (Some(member), 0) => drop(member),
                    (Some(member), 1) => drop(tokio::time::timeout(limit, member.leave()).await),
                    (Some(member), _) => {
                        let setting = member.set_payload(round.to_string());
                        drop(tokio::time::timeout(limit, setting).await);
                        members[at] = Some(member);
                    }
                }
            }
            chaos.await.expect("nothing panics there");
            members[2] = None;
            for at in 0..2 {
                members[at].get_or_insert_with(|| join(&processes[at], ["a", "b"][at], "end"));
            }
            let mut last = Vec::new();
            for member in members.iter().flatten() {
                joined(member).await;
                soon("it is written", member.set_payload("last"))
                    .await
                    .unwrap();
            }
            for member in members.iter().flatten() {
                let all_written = member
                    .group()
                    .wait_for(|now| now.len() == 2 && now.iter().all(|one| one.payload == "last"));
                soon("all is seen", all_written).await.unwrap();
                last.push(shows(member.group(), &["a", "b"]).await);
            }
            assert_eq!(last[0], last[1]);
        });
}
