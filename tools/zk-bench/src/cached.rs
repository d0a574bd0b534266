//! Measures what is local: reads of a cache of several sizes, its memory, the requests of a reconnect, and picks of an
//! instance.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use comfy_table::Table;
use futures_util::future::try_join_all;
use stats_alloc::INSTRUMENTED_SYSTEM;
use zk_cache::{Event, TreeCache};
use zk_core::{NodePath, Session};
use zk_discovery::{Instance, Registry, RoundRobin};
use zk_fault_proxy::{Clients, Close, FaultProxy};
use zk_tests::peers::CacheCourse;

use crate::fixture::open;
use crate::settings::Settings;
use crate::table::{Spread, table};

/// The figures of one round.
#[derive(Debug)]
pub(crate) struct Figures {
    caches: Vec<OfSize>,
    pick_nanos: f64,
    pick_with_ejected_nanos: f64,
}

/// The figures of a cache with so many nodes.
#[derive(Debug)]
struct OfSize {
    nodes: usize,
    get_nanos: f64,
    /// The same reads of a map of the standard library.
    map_nanos: f64,
    reader_nanos: f64,
    bytes_per_node: f64,
    reconnect_millis: f64,
    reconnect_requests: f64,
}

/// Returns the sizes of the caches.
const fn sizes(settings: Settings) -> &'static [usize] {
    match (settings.smoke, settings.quick) {
        (true, _) => &[1_000],
        (_, true) => &[5_000, 20_000],
        _ => &[5_000, 20_000, 100_000],
    }
}

const fn course(nodes: usize, settings: Settings) -> CacheCourse {
    CacheCourse {
        nodes,
        directories: 100,
        warm_ups: 0,
        sets: 0,
        burst: 0,
        in_flight: 64,
        reads: if settings.smoke { 1_000 } else { 1_000_000 },
    }
}

fn root(nodes: usize) -> String {
    format!("/cached-{nodes}")
}

/// Creates the nodes of all caches.
pub(crate) async fn prepare(address: String, settings: Settings) -> anyhow::Result<()> {
    for nodes in sizes(settings) {
        crate::cache::prepare(address.clone(), root(*nodes), course(*nodes, settings)).await?;
    }
    Ok(())
}

/// Measures one round.
pub(crate) async fn measure(address: String, settings: Settings) -> anyhow::Result<Figures> {
    let mut caches = Vec::new();
    for nodes in sizes(settings) {
        caches.push(measure_cache(&address, course(*nodes, settings)).await?);
    }
    let session = open(&address).await?;
    let picks = measure_picks(&session, settings).await?;
    session.close().await?;
    Ok(Figures {
        caches,
        pick_nanos: picks.0,
        pick_with_ejected_nanos: picks.1,
    })
}

async fn measure_cache(address: &str, course: CacheCourse) -> anyhow::Result<OfSize> {
    let root = root(course.nodes);
    let session = open(address).await?;
    let before = bytes_in_use();
    let cache = TreeCache::start(&session, &root)?;
    let snapshot = cache.synchronized().await?;
    let bytes = bytes_in_use() - before;
    ensure!(
        snapshot.len() == 1 + course.directories + course.nodes,
        "the cache has {} nodes",
        snapshot.len()
    );
    let get_nanos = crate::cache::reads(&cache, &root, course)?;
    let map_nanos = crate::cache::reads_of_map(&cache, &root, course)?;
    let reader_nanos = reads_by_handle(&cache, &course.path(&root, 7), course.reads)?;
    drop((snapshot, cache));
    session.close().await?;
    let (reconnect_millis, reconnect_requests) = measure_reconnect(address, &root).await?;
    Ok(OfSize {
        nodes: course.nodes,
        get_nanos,
        map_nanos,
        reader_nanos,
        bytes_per_node: bytes / count(course.nodes),
        reconnect_millis,
        reconnect_requests,
    })
}

/// Returns how many milliseconds and requests a cache needs to check its nodes after its connection was cut.
async fn measure_reconnect(address: &str, root: &str) -> anyhow::Result<(f64, f64)> {
    let server: SocketAddr = address.parse().context("the address of the server")?;
    let proxy = FaultProxy::start([server])?;
    let session = open(&proxy.connect_string()).await?;
    let cache = TreeCache::start(&session, root)?;
    let snapshot = cache.synchronized().await?;
    let mut events = cache.events_since(&snapshot);
    let calls = session.counters().calls;
    ensure!(
        proxy.cut(Clients::All, Close::Rst).await == 1,
        "no connection was cut"
    );
    let mut stale_at = None;
    let took = loop {
        match (events.next().await, stale_at) {
            (Some(Event::Stale), _) => stale_at = Some(Instant::now()),
            (Some(Event::Synchronized { .. }), None) => {}
            (Some(Event::Synchronized { .. }), Some(since)) => break since.elapsed(),
            (other, _) => anyhow::bail!("nothing has changed, but this arrived: {other:?}"),
        }
    };
    let requests = session.counters().calls - calls;
    drop((events, snapshot, cache));
    session.close().await?;
    proxy.stop();
    let requests = count(usize::try_from(requests)?);
    Ok((took.as_secs_f64() * 1e3, requests))
}

fn reads_by_handle(cache: &TreeCache, path: &str, reads: usize) -> anyhow::Result<f64> {
    let mut reader = cache.reader(path.parse::<NodePath>()?)?;
    let mut bytes = 0;
    let begun = Instant::now();
    for _ in 0..reads {
        let node = black_box(&mut reader)
            .node()
            .context("the node is not cached")?;
        bytes += node.data().map_or(0, <[u8]>::len);
    }
    let took = begun.elapsed();
    ensure!(bytes == 100 * reads, "{bytes} bytes were read");
    Ok(took.as_secs_f64() * 1e9 / count(reads))
}

/// Returns the nanoseconds of a pick of one of 100 instances, and those while one of them is ejected.
async fn measure_picks(session: &Session, settings: Settings) -> anyhow::Result<(f64, f64)> {
    let registry = Registry::new(session, "/services")?;
    let providers = registry.providers::<String>("orders")?;
    let registrations = (0..100).map(|number| {
        let instance = Instance::builder("orders", String::new()).id(format!("i{number}"));
        let registry = &registry;
        async move { anyhow::Ok(registry.register(instance.build()?).await?) }
    });
    let registrations = try_join_all(registrations).await?;
    let strategy = RoundRobin::new();
    let mut changes = providers.changes();
    while providers.synchronized().await?.len() < registrations.len() {
        changes
            .next()
            .await
            .context("the service is no longer followed")?;
    }
    let picks = course(0, settings).reads;
    let measure = || {
        let begun = Instant::now();
        for _ in 0..picks {
            drop(black_box(providers.pick(&strategy)?));
        }
        anyhow::Ok(begun.elapsed().as_secs_f64() * 1e9 / count(picks))
    };
    let with_all = measure()?;
    let is_ejected = (0..3).any(|_| providers.report_failure("i7"));
    ensure!(is_ejected, "the instance is not ejected");
    let with_ejected = measure()?;
    for registration in registrations {
        registration.unregister().await?;
    }
    Ok((with_all, with_ejected))
}

/// Formats the figures of all rounds.
pub(crate) fn summary(rounds: &[Figures]) -> Table {
    let mut table = table(&[
        "figure",
        "unit",
        "zk-cache, zk-discovery",
        "min–max",
        "target",
    ]);
    let mut add = |name: String, unit: &str, digits, target: &str, figures: Vec<f64>| {
        let spread = Spread::of(figures);
        let (middle, range) = (spread.middle(digits), spread.range(digits));
        table.add_row([name, unit.to_owned(), middle, range, target.to_owned()]);
    };
    let sizes = rounds.first().map_or(0, |round| round.caches.len());
    for at in 0..sizes {
        let all = |of: fn(&OfSize) -> f64| rounds.iter().map(|it| of(&it.caches[at])).collect();
        let nodes = rounds[0].caches[at].nodes;
        let of = |figure: &str| format!("{figure}, {nodes} nodes");
        add(of("read by path"), "ns", 1, "≤ 50", all(|it| it.get_nanos));
        let map = "the same of a HashMap with the data alone";
        add(of(map), "ns", 1, "", all(|it| it.map_nanos));
        add(
            of("read by a handle"),
            "ns",
            1,
            "≤ 15",
            all(|it| it.reader_nanos),
        );
        add(
            of("memory per node"),
            "B",
            0,
            "≤ 300",
            all(|it| it.bytes_per_node),
        );
        add(
            of("check after a reconnect"),
            "ms",
            0,
            "",
            all(|it| it.reconnect_millis),
        );
        add(
            of("check after a reconnect"),
            "requests",
            0,
            "",
            all(|it| it.reconnect_requests),
        );
    }
    let all = |of: fn(&Figures) -> f64| rounds.iter().map(of).collect();
    let pick = "pick of one of 100 instances";
    add(pick.to_owned(), "ns", 1, "", all(|it| it.pick_nanos));
    let ejected = format!("{pick}, one ejected");
    add(ejected, "ns", 1, "", all(|it| it.pick_with_ejected_nanos));
    table
}

/// Returns the bytes that the process has allocated and not freed. The benchmark's allocator counts them.
fn bytes_in_use() -> f64 {
    let stats = INSTRUMENTED_SYSTEM.stats();
    count(
        stats
            .bytes_allocated
            .saturating_sub(stats.bytes_deallocated),
    )
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
