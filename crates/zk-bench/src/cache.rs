//! The cache: how long it takes to load, how soon it tells, how much, and what a read of it costs.
//!
//! Next to it are the reads of all nodes on the wire client, by paths that are known: what a load costs at least; and
//! with the peers Curator's `CuratorCache`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::ensure;
use comfy_table::Table;
use futures_util::StreamExt as _;
use futures_util::stream;
use zk_cache::CacheOptions;
use zk_cache::Event;
use zk_cache::Events;
use zk_cache::TreeCache;
use zk_core::NodePath;
use zk_core::Session;
use zk_tests::peers::CacheCourse;
use zk_tests::peers::CacheFigures;
use zk_tests::peers::Curator;
use zk_tests::peers::measure_cache;

use crate::facts::Facts;
use crate::other_work::WorkMeter;
use crate::report;
use crate::report::markdown;
use crate::round::Latencies;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::standing::Spread;
use crate::wire;

/// What all rounds came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Results {
    /// The machine and the ensemble.
    pub facts: Facts,
    /// On how much it was measured.
    pub course: CacheCourse,
    /// Curator's version, if it took part.
    pub curator: Option<String>,
    ours: Vec<CacheFigures>,
    theirs: Vec<CacheFigures>,
    /// Milliseconds that the bare reads of all nodes took.
    bare: Vec<f64>,
}

/// How much is measured: little for a first look, next to nothing to see that it works.
pub const fn course(settings: Settings) -> CacheCourse {
    let (nodes, sets) = match (settings.smoke, settings.quick) {
        (true, _) => (1_000, 20),
        (_, true) => (5_000, 200),
        _ => (50_000, 1_000),
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

/// Measures ours, the bare reads and, if asked for, Curator's, in turns.
///
/// # Errors
///
/// Those of the caches; that Curator is not there; and that a cache has not what it should have.
pub fn run(stage: &Stage, settings: Settings) -> anyhow::Result<Results> {
    let meter = WorkMeter::begin();
    let course = course(settings);
    let curator = if settings.peers && !settings.smoke {
        Some(stage.run_unlimited("looking for Curator", Curator::find())?)
    } else {
        None
    };
    let address = stage.servers(1)?.remove(0);
    stage.run("the preparation", prepare(address.clone(), course))?;
    let (mut our_figures, mut theirs, mut bare_millis) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = match (settings.smoke, settings.quick) {
        (true, _) => 1,
        (_, true) => 3,
        _ => 5,
    };
    if !settings.smoke {
        // The servers compile what runs often: whoever went first would be the slowest.
        stage.run("the warm-up", bare(address.clone(), course))?;
        stage.run("the warm-up", ours(address.clone(), course))?;
    }
    for _ in 0..rounds {
        let figures = stage.run("our cache", ours(address.clone(), course))?;
        our_figures.push(figures);
        let took = stage.run("the bare reads", bare(address.clone(), course))?;
        bare_millis.push(took.as_secs_f64() * 1e3);
        if let Some(curator) = &curator {
            let measured = measure_cache(curator, &address, ROOT, course);
            theirs.push(stage.run_unlimited("Curator's cache", measured)?);
        }
    }
    Ok(Results {
        facts: Facts::of(stage.ensemble()?, &meter),
        course,
        curator: curator.as_ref().map(Curator::version),
        ours: our_figures,
        theirs,
        bare: bare_millis,
    })
}

/// Makes the nodes, each with a hundred bytes.
async fn prepare(address: String, course: CacheCourse) -> anyhow::Result<()> {
    let session = connect(&address).await?;
    session.create(ROOT, "").await?;
    for directory in 0..course.directories {
        session.create(format!("{ROOT}/d{directory}"), "").await?;
    }
    let nodes: Vec<_> = (0..course.nodes).collect();
    for chunk in nodes.chunks(500) {
        let mut transaction = session.transaction();
        for node in chunk {
            transaction = transaction.create(course.path(ROOT, *node), vec![0; 100]);
        }
        transaction.commit().await?;
    }
    session.close().await?;
    Ok(())
}

/// Loads a cache, and lets another session change what is in it.
async fn ours(address: String, course: CacheCourse) -> anyhow::Result<CacheFigures> {
    let (session, writer) = (connect(&address).await?, connect(&address).await?);
    let options = CacheOptions::default().with_event_buffer(1 << 16);
    let begun = Instant::now();
    let cache = TreeCache::start_with(&session, ROOT, &options)?;
    let snapshot = cache.synchronized().await?;
    let load = begun.elapsed();
    let expected = 1 + course.directories + course.nodes;
    ensure!(
        snapshot.len() == expected,
        "{} nodes are cached of {expected}",
        snapshot.len()
    );
    let mut events = cache.events_since(&snapshot);
    let latencies = latencies(&writer, &mut events, course).await?;
    let events_per_second = burst(&writer, events, course).await?;
    let read_nanos = reads(&cache, course)?;
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

/// One change after the other, each from just before it until it is told.
async fn latencies(
    writer: &Session,
    events: &mut Events,
    course: CacheCourse,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    for set in 0..course.sets {
        let begun = Instant::now();
        let set = writer.set(course.path(ROOT, set % course.nodes), vec![1; 100]);
        let (set, told) = tokio::join!(set.into_future(), async {
            let told = next_change(events).await;
            (told, begun.elapsed())
        });
        set?;
        told.0?;
        latencies.record(told.1);
    }
    Ok(latencies)
}

/// Many changes at once, each to another node.
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
    let telling = async {
        for _ in 0..course.burst {
            next_change(&mut events).await?;
        }
        anyhow::Ok(begun.elapsed())
    };
    let ((), took) = tokio::try_join!(writing, telling)?;
    Ok(per_second(course.burst, took))
}

async fn next_change(events: &mut Events) -> anyhow::Result<()> {
    let next = async {
        loop {
            match events.next().await {
                Some(Event::Changed { .. }) => return Ok(()),
                Some(Event::Synchronized { .. }) => {}
                other => anyhow::bail!("{other:?} was told in place of a change"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, next)
        .await
        .with_context(|| format!("no change was told within {PATIENCE:?}"))?
}

fn reads(cache: &TreeCache, course: CacheCourse) -> anyhow::Result<f64> {
    let paths: Vec<NodePath> = (0..course.nodes)
        .map(|node| course.path(ROOT, node).parse())
        .collect::<Result<_, _>>()?;
    let mut bytes = 0;
    let mut begun = Instant::now();
    for pass in 0..2 {
        if pass == 1 {
            begun = Instant::now();
        }
        for path in paths.iter().cycle().take(course.reads) {
            let node = cache.get(path).context("a node is not cached")?;
            bytes += node.data().map_or(0, <[u8]>::len);
        }
    }
    ensure!(bytes == 200 * course.reads, "{bytes} bytes were read");
    Ok(begun.elapsed().as_secs_f64() * 1e9 / per_second_divisor(course.reads))
}

/// The reads of all nodes by their paths, as many at once as the cache has.
async fn bare(address: String, course: CacheCourse) -> anyhow::Result<Duration> {
    let client = wire::connect(&address).await?;
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
        ensure!(read?.0.len() == 100, "a node has other data");
    }
    Ok(begun.elapsed())
}

async fn connect(address: &str) -> anyhow::Result<Session> {
    let session = Session::builder(address)
        .session_timeout(wire::SESSION_TIMEOUT)
        .operation_timeout(PATIENCE);
    Ok(session.connect().await?)
}

fn per_second(count: usize, took: Duration) -> f64 {
    per_second_divisor(count) / took.as_secs_f64()
}

/// A count as a number to divide by.
fn per_second_divisor(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Results {
    /// The figures in Markdown, with what they depend on.
    pub fn section(&self, command: &str) -> String {
        let mut text = String::new();
        if self.facts.other_work.is_too_much() {
            text += "**The machine had other work while this ran: not to be kept.**\n\n";
        }
        let curator = self.curator.as_deref().unwrap_or("did not take part");
        let _ = writeln!(
            text,
            "- command: `{command}`\n- machine: {}; clients and servers share it\n- system: {}; other work: {}\n\
             - ensemble: {}; data: {}\n- Curator: {curator}\n- {} nodes of 100 bytes in {} directories, {} rounds\n",
            self.facts.machine,
            self.facts.system,
            self.facts.other_work,
            self.facts.ensemble,
            self.facts.data,
            self.course.nodes,
            self.course.directories,
            self.ours.len()
        );
        let _ = writeln!(text, "{}\n", self.table());
        text
    }

    fn table(&self) -> Table {
        let mut table = markdown(&[
            "figure",
            "unit",
            "zk-cache",
            "min–max",
            "CuratorCache",
            "min–max",
            "ours is",
            "to reach",
        ]);
        let rows: [Row; 5] = [
            ("first load", "ms", |it| it.load_millis, false, "≥ 2 ×"),
            (
                "remote set until told, p50",
                "µs",
                |it| it.p50_micros,
                false,
                "",
            ),
            (
                "remote set until told, p99",
                "µs",
                |it| it.p99_micros,
                false,
                "",
            ),
            ("events told", "/s", |it| it.events_per_second, true, ""),
            (
                "read of a cached value",
                "ns",
                |it| it.read_nanos,
                false,
                "",
            ),
        ];
        for (name, unit, of, is_rate, least) in rows {
            let ours = Spread::of(self.ours.iter().map(of));
            let mut row = vec![name.to_owned(), unit.to_owned()];
            row.extend(shown(ours));
            if self.theirs.is_empty() {
                row.extend([String::new(), String::new(), String::new()]);
            } else {
                row.extend(shown(Spread::of(self.theirs.iter().map(of))));
                let pairs = self.ours.iter().zip(&self.theirs);
                let ratio = Spread::of(pairs.map(|(ours, theirs)| {
                    let ratio = of(ours) / of(theirs);
                    if is_rate { ratio } else { 1.0 / ratio }
                }));
                row.push(format!(
                    "{:.2} × ({:.2}–{:.2})",
                    ratio.median, ratio.min, ratio.max
                ));
            }
            row.push(least.to_owned());
            table.add_row(row);
        }
        let mut row = vec!["bare reads of all nodes".to_owned(), "ms".to_owned()];
        row.extend(shown(Spread::of(self.bare.iter().copied())));
        table.add_row(row);
        table
    }

    /// Puts the figures into the repository's `BENCHMARKS.md`, in place of those of an earlier run.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, or has no place for them.
    pub fn write(&self, root: &Path, command: &str) -> anyhow::Result<()> {
        report::put(root, BEGIN, &self.section(command))
    }
}

/// Name, unit, which figure it is, whether more is better, and what is to be reached.
type Row = (
    &'static str,
    &'static str,
    fn(&CacheFigures) -> f64,
    bool,
    &'static str,
);

fn shown(spread: Spread) -> [String; 2] {
    let Spread { median, min, max } = spread;
    [format!("{median:.0}"), format!("{min:.0}–{max:.0}")]
}

const ROOT: &str = "/cache";
const PATIENCE: Duration = Duration::from_secs(60);
const BEGIN: &str = "<!-- written by cargo xtask bench cache --peers -->";
