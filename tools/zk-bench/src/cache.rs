//! Measures the cache: the time to load, the latency and rate of events, and the cost of a read.
//!
//! The reference for the load is to read all nodes with the wire client, by known paths. With `--peers` Curator's
//! `CuratorCache` is measured as well.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use comfy_table::Table;
use futures_util::{StreamExt as _, stream};
use zk_cache::{CacheOptions, Event, Events, TreeCache};
use zk_core::{NodePath, Session};
use zk_tests::peers::{CacheCourse, CacheFigures, Curator, measure_cache};

use crate::environment::Environment;
use crate::fixture::{Fixture, open};
use crate::other_work::WorkMeter;
use crate::round::Latencies;
use crate::settings::Settings;
use crate::table::{Spread, table};
use crate::{baseline, cached};

/// The measurements of all rounds.
#[derive(Debug)]
#[non_exhaustive]
pub struct Results {
    /// The machine and the ensemble.
    pub environment: Environment,
    /// The size of the workload.
    pub course: CacheCourse,
    /// Curator's version, if it was measured.
    pub curator: Option<String>,
    ours: Vec<CacheFigures>,
    theirs: Vec<CacheFigures>,
    /// The times of the plain reads of all nodes, in milliseconds.
    bare: Vec<f64>,
    local: Vec<cached::Figures>,
}

/// Returns the size of the workload for these options.
pub const fn course(settings: Settings) -> CacheCourse {
    let (nodes, sets) = match (settings.smoke, settings.quick) {
        (true, _) => (1_000, 20),
        (_, true) => (5_000, 200),
        _ => (20_000, 1_000),
    };
    CacheCourse {
        nodes,
        directories: 100,
        warm_ups: 2,
        sets,
        burst: if nodes < 20_000 { nodes } else { 20_000 },
        in_flight: 64,
        reads: if settings.smoke { 1_000 } else { 1_000_000 },
    }
}

/// What is measured in each round.
#[derive(Debug, Clone, Copy)]
enum Side {
    Ours,
    Local,
    Bare,
    Curator,
}

/// Measures our cache, the plain reads and, with `--peers`, Curator's cache in turn.
///
/// # Errors
///
/// Those of the caches; also if Curator is missing, or a cache lacks nodes.
pub fn run(fixture: &Fixture, settings: Settings) -> anyhow::Result<Results> {
    let meter = WorkMeter::begin();
    let course = course(settings);
    let curator = if settings.peers && !settings.smoke {
        Some(fixture.run_unlimited("looking for Curator", Curator::find())?)
    } else {
        None
    };
    let address = fixture.servers(1)?.remove(0);
    fixture.run(
        "the preparation",
        prepare(address.clone(), ROOT.to_owned(), course),
    )?;
    fixture.run(
        "the preparation",
        cached::prepare(address.clone(), settings),
    )?;
    let mut local = Vec::new();
    let (mut our_figures, mut theirs, mut bare_millis) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = match (settings.smoke, settings.quick) {
        (true, _) => 1,
        (_, true) => 3,
        _ => 6,
    };
    if !settings.smoke {
        // The servers' JVM compiles what runs often: without a warm-up the first side would be the slowest.
        fixture.run("the warm-up", bare(address.clone(), course))?;
        fixture.run("the warm-up", ours(address.clone(), course))?;
    }
    for round in 0..rounds {
        // Each side is first equally often: what one leaves to the servers and the disk slows the next one.
        let mut sides = [Side::Ours, Side::Local, Side::Bare, Side::Curator];
        if round % 2 == 1 {
            sides.reverse();
        }
        for side in sides {
            match (side, &curator) {
                (Side::Ours, _) => {
                    let figures = fixture.run("our cache", ours(address.clone(), course))?;
                    our_figures.push(figures);
                }
                (Side::Local, _) => {
                    let cached = cached::measure(address.clone(), settings);
                    local.push(fixture.run("the local figures", cached)?);
                }
                (Side::Bare, _) => {
                    let took = fixture.run("the bare reads", bare(address.clone(), course))?;
                    bare_millis.push(took.as_secs_f64() * 1e3);
                }
                (Side::Curator, Some(curator)) => {
                    let measured = measure_cache(curator, &address, ROOT, course);
                    theirs.push(fixture.run_unlimited("Curator's cache", measured)?);
                }
                (Side::Curator, None) => {}
            }
        }
    }
    Ok(Results {
        environment: Environment::of(fixture.ensemble()?, &meter),
        course,
        curator: curator.as_ref().map(Curator::version),
        ours: our_figures,
        theirs,
        bare: bare_millis,
        local,
    })
}

/// Creates the nodes, with 100 bytes each.
pub(crate) async fn prepare(
    address: String,
    root: String,
    course: CacheCourse,
) -> anyhow::Result<()> {
    let session = open(&address).await?;
    session.create(&*root, "").await?;
    for directory in 0..course.directories {
        session.create(format!("{root}/d{directory}"), "").await?;
    }
    let nodes: Vec<_> = (0..course.nodes).collect();
    for chunk in nodes.chunks(500) {
        let mut transaction = session.transaction();
        for node in chunk {
            transaction = transaction.create(course.path(&root, *node), vec![0; 100]);
        }
        transaction.commit().await?;
    }
    session.close().await?;
    Ok(())
}

/// Loads a cache, and lets another session change its nodes.
async fn ours(address: String, course: CacheCourse) -> anyhow::Result<CacheFigures> {
    let (session, writer) = (open(&address).await?, open(&address).await?);
    let options = CacheOptions::default().with_event_buffer(1 << 16);
    let begun = Instant::now();
    let cache = TreeCache::start_with(&session, ROOT, &options)?;
    let snapshot = cache.synchronized().await?;
    let load = begun.elapsed();
    let expected = 1 + course.directories + course.nodes;
    ensure!(
        snapshot.len() == expected,
        "the cache has {} of {expected} nodes",
        snapshot.len()
    );
    let mut events = cache.events_since(&snapshot);
    let latencies = latencies(&writer, &mut events, course).await?;
    let events_per_second = burst(&writer, events, course).await?;
    let read_nanos = reads(&cache, ROOT, course)?;
    let micros = |quantile| latencies.percentile(quantile).as_secs_f64() * 1e6;
    let figures = CacheFigures {
        load_millis: load.as_secs_f64() * 1e3,
        p50_micros: micros(50.0),
        p99_micros: micros(99.0),
        events_per_second,
        read_nanos,
    };
    drop(cache);
    session.close().await?;
    writer.close().await?;
    Ok(figures)
}

/// Measures the time from directly before a change until its event, one change after the other.
async fn latencies(
    writer: &Session,
    events: &mut Events,
    course: CacheCourse,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    for set in 0..course.sets {
        let begun = Instant::now();
        let set = writer.set(course.path(ROOT, set % course.nodes), vec![1; 100]);
        let (set, (event, latency)) = tokio::join!(set.into_future(), async {
            let event = next_change(events).await;
            (event, begun.elapsed())
        });
        set?;
        event?;
        latencies.record(latency);
    }
    Ok(latencies)
}

/// Measures the rate of events for many concurrent changes, each to another node.
async fn burst(writer: &Session, mut events: Events, course: CacheCourse) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let sets = (0..course.burst).map(|node| {
        writer
            .set(course.path(ROOT, node), vec![2; 100])
            .into_future()
    });
    let writing = async {
        let mut sets = stream::iter(sets).buffer_unordered(course.in_flight);
        while let Some(set) = sets.next().await {
            set?;
        }
        anyhow::Ok(())
    };
    let receiving = async {
        for _ in 0..course.burst {
            next_change(&mut events).await?;
        }
        anyhow::Ok(begun.elapsed())
    };
    let ((), took) = tokio::try_join!(writing, receiving)?;
    Ok(per_second(course.burst, took))
}

async fn next_change(events: &mut Events) -> anyhow::Result<()> {
    let next = async {
        loop {
            match events.next().await {
                Some(Event::Changed { .. }) => return Ok(()),
                Some(Event::Synchronized { .. }) => {}
                other => anyhow::bail!("expected a change, but received {other:?}"),
            }
        }
    };
    tokio::time::timeout(MAX_WAIT, next)
        .await
        .with_context(|| format!("no event arrived within {MAX_WAIT:?}"))?
}

/// Measures a read of each node in turn, the paths parsed before.
pub(crate) fn reads(cache: &TreeCache, root: &str, course: CacheCourse) -> anyhow::Result<f64> {
    let paths = paths(root, course)?;
    reads_of_each(&paths, course, |path| {
        let node = cache.get(path)?;
        node.data().map(<[u8]>::len)
    })
}

/// Measures the same reads of a map of the standard library, with the data of the nodes, in the order of the cache.
pub(crate) fn reads_of_map(
    cache: &TreeCache,
    root: &str,
    course: CacheCourse,
) -> anyhow::Result<f64> {
    let snapshot = cache.snapshot();
    let values = snapshot.nodes().map(|node| {
        let data = node.data().unwrap_or_default();
        (node.path().to_owned(), Arc::from(data))
    });
    let map: HashMap<String, Arc<[u8]>> = values.collect();
    reads_of_each(&paths(root, course)?, course, |path| {
        let value = map.get(path.as_str()).cloned()?;
        Some(value.len())
    })
}

fn paths(root: &str, course: CacheCourse) -> anyhow::Result<Vec<NodePath>> {
    let paths = (0..course.nodes).map(|node| course.path(root, node).parse());
    Ok(paths.collect::<Result<_, _>>()?)
}

/// Returns the nanoseconds of a read, which returns the number of bytes.
fn reads_of_each(
    paths: &[NodePath],
    course: CacheCourse,
    read: impl Fn(&NodePath) -> Option<usize>,
) -> anyhow::Result<f64> {
    let mut bytes = 0;
    let mut begun = Instant::now();
    for pass in 0..2 {
        if pass == 1 {
            begun = Instant::now();
        }
        for path in paths.iter().cycle().take(course.reads) {
            bytes += read(path).context("a node is not there")?;
        }
    }
    ensure!(bytes == 200 * course.reads, "{bytes} bytes were read");
    Ok(begun.elapsed().as_secs_f64() * 1e9 / per_second_divisor(course.reads))
}

/// Reads all nodes by their paths, with as many requests in flight as the cache.
async fn bare(address: String, course: CacheCourse) -> anyhow::Result<Duration> {
    let client = baseline::connect(&address).await?;
    let paths: Vec<_> = (0..course.nodes)
        .map(|node| course.path(ROOT, node))
        .collect();
    let begun = Instant::now();
    let reads = paths.into_iter().map(|path| {
        let client = client.clone();
        async move { client.get_data(&path).await }
    });
    let mut reads = stream::iter(reads).buffered(256);
    while let Some(read) = reads.next().await {
        ensure!(read?.0.len() == 100, "a node does not have 100 bytes");
    }
    Ok(begun.elapsed())
}

fn per_second(count: usize, took: Duration) -> f64 {
    per_second_divisor(count) / took.as_secs_f64()
}

/// Converts a count to a divisor.
fn per_second_divisor(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Results {
    /// Formats the figures and the environment in Markdown.
    pub fn section(&self, command: &str) -> String {
        format!(
            "{}- Curator: {}\n- {} nodes of 100 bytes in {} directories, {} rounds\n\n{}\n\n{}\n\n",
            self.environment.describe(command),
            self.curator.as_deref().unwrap_or("not measured"),
            self.course.nodes,
            self.course.directories,
            self.ours.len(),
            self.table(),
            cached::summary(&self.local)
        )
    }

    fn table(&self) -> Table {
        let mut table = table(&[
            "figure",
            "unit",
            "zk-cache",
            "min–max",
            "CuratorCache",
            "min–max",
            "ours is",
            "target",
        ]);
        let rows: [Row; 5] = [
            ("first load", "ms", |it| it.load_millis),
            ("remote set until event, p50", "µs", |it| it.p50_micros),
            ("remote set until event, p99", "µs", |it| it.p99_micros),
            ("events delivered", "/s", |it| it.events_per_second),
            ("read of a cached value", "ns", |it| it.read_nanos),
        ];
        for (name, unit, of) in rows {
            let ours = self.ours.iter().map(of);
            let mut row = vec![name.to_owned(), unit.to_owned()];
            row.extend(shown(Spread::of(ours.clone())));
            if self.theirs.is_empty() {
                row.extend([const { String::new() }; 3]);
            } else {
                let theirs = self.theirs.iter().map(of);
                row.extend(shown(Spread::of(theirs.clone())));
                let ratio = if unit == "/s" {
                    Spread::of_ratios(ours, theirs)
                } else {
                    Spread::of_ratios(theirs, ours)
                };
                row.push(format!("{} × ({})", ratio.middle(2), ratio.range(2)));
            }
            let target = match name {
                "first load" => "≥ 5 ×",
                "remote set until event, p50" => "≥ 1.3 ×",
                "remote set until event, p99" => "≥ 4 ×",
                _ => "",
            };
            row.push(target.to_owned());
            table.add_row(row);
        }
        let mut row = vec!["bare reads of all nodes".to_owned(), "ms".to_owned()];
        row.extend(shown(Spread::of(self.bare.iter().copied())));
        table.add_row(row);
        table
    }
}

/// Name, unit, and the figure.
type Row = (&'static str, &'static str, fn(&CacheFigures) -> f64);

fn shown(spread: Spread) -> [String; 2] {
    [spread.middle(0), spread.range(0)]
}

const ROOT: &str = "/cache";
const MAX_WAIT: Duration = Duration::from_secs(60);
