//! Several clients on one path, whose processes are killed at random; the operating system judges.

use std::path::Path;
use std::time::Duration;

use zk_harness::nemesis::fault_time;
use zk_harness::program_of_next_process;
use zk_tests::melee::{Fighter, Melee};
use zk_tests::peers::{Curator, Kazoo};

use super::{observer, three_servers, until_empty};

/// Fights it out, and fails if two had the lock at once or something is left.
async fn fight(name: &str, fighters: &[Fighter], parents: &[&str]) {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    // They stay, so that their removal is no part of this.
    for parent in parents {
        session.create(*parent, "").parents().await.unwrap();
    }
    let seed =
        std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    let lasts = fault_time(Duration::from_secs(4));
    let melee = Melee::new(ensemble.connect_string(), "/lock", seed, lasts);
    let outcome = melee.fight(fighters).await;
    let outcome = outcome.unwrap_or_else(|error| panic!("{name}, SEED={seed}: {error:#}"));
    println!("{name}, seed {seed}: {outcome:?}");
    assert_eq!(outcome.overlaps, Vec::<String>::new(), "SEED={seed}");
    for parent in parents {
        until_empty(&session, parent).await;
    }
    ensemble.down().await.unwrap();
}

fn ours(layout: &'static str, role: &'static str) -> Fighter {
    let program = program_of_next_process(Path::new(env!("CARGO_BIN_EXE_melee")));
    Fighter::ours(&program, layout, role)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_holds_among_ours_curator_and_a_kazoo_that_curator_knows() {
    let curator = Curator::find().await.unwrap();
    let kazoo = Kazoo::find().await.unwrap();
    let fighters = [
        ours("curator", "mutex"),
        ours("curator", "mutex"),
        Fighter::curator(&curator, "mutex"),
        Fighter::curator(&curator, "mutex"),
        Fighter::kazoo(&kazoo, "curator"),
    ];
    fight("mutex", &fighters, &["/lock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_writers_of_ours_and_curator_share_as_they_should() {
    let curator = Curator::find().await.unwrap();
    let fighters = [
        ours("curator", "read"),
        ours("curator", "write"),
        ours("curator", "read"),
        Fighter::curator(&curator, "read"),
        Fighter::curator(&curator, "write"),
    ];
    fight("read/write", &fighters, &["/lock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_writers_of_ours_and_writers_of_stock_kazoo_share_as_they_should() {
    let kazoo = Kazoo::find().await.unwrap();
    let fighters = [
        ours("kazoo", "read"),
        ours("kazoo", "write"),
        ours("kazoo", "mutex"),
        // No reader of kazoo's: that of 2.8.0 waits for writers that came after it, and they for it (kazoo#649).
        // And no plain lock of kazoo's, which waits for no reader.
        Fighter::kazoo(&kazoo, "write"),
        Fighter::kazoo(&kazoo, "write"),
    ];
    fight("kazoo", &fighters, &["/lock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_of_ours_and_curators_has_no_more_holders_than_leases() {
    let curator = Curator::find().await.unwrap();
    let fighters = [
        ours("curator", "semaphore-2"),
        ours("curator", "semaphore-2"),
        ours("curator", "semaphore-2"),
        Fighter::curator(&curator, "semaphore-2"),
        Fighter::curator(&curator, "semaphore-2"),
    ];
    let parents = ["/lock/leases", "/lock/locks"];
    fight("semaphore", &fighters, &parents).await;
}
