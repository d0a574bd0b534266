//! What the crates do on each version of the servers: the table in `docs/compatibility.md`.
//!
//! Each row uses a feature on real servers and says whether it works, works by a fallback, or is refused with the error
//! for what servers lack. Any other result fails the test. The log of the fault proxies, which has every request, shows
//! whether a fallback was used.
//!
//! `cargo xtask test --zookeeper VERSION` writes the column of a version; otherwise these tests check the table.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, bail};
use zk_core::{Error, ErrorKind, Session, SessionBuilder};
use zk_fault_proxy::{EventKind, FaultProxy, Op};
use zk_harness::{DataStore, Ensemble};
use zk_smoke::RECIPES;

mod operations;
mod own_servers;
mod recipes;
mod table;

use table::Table;

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_true_of_the_default_version() {
    check_or_write(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_true_of_3_8() {
    check_or_write(Some("3.8")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_true_of_3_4() {
    check_or_write(Some("3.4")).await;
}

/// What a feature does on a version.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Works,
    /// It works by a fallback, or lacks a part of what the newest servers do.
    Degraded(&'static str),
    /// It is refused as something that the servers lack.
    Refused,
}

/// One row: the feature, and a function that uses it.
type Row = (&'static str, RowFn);
type RowFn = for<'a> fn(&'a Servers) -> RowFuture<'a>;
type RowFuture<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Outcome>> + Send + 'a>>;

/// Three servers behind fault proxies.
struct Servers {
    version: Option<&'static str>,
    ensemble: Ensemble,
    proxy: FaultProxy,
}

impl Servers {
    async fn start(version: Option<&'static str>) -> Self {
        let mut builder = Ensemble::builder()
            .servers(3)
            .data(DataStore::Memory)
            .tick_time(Duration::from_millis(500))
            .container_check_interval(Duration::from_millis(200))
            .extended_types(true)
            .proxied(true);
        if let Some(version) = version {
            builder = builder.zookeeper(version);
        }
        let ensemble = builder.start().await.expect("the servers start");
        let proxy = ensemble.proxy().expect("it has proxies");
        Self {
            version,
            ensemble,
            proxy,
        }
    }

    /// Opens a session.
    async fn connect(&self) -> anyhow::Result<Session> {
        let session = session_builder(&self.ensemble, self.ensemble.connect_string());
        session.connect().await.context("a session is granted")
    }

    /// Returns the operations that servers have carried out for a session.
    fn carried_out(&self, session: &Session) -> HashSet<Op> {
        let id = Some(session.id().as_i64());
        let events = self.proxy.log().events();
        let of_session = events.iter().filter(|event| event.session == id);
        let ops = of_session.filter_map(|event| match &event.kind {
            EventKind::Delivered { request, code: 0 } => Some(request.op),
            _ => None,
        });
        ops.collect()
    }

    /// Returns the outcome of a feature that worked: with this operation, or without it by a fallback.
    fn worked_by(&self, session: &Session, op: Op, fallback: &'static str) -> Outcome {
        if self.carried_out(session).contains(&op) {
            Outcome::Works
        } else {
            Outcome::Degraded(fallback)
        }
    }
}

/// Returns a builder of a session with servers of an ensemble, whose release it is given if it has to be.
fn session_builder(ensemble: &Ensemble, address: String) -> SessionBuilder {
    let session = Session::builder(address);
    match old_release(ensemble.version()) {
        Some((major, minor)) => session.assume_release(major, minor),
        None => session,
    }
}

/// Returns the release of a version that sessions have to be given: before 3.6.
fn old_release(version: &str) -> Option<(u16, u16)> {
    let mut numbers = version.split('.').map(str::parse);
    let release = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (release < (3, 6)).then_some(release)
}

/// Returns the outcome of an operation that may be one which the servers lack.
fn refused(error: &Error) -> anyhow::Result<Outcome> {
    if error.kind() == ErrorKind::Unsupported {
        Ok(Outcome::Refused)
    } else {
        bail!("not refused as unsupported: {error:?}")
    }
}

/// Waits for something, with a deadline.
async fn within<T>(
    limit: Duration,
    what: &str,
    wanted: impl Future<Output = T>,
) -> anyhow::Result<T> {
    let result = tokio::time::timeout(limit, wanted).await;
    result.with_context(|| format!("waited {limit:?} for this: {what}"))
}

/// Runs all rows on a version, or on the default one, and compares its column with the results or replaces it by them.
async fn check_or_write(version: Option<&'static str>) {
    let servers = Servers::start(version).await;
    let mut results = Vec::new();
    let mut failures = Vec::new();
    let mut record = |feature: &str, result: anyhow::Result<Outcome>| match result {
        Ok(outcome) => results.push((feature.to_owned(), outcome.to_string())),
        Err(error) => failures.push(format!("{feature}: {error:#}")),
    };
    for (rows, limit) in [
        (operations::ROWS, LIMIT),
        (own_servers::ROWS, LIMIT_WITH_SERVERS),
    ] {
        for (feature, run) in rows {
            let result = within(limit, feature, run(&servers)).await;
            record(feature, result.flatten());
        }
    }
    for recipe in RECIPES {
        let run = recipes::run(&servers, recipe);
        let result = within(LIMIT, recipe.name, run).await;
        record(recipe.name, result.flatten());
    }
    let version = servers.ensemble.version().to_owned();
    servers.ensemble.down().await.expect("the servers go down");
    assert!(
        failures.is_empty(),
        "on {version}:\n{}",
        failures.join("\n")
    );

    let document = std::fs::read_to_string(document()).expect("the document can be read");
    let mut table = Table::parse(&document).expect("the document has the table");
    if std::env::var_os(WRITE).is_some() {
        table
            .set_column(&version, &results)
            .expect("a release has a number");
        let document = table
            .write_into(&document)
            .expect("the document has the table");
        std::fs::write(self::document(), document).expect("the document can be written");
        return;
    }
    let column = table
        .column(&version)
        .unwrap_or_else(|error| panic!("{error}"));
    let found = results.iter().map(|(feature, cell)| (&**feature, &**cell));
    let found: Vec<_> = found.collect();
    let differing: Vec<_> = found.iter().filter(|row| !column.contains(row)).collect();
    assert!(
        found == column,
        "the table is not true of {version}: {differing:?}; `cargo xtask test --zookeeper all` writes it anew"
    );
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md")
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Degraded(how) => write!(f, "works, {how}"),
            Self::Refused => f.write_str("refused"),
        }
    }
}

/// If set, the column of the version is written and not checked.
const WRITE: &str = "WRITE_COMPATIBILITY";
/// For what takes moments on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);
/// For a row that starts servers of its own.
const LIMIT_WITH_SERVERS: Duration = Duration::from_secs(180);
