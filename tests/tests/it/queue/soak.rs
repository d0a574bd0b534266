//! Many processes on one work queue, killed and paused at random, over servers that are broken at random.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use zk_core::codec::Text;
use zk_harness::nemesis::{Fault, Nemesis, fault_time, tally};
use zk_harness::{DataStore, Ensemble, program_of_next_process};
use zk_history::check::{Delivery, TotalQueue};
use zk_history::{Op, ReturnValue, Run};
use zk_queue::{WorkOptions, WorkQueue};

use crate::lock::observer;

const PATH: &str = "/soak";
const PRODUCERS: usize = 4;
const CONSUMERS: usize = 8;
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// For what takes moments on an idle machine.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// The processes, of which one after the other is replaced.
struct Crew<'a> {
    run: &'a Run,
    connect: String,
    running: Vec<(Child, &'static str)>,
    started: usize,
}

impl Crew<'_> {
    fn start(&mut self, role: &'static str) -> Child {
        self.started += 1;
        let name = format!("{role}{}", self.started);
        let program = Path::new(env!("CARGO_BIN_EXE_queue-worker"));
        Command::new(program_of_next_process(program))
            .args([name.as_str(), &self.connect, PATH])
            .arg(SESSION_TIMEOUT.as_millis().to_string())
            .arg(self.run.history_file(&name))
            .arg(role)
            // It ends with this process, whatever becomes of it.
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program is there")
    }

    /// Kills or pauses one after the other until then, and at least four; returns how often each was done.
    async fn kill_and_pause(
        &mut self,
        until: Instant,
        mut random: fastrand::Rng,
    ) -> (usize, usize) {
        let (mut killed, mut paused) = (0, 0);
        while Instant::now() < until || killed + paused < 4 {
            pass(Duration::from_millis(random.u64(300..2000))).await;
            let at = random.usize(..self.running.len());
            if random.bool() {
                let (child, role) = &mut self.running[at];
                child.kill().await.expect("it runs");
                let role = *role;
                let next = self.start(role);
                self.running[at].0 = next;
                killed += 1;
            } else {
                let id = self.running[at].0.id().expect("it runs");
                let pid = Pid::from_raw(id.cast_signed()).expect("it is above zero");
                kill_process(pid, Signal::STOP).expect("it runs");
                // Now and then longer than its session lives.
                pass(Duration::from_millis(random.u64(200..7000))).await;
                kill_process(pid, Signal::CONT).expect("it runs");
                paused += 1;
            }
        }
        (killed, paused)
    }

    /// Lets all of one role end in order.
    async fn end(&mut self, role: &str) {
        for (child, its) in &mut self.running {
            if *its == role {
                drop(child.stdin.take());
                let ended = tokio::time::timeout(MAX_WAIT, child.wait()).await;
                let status = ended.expect("it ends on command").expect("it ran");
                assert!(status.success(), "a {role} ended with {status}");
            }
        }
    }
}

async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_offer_that_was_acknowledged_is_delivered_whoever_is_killed_or_paused() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .sync_limit(5)
        .proxied(true)
        .start_timeout(Duration::from_secs(180))
        .start()
        .await
        .expect("the servers start");
    let checker = TotalQueue::default().with_delivery(Delivery::AtLeastOnce);
    let run = Run::seeded("queue-soak")
        .unwrap()
        .judged_by(checker)
        .unwrap();
    run.keep_with(ensemble.directories());
    let mut random = fastrand::Rng::with_seed(run.seed());
    let mut crew = Crew {
        run: &run,
        connect: ensemble.connect_string(),
        running: Vec::new(),
        started: 0,
    };
    for role in [
        ["producer"].repeat(PRODUCERS),
        ["consumer"].repeat(CONSUMERS),
    ]
    .concat()
    {
        let child = crew.start(role);
        crew.running.push((child, role));
    }
    let faults = [
        Fault::Kill,
        Fault::Pause,
        Fault::Cut,
        Fault::LoseReply,
        Fault::LoseRequest,
    ];
    let nemesis = Nemesis::new(run.seed())
        .faults(faults)
        .recorder(run.recorder("nemesis").unwrap());
    let lasts = fault_time(Duration::from_secs(8));
    let (struck, (killed, paused)) = tokio::join!(
        nemesis.run(&ensemble, lasts),
        crew.kill_and_pause(Instant::now() + lasts, random.fork()),
    );
    let struck = struck.expect("faults can be made and undone");
    crew.end("producer").await;
    crew.end("consumer").await;

    // Claims of sessions that were killed end by and by.
    let session = observer(&ensemble).await;
    let options = WorkOptions::default().with_max_deliveries(u32::MAX);
    let queue = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
    let recorder = run.recorder("finisher").unwrap();
    let until = Instant::now() + MAX_WAIT;
    loop {
        let pending = recorder.invoke(Op::take(PATH));
        match queue.claim_timeout(Duration::from_secs(1)).await.unwrap() {
            Some(claim) => {
                pending.ok(ReturnValue::items([claim.item().as_str()]));
                claim.acknowledge().await.unwrap();
            }
            None if queue.is_empty().await.unwrap() => {
                pending.ok(ReturnValue::items::<&str>([]));
                break;
            }
            None => pending.failed("somebody has what is left"),
        }
        assert!(Instant::now() < until, "{:?} is left", queue.claims().await);
    }
    assert_eq!(queue.claims().await.unwrap(), []);
    assert_eq!(queue.dead_letters().await.unwrap(), []);
    drop((queue, recorder));

    let seed = run.seed();
    let report = run.finish().unwrap_or_else(|error| panic!("{error}"));
    let counts = &report.verdicts[0].counts;
    println!(
        "seed {seed}: {counts:?}; {killed} processes killed, {paused} paused, servers: {:?}",
        tally(&struck)
    );
    // A slow machine delivers few in that time; none may be lost, and there must be some to judge.
    assert!(counts["delivered"] > 10, "{counts:?}");
    ensemble.down().await.unwrap();
}
