//! Measures the cost of an id: ours, and with `--peers` those of other crates.

use std::hint::spin_loop;
use std::time::{Duration, SystemTime};

use ferroid::generator::{
    AtomicSnowflakeGenerator, BasicSnowflakeGenerator, LockSnowflakeGenerator,
};
use ferroid::id::SnowflakeTwitterId;
use ferroid::time::{MonotonicClock, TWITTER_EPOCH};
use free::FreeId;
use snowflake::SnowflakeIdGenerator;
use zk_bench::ids::{OURS, Series, alone, run, section, shared};
use zk_bench::{Settings, WorkMeter, publish};
use zk_id::{Generator, Id, Layout, NextError, SystemClock};

mod free {
    ferroid::define_snowflake_id!(
        /// More ids per millisecond than any generator creates.
        FreeId, u64,
        reserved: 1,
        timestamp: 41,
        machine_id: 0,
        sequence: 22
    );
}

fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let meter = WorkMeter::begin();
    // For the task that reads the clock.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()?;
    let _entered = runtime.enter();
    let mut series = vec![Series::new("one read of the clock", "std", |ids| {
        alone(ids, SystemTime::now)
    })];
    series.extend(cost_alone(settings.peers || settings.smoke));
    series.extend(cost_shared(settings.peers || settings.smoke));
    series.extend(cap_alone(settings.peers || settings.smoke));
    series.extend(cap_shared(settings.peers || settings.smoke));
    let (rounds, time) = match (settings.smoke, settings.quick) {
        (true, _) => (0, Duration::from_micros(10)),
        (_, true) => (3, Duration::from_millis(100)),
        _ => (9, Duration::from_millis(800)),
    };
    run(&mut series, rounds, time);
    let text = section(&settings.command("id"), meter.read([]), &series);
    publish(settings, "id", &text)
}

/// With 22 bits of sequence, so that no generator waits.
fn cost_alone(peers: bool) -> Vec<Series> {
    const QUESTION: &str = "cost, 1 thread";
    let ours = Generator::spawn(FREE, 0, SystemClock::default());
    let mine = ours.clone();
    let mut series = vec![
        Series::new(QUESTION, OURS, move |ids| alone(ids, || one(&ours))),
        Series::new(QUESTION, "zk-id, runs of 64", move |ids| {
            alone(ids / 64, || many(&mine))
        }),
    ];
    if peers {
        let atomic = AtomicSnowflakeGenerator::<FreeId, _>::new(0, clock());
        let basic = BasicSnowflakeGenerator::<FreeId, _>::new(0, clock());
        series.extend([
            Series::new(QUESTION, "ferroid, atomic", move |ids| {
                alone(ids, || atomic.next_id(|_| spin_loop()))
            })
            .peer(),
            Series::new(QUESTION, "ferroid, not for several threads", move |ids| {
                alone(ids, || basic.next_id(|_| spin_loop()))
            }),
        ]);
    }
    series
}

fn cost_shared(peers: bool) -> Vec<Series> {
    const QUESTION: &str = "cost, 2 threads";
    let ours = Generator::spawn(FREE, 0, SystemClock::default());
    let mine = ours.clone();
    let mut series = vec![
        Series::new(QUESTION, OURS, move |ids| shared(2, ids, || one(&ours))),
        Series::new(QUESTION, "zk-id, runs of 64", move |ids| {
            shared(2, ids / 64, || many(&mine))
        }),
    ];
    if peers {
        let atomic = AtomicSnowflakeGenerator::<FreeId, _>::new(0, clock());
        let locked = LockSnowflakeGenerator::<FreeId, _>::new(0, clock());
        series.extend([
            Series::new(QUESTION, "ferroid, atomic", move |ids| {
                shared(2, ids, || atomic.next_id(|_| spin_loop()))
            })
            .peer(),
            Series::new(QUESTION, "ferroid, lock", move |ids| {
                shared(2, ids, || locked.try_next_id(|_| spin_loop()))
            })
            .peer(),
        ]);
    }
    series
}

/// With 12 bits of sequence, which limits any generator to one id in 244 ns.
fn cap_alone(peers: bool) -> Vec<Series> {
    const QUESTION: &str = "41/10/12 bits, 1 thread";
    let ours = Generator::spawn(Layout::TWITTER, 1, SystemClock::default());
    let mut series = vec![Series::new(QUESTION, OURS, move |ids| {
        alone(ids, || one(&ours))
    })];
    if peers {
        let atomic = AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, clock());
        let flaked = snowflaked::sync::Generator::new(1);
        let mut own = snowflaked::Generator::new(1);
        let mut real = SnowflakeIdGenerator::new(1, 1);
        let mut lazy = SnowflakeIdGenerator::new(1, 1);
        series.extend([
            Series::new(QUESTION, "ferroid, atomic", move |ids| {
                alone(ids, || atomic.next_id(|_| spin_loop()))
            })
            .peer(),
            Series::new(QUESTION, "snowflaked, sync", move |ids| {
                alone(ids, || flaked.generate::<i64>())
            })
            .peer(),
            Series::new(
                QUESTION,
                "snowflaked, not for several threads",
                move |ids| alone(ids, || own.generate::<i64>()),
            )
            .peer(),
            Series::new(
                QUESTION,
                "rs-snowflake, not for several threads",
                move |ids| alone(ids, || real.real_time_generate()),
            )
            .peer(),
            Series::new(
                QUESTION,
                "rs-snowflake, lazy: runs ahead of the clock",
                move |ids| alone(ids, || lazy.lazy_generate()),
            ),
        ]);
    }
    series
}

fn cap_shared(peers: bool) -> Vec<Series> {
    const QUESTION: &str = "41/10/12 bits, 2 threads";
    let ours = Generator::spawn(Layout::TWITTER, 1, SystemClock::default());
    let mut series = vec![Series::new(QUESTION, OURS, move |ids| {
        shared(2, ids, || one(&ours))
    })];
    if peers {
        let atomic = AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, clock());
        let locked = LockSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, clock());
        let flaked = snowflaked::sync::Generator::new(1);
        series.extend([
            Series::new(QUESTION, "ferroid, atomic", move |ids| {
                shared(2, ids, || atomic.next_id(|_| spin_loop()))
            })
            .peer(),
            Series::new(QUESTION, "ferroid, lock", move |ids| {
                shared(2, ids, || locked.try_next_id(|_| spin_loop()))
            })
            .peer(),
            Series::new(QUESTION, "snowflaked, sync", move |ids| {
                shared(2, ids, || flaked.generate::<i64>())
            })
            .peer(),
        ]);
    }
    series
}

/// Creates an id as the peers do: spins until one is available.
fn one(ids: &Generator) -> Id {
    loop {
        match ids.try_next() {
            Ok(id) => return id,
            Err(NextError::TimeUnitExhausted { .. }) => spin_loop(),
            Err(error) => panic!("the clock went back? {error}"),
        }
    }
}

/// Creates 64 ids and returns their sum, so that the compiler keeps each.
fn many(ids: &Generator) -> u64 {
    let mut left = 64;
    let mut sum = 0_u64;
    while left > 0 {
        match ids.try_next_many(left) {
            Ok(run) => {
                left -= run.len();
                sum = run.fold(sum, |sum, id| sum.wrapping_add(id.as_u64()));
            }
            Err(NextError::TimeUnitExhausted { .. }) => spin_loop(),
            Err(error) => panic!("the clock went back? {error}"),
        }
    }
    sum
}

fn clock() -> MonotonicClock {
    MonotonicClock::with_epoch(TWITTER_EPOCH)
}

const FREE: Layout = Layout::new(41, 0, 22, Layout::TWITTER.epoch());
