//! The lock next to Curator's: both on the same server, one after the other, several times.

use std::time::Duration;

use anyhow::Context as _;
use zk_lock::FairLock;
use zk_tests::peers::Curator;
use zk_tests::peers::CuratorBench;
use zk_tests::peers::Measured;
use zk_tests::peers::Workload;

use crate::lock;
use crate::round::Round;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::standing::Standing;
use crate::standing::against_peer;

/// Finds Curator, or provisions it.
///
/// # Errors
///
/// What was tried and is missing.
pub fn curator(stage: &Stage) -> anyhow::Result<Curator> {
    stage.run_unlimited("looking for Curator", Curator::find())
}

/// Measures the lock and Curator's mutex alternately, alone and with so many sessions.
///
/// Curator places its sessions at random, so all sessions of both are with one server here; the rates are not to be
/// compared with those of groups whose sessions are spread.
///
/// # Errors
///
/// Those of either lock.
pub fn compare(
    stage: &Stage,
    settings: Settings,
    curator: &Curator,
    contenders: &[usize],
) -> anyhow::Result<Vec<Standing>> {
    let (rounds, warm_up, measure) = if settings.quick {
        (1, Duration::from_millis(1500), Duration::from_millis(1500))
    } else {
        (3, Duration::from_secs(4), Duration::from_secs(4))
    };
    let mut alone = Vec::new();
    let mut standings = Vec::new();
    for &sessions in contenders {
        let one_server = stage.servers(1)?.remove(0);
        let path = format!("/peers/{sessions}");
        let locks = stage.run(
            "the preparation",
            lock::handles(vec![one_server.clone(); sessions], format!("{path}/ours")),
        )?;
        let mut together = Vec::new();
        for _ in 0..rounds {
            let mut bench = CuratorBench::new();
            bench.warm_up = warm_up;
            bench.measure = measure;
            bench.sessions = u32::try_from(sessions)?;
            bench.threads = 1;
            let theirs = {
                let (curator, connect, path) = (
                    curator.clone(),
                    one_server.clone(),
                    format!("{path}/curator"),
                );
                stage.run_unlimited("Curator", async move {
                    bench.run(&curator, &connect, &path).await
                })?
            };
            let single = ours(stage, &locks[..1], measure)?;
            alone.push((single, of(&theirs, Workload::Uncontended)?));
            let several = ours(stage, &locks, measure)?;
            together.push((several, of(&theirs, Workload::Sessions)?));
        }
        let group = format!("peers/contention/{sessions}");
        standings.extend(against_peer(
            &group,
            "hand-overs",
            ["lock", "curator"],
            &together,
        ));
    }
    let mut all = Vec::from(against_peer(
        "peers/uncontended",
        "acquire + release",
        ["lock", "curator"],
        &alone,
    ));
    all.append(&mut standings);
    Ok(all)
}

/// A round of ours of about that length, after a short one that tells how many operations it is to have.
fn ours(stage: &Stage, locks: &[FairLock], measure: Duration) -> anyhow::Result<Round> {
    let round = |operations| {
        let locks = locks.to_vec();
        stage.run("the lock", async move {
            match <[FairLock; 1]>::try_from(locks) {
                Ok([alone]) => lock::acquire_release(alone, operations).await,
                Err(locks) => lock::contend(locks, operations).await,
            }
        })
    };
    let rate = round(TRIAL)?.rate();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some thousands"
    )]
    round((rate * measure.as_secs_f64()).max(1.0) as u64)
}

fn of(measured: &[Measured], workload: Workload) -> anyhow::Result<Measured> {
    let found = measured.iter().find(|one| one.workload == workload);
    found
        .cloned()
        .with_context(|| format!("Curator said nothing of {workload:?}"))
}

/// Operations of the round that only tells how long the next one is to be.
const TRIAL: u64 = 300;
