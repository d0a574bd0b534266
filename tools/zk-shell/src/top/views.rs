//! The tables of the dashboard.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Lag, Model, RatedConnection, Server, age};
use super::table::{Cell, Column, Emphasis, Note, Order, Row, Table};
use super::word::Word;
use crate::crawl::counted;
use crate::recipe_names::RecipeKind;

mod detail;

/// One table of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub(crate) enum View {
    /// Role, rates, latency, connections, zxid lag, disk
    Servers,
    /// Sessions with their connections
    Sessions,
    /// Connections of each client host, against the limit
    Hosts,
    /// Watches by path
    Watches,
    /// Watches by session
    Watchers,
    /// The largest and the fastest-changing subtrees
    Tree,
    /// Locks, leaders and queues
    Recipes,
}

impl View {
    pub(crate) const ALL: [Self; 7] = [
        Self::Servers,
        Self::Sessions,
        Self::Hosts,
        Self::Watches,
        Self::Watchers,
        Self::Tree,
        Self::Recipes,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Sessions => "sessions",
            Self::Hosts => "hosts",
            Self::Watches => "watches",
            Self::Watchers => "watchers",
            Self::Tree => "tree",
            Self::Recipes => "recipes",
        }
    }

    /// The words that it needs beyond the cheap ones.
    pub(crate) const fn words(self) -> &'static [Word] {
        match self {
            Self::Servers | Self::Tree | Self::Recipes => &[],
            Self::Sessions => &[Word::Cons, Word::Dump],
            Self::Hosts => &[Word::Cons],
            Self::Watches | Self::Watchers => &[Word::Wchp],
        }
    }

    /// How it is sorted at first.
    pub(crate) const fn order(self) -> Order {
        let (column, is_descending) = match self {
            Self::Servers => (0, false),
            Self::Sessions | Self::Recipes => (4, true),
            Self::Hosts | Self::Watches | Self::Tree => (1, true),
            Self::Watchers => (2, true),
        };
        Order {
            column,
            is_descending,
        }
    }

    pub(crate) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Servers => SERVERS,
            Self::Sessions => SESSIONS,
            Self::Hosts => HOSTS,
            Self::Watches => WATCHES,
            Self::Watchers => WATCHERS,
            Self::Tree => TREE,
            Self::Recipes => RECIPES,
        }
    }

    /// Makes the table, unsorted.
    pub(crate) fn table(self, model: &Model) -> Table {
        let (rows, mut notes) = match self {
            Self::Servers => (servers(model), stale(model)),
            Self::Sessions => (sessions(model), Vec::new()),
            Self::Hosts => (hosts(model), Vec::new()),
            Self::Watches => (watches(model), Vec::new()),
            Self::Watchers => (watchers(model), Vec::new()),
            Self::Tree => tree(model),
            Self::Recipes => recipes(model),
        };
        notes.extend(missing(model, self));
        Table {
            columns: self.columns(),
            rows,
            notes,
        }
    }
}

const SERVERS: &[Column] = &[
    Column::id("SERVER", "server"),
    Column::text("ROLE", "role"),
    Column::number("REQ/S", "requests_per_second"),
    Column::number("LAT", "average_latency_ms"),
    Column::number("MAX", "max_latency_ms"),
    Column::number("CONN", "connections"),
    Column::number("OUT", "outstanding"),
    Column::number("LAG", "zxid_lag"),
    Column::number("FSYNC", "average_fsync_ms"),
    Column::number("LOG", "log_bytes"),
    Column::text("VERSION", "version"),
    Column::number("NODES", "nodes"),
    Column::number("WATCH", "watches"),
    Column::number("EPHEM", "ephemerals"),
    Column::number("DATA", "data_bytes"),
    Column::number("SNAP", "snapshot_bytes"),
    Column::number("FILES", "open_files"),
    Column::text("ZXID", "zxid"),
    Column::number("OWN", "own_requests_per_second"),
];

fn servers(model: &Model) -> Vec<Row> {
    let rows = model.servers.iter().map(|(address, server)| {
        let figures = &server.figures;
        let role = match (&server.down, &figures.role) {
            (Some(down), _) => format!("down {}", age(model.now.saturating_sub(down.since))),
            (None, Some(role)) if server.stale_for(model.now).is_some() => format!("{role}?"),
            (None, Some(role)) => role.clone(),
            (None, None) if server.missing.is_empty() => "…".to_owned(),
            (None, None) => "up, role unknown".to_owned(),
        };
        let lag = match model.lag(address) {
            _ if figures.zxid.is_none() => Cell::unknown(),
            Some(Lag::Transactions(behind)) => count(Some(behind)),
            Some(Lag::OtherEpoch) => Cell::text("epoch"),
            None => Cell::unknown(),
        };
        let mut row = Row::new(vec![
            Cell::text(address),
            Cell::text(role),
            decimal(server.rate),
            decimal(figures.average_latency),
            decimal(figures.max_latency),
            count(figures.connections),
            count(figures.outstanding),
            lag,
            decimal(figures.average_fsync),
            bytes(figures.log_bytes),
            text(figures.version.as_ref()),
            count(figures.nodes),
            count(figures.watches),
            count(figures.ephemerals),
            bytes(figures.data_bytes),
            bytes(figures.snapshot_bytes),
            count(figures.open_files),
            hex(figures.zxid),
            decimal(server.own_rate),
        ]);
        row.emphasis = if server.down.is_some() || server.has_no_quorum() {
            Emphasis::Alarm
        } else if server.leads() {
            Emphasis::Strong
        } else {
            Emphasis::None
        };
        row
    });
    rows.collect()
}

fn stale(model: &Model) -> Vec<Note> {
    let servers = model.servers.iter();
    let stale = servers.filter_map(|(address, server)| {
        let silent = server.stale_for(model.now)?;
        let text = format!("{address}: the figures are {} old", age(silent));
        Some(Note::problem(text))
    });
    stale.collect()
}

const SESSIONS: &[Column] = &[
    Column::id("SESSION", "session"),
    Column::text("HOST", "host"),
    Column::number("PORT", "port"),
    Column::id("SERVER", "server"),
    Column::number("REQ/S", "requests_per_second"),
    Column::number("OUT", "outstanding"),
    Column::number("LAT", "average_latency_ms"),
    Column::number("EPHEM", "ephemerals"),
    Column::number("AGE", "age_ms"),
    Column::number("MAX", "max_latency_ms"),
    Column::number("TIMEOUT", "timeout_ms"),
    Column::text("LAST", "last_operation"),
    Column::number("RECEIVED", "received"),
];

fn sessions(model: &Model) -> Vec<Row> {
    let is_known = model
        .servers
        .values()
        .any(|server| server.ephemerals.is_some());
    let mut rows = Vec::new();
    for (address, RatedConnection { connection, rate }) in connections(model) {
        // The others are those of four-letter words, of this program too.
        let Some(session) = connection.session else {
            continue;
        };
        let ephemerals = ephemerals_of(model, session).map_or(0, <[_]>::len);
        let open = connection
            .established
            .map(|then| model.now.saturating_sub(then));
        rows.push(Row::new(vec![
            hex(Some(session)),
            Cell::text(&connection.host),
            count(Some(connection.port.into())),
            Cell::text(address),
            decimal(*rate),
            count(Some(connection.outstanding)),
            decimal(connection.average_latency),
            count(is_known.then_some(ephemerals as u64)),
            duration(open),
            decimal(connection.max_latency),
            connection.timeout.map_or_else(Cell::unknown, |timeout| {
                Cell::count(timeout, seconds(timeout))
            }),
            text(connection.last_operation.as_ref()),
            count(Some(connection.received)),
        ]));
    }
    rows
}

/// All connections, with the addresses of their servers.
fn connections(model: &Model) -> impl Iterator<Item = (&str, &RatedConnection)> {
    model.servers.iter().flat_map(|(address, server)| {
        let connections = server.connections.iter().flatten();
        connections.map(|connection| (address.as_str(), connection))
    })
}

/// Each server knows the ephemeral nodes of all sessions.
fn ephemerals_of(model: &Model, session: u64) -> Option<&[String]> {
    let known = model
        .servers
        .values()
        .filter_map(|server| server.ephemerals.as_ref());
    let mut found = known.filter_map(|ephemerals| ephemerals.get(&session));
    found.next_back().map(Vec::as_slice)
}

const HOSTS: &[Column] = &[
    Column::id("HOST", "host"),
    Column::number("CONN", "connections"),
    Column::number("SESSIONS", "sessions"),
    Column::number("MOST ON ONE", "most_on_one_server"),
    Column::number("LIMIT", "limit"),
    Column::number("USED", "used_percent"),
    Column::number("REQ/S", "requests_per_second"),
];

fn hosts(model: &Model) -> Vec<Row> {
    #[derive(Default)]
    struct Host<'a> {
        sessions: BTreeSet<u64>,
        per_server: BTreeMap<&'a str, u64>,
        rate: f64,
    }
    let mut hosts = BTreeMap::<&str, Host<'_>>::new();
    for (address, RatedConnection { connection, rate }) in connections(model) {
        let host = hosts.entry(&connection.host).or_default();
        host.sessions.extend(connection.session);
        *host.per_server.entry(address).or_default() += 1;
        host.rate += rate.unwrap_or(0.0);
    }
    // The smallest limit, and none if each server says that there is none.
    let limits = model.servers.values();
    let limits: Vec<u64> = limits
        .filter_map(|server| server.figures.max_connections_per_host)
        .collect();
    let limit = limits.iter().copied().filter(|limit| *limit > 0).min();
    let rows = hosts.into_iter().map(|(name, host)| {
        let most = host.per_server.values().copied().max().unwrap_or(0);
        let used = limit.map(|limit| most * 100 / limit);
        let mut row = Row::new(vec![
            Cell::text(name),
            count(Some(host.per_server.values().sum())),
            count(Some(host.sessions.len() as u64)),
            count(Some(most)),
            match limit {
                Some(limit) => count(Some(limit)),
                None if limits.is_empty() => Cell::unknown(),
                None => Cell::text("none"),
            },
            used.map_or_else(Cell::unknown, |used| Cell::count(used, format!("{used}%"))),
            decimal(Some(host.rate)),
        ]);
        if used.is_some_and(|used| used >= 80) {
            row.emphasis = Emphasis::Alarm;
        }
        row
    });
    rows.collect()
}

const WATCHES: &[Column] = &[
    Column::id("PATH", "path"),
    Column::number("WATCHES", "watches"),
    Column::number("SERVERS", "servers"),
];

fn watches(model: &Model) -> Vec<Row> {
    // The numbers of watches and of servers.
    let mut paths = BTreeMap::<&str, (u64, u64)>::new();
    for (path, watchers) in model.servers.values().flat_map(watches_of) {
        let (watches, servers) = paths.entry(path).or_default();
        *watches += watchers.len() as u64;
        *servers += u64::from(!watchers.is_empty());
    }
    let rows = paths.into_iter().map(|(path, (watches, servers))| {
        Row::new(vec![
            Cell::text(path),
            count(Some(watches)),
            count(Some(servers)),
        ])
    });
    rows.collect()
}

/// The watched paths of a server, with the sessions that watch each.
fn watches_of(server: &Server) -> impl Iterator<Item = (&str, &[u64])> {
    let watches = server.watches.iter().flatten();
    watches.map(|(path, sessions)| (path.as_str(), sessions.as_slice()))
}

const WATCHERS: &[Column] = &[
    Column::id("SESSION", "session"),
    Column::id("SERVER", "server"),
    Column::number("WATCHES", "watches"),
    Column::text("FIRST PATH", "first_path"),
];

fn watchers(model: &Model) -> Vec<Row> {
    // The number of watches and the first path.
    let mut sessions = BTreeMap::<(u64, &str), (u64, &str)>::new();
    for (address, server) in &model.servers {
        for (path, watchers) in watches_of(server) {
            for session in watchers {
                let key = (*session, address.as_str());
                sessions.entry(key).or_insert((0, path)).0 += 1;
            }
        }
    }
    let rows = sessions
        .into_iter()
        .map(|((session, server), (watches, first))| {
            Row::new(vec![
                hex(Some(session)),
                Cell::text(server),
                count(Some(watches)),
                Cell::text(first),
            ])
        });
    rows.collect()
}

const TREE: &[Column] = &[
    Column::id("SUBTREE", "path"),
    Column::number("NODES", "descendants"),
    Column::number("CHILDREN", "children"),
    Column::number("GROWTH", "growth"),
    Column::number("CHANGES", "changes"),
];

#[expect(clippy::cast_precision_loss, reason = "no tree grows by 2^53 nodes")]
fn tree(model: &Model) -> (Vec<Row>, Vec<Note>) {
    let mut notes = Vec::new();
    if let Some(nodes) = model.crawling {
        notes.push(Note::remark(format!("crawling: {nodes} nodes so far")));
    }
    let Some((at, tree)) = &model.tree else {
        if notes.is_empty() {
            notes.push(Note::remark("the tree was not crawled yet: press c"));
        }
        return (Vec::new(), notes);
    };
    let rows = tree.subtrees.iter().map(|subtree| {
        Row::new(vec![
            Cell::text(&subtree.path),
            count(Some(subtree.descendants)),
            count(Some(subtree.children)),
            subtree.growth.map_or_else(Cell::unknown, |growth| {
                Cell::number(growth as f64, format!("{growth:+}"))
            }),
            count(subtree.changes),
        ])
    });
    let found = format!(
        "{} nodes {} ago",
        tree.nodes,
        age(model.now.saturating_sub(*at))
    );
    notes.push(match tree.compared_with {
        Some(before) => Note::remark(format!(
            "{found}; growth and changes since the crawl {} before",
            age(before)
        )),
        None if tree.failed > 0 || tree.is_cut => Note::problem(format!(
            "{found}; the counts are too low, and compared with no other crawl"
        )),
        None => Note::remark(format!(
            "{found}; press c again to see what has changed since"
        )),
    });
    if tree.is_cut {
        notes.push(Note::problem(
            "the crawl ended at its limit: raise --crawl-limit for all nodes",
        ));
    }
    if let Some(failure) = &tree.failure {
        notes.push(Note::problem(format!(
            "the children of {} could not be listed: press c to try again; first {failure}",
            counted(tree.failed, "node")
        )));
    }
    if tree.refused > 0 {
        notes.push(Note::problem(format!(
            "this session may not list the children of {}: set ZK_AUTH",
            counted(tree.refused, "node")
        )));
    }
    (rows.collect(), notes)
}

const RECIPES: &[Column] = &[
    Column::id("PATH", "path"),
    Column::text("KIND", "kind"),
    Column::text("HOLDER", "holder"),
    Column::number("AGE", "age_ms"),
    Column::number("WAITING", "waiting"),
    Column::number("CLAIMED", "claimed"),
    Column::number("READ", "read_ago_ms"),
    Column::text("SESSION", "session"),
];

fn recipes(model: &Model) -> (Vec<Row>, Vec<Note>) {
    let rows = model.recipes.values().map(|(read_at, recipe)| {
        let old = recipe.since.map(|since| model.now.saturating_sub(since));
        let kind = match recipe.kind {
            RecipeKind::Lock => "lock",
            RecipeKind::Leader => "leader",
            RecipeKind::Queue => "queue",
            RecipeKind::WorkQueue => "work queue",
            RecipeKind::Empty => "empty",
            RecipeKind::NoNode => "no node",
            RecipeKind::Unknown => "unknown",
        };
        let is_known = recipe.kind != RecipeKind::Unknown;
        let mut row = Row::new(vec![
            Cell::text(&recipe.path),
            Cell::text(kind),
            text(recipe.holder.as_ref()),
            duration(old),
            count(is_known.then_some(recipe.waiting)),
            count(recipe.claimed),
            duration(Some(model.now.saturating_sub(*read_at))),
            hex(recipe.session),
        ]);
        if recipe.problem.is_some() || recipe.kind == RecipeKind::NoNode {
            row.emphasis = Emphasis::Alarm;
        }
        row
    });
    let rows: Vec<_> = rows.collect();
    let mut notes = Vec::new();
    if rows.is_empty() {
        notes.push(Note::remark(
            "no paths are known: press c or add --show tree to search them, or name them with --watch-path",
        ));
    }
    notes.extend(recipe_notes(model));
    (rows, notes)
}

/// What could not be read, what is left out, and by how much the ages are wrong at least.
fn recipe_notes(model: &Model) -> Vec<Note> {
    let mut notes = Vec::new();
    let problems = model.recipes.values().filter_map(|(_, recipe)| {
        let problem = recipe.problem.as_ref()?;
        Some((&recipe.path, problem))
    });
    let problems: Vec<_> = problems.collect();
    if let [(path, problem), others @ ..] = &problems[..] {
        let others = match others.len() {
            0 => String::new(),
            others => format!(", nor {}", counted(others as u64, "other")),
        };
        notes.push(Note::problem(format!(
            "{path} could not be read{others}: {problem}"
        )));
    }
    let more = model.tree.as_ref().map_or(0, |(_, tree)| tree.more_recipes);
    if more > 0 {
        notes.push(Note::remark(format!(
            "the crawl found {more} more: name those to be shown with --watch-path"
        )));
    }
    let ahead = model.recipes.values().filter_map(|(read_at, recipe)| {
        let since = recipe.since?;
        since.checked_sub(*read_at)
    });
    if let Some(ahead) = ahead.max().filter(|ahead| *ahead >= CLOCK_TOLERANCE) {
        notes.push(Note::problem(format!(
            "the clock of the servers is {} ahead of the one here: ages are too low by that",
            age(ahead)
        )));
    }
    notes
}

/// What the view lacks, a line for each word.
fn missing(model: &Model, view: View) -> Vec<Note> {
    let mut words = BTreeMap::<(&str, &str), Vec<&str>>::new();
    for (address, server) in &model.servers {
        for missing in server.missing.values() {
            let is_needed = match view {
                View::Servers => Word::ALL
                    .iter()
                    .any(|word| word.is_cheap() && word.as_str() == missing.word),
                View::Hosts => ["cons", "conf"].contains(&missing.word.as_str()),
                _ => view
                    .words()
                    .iter()
                    .any(|word| word.as_str() == missing.word),
            };
            if is_needed {
                let key = (missing.word.as_str(), missing.remedy.as_str());
                words.entry(key).or_default().push(address);
            }
        }
    }
    let lines = words.into_iter().map(|((word, remedy), servers)| {
        let who = match servers[..] {
            [server] => server.to_owned(),
            _ => format!("{} servers", servers.len()),
        };
        let text = format!("{word} is not available from {who}: {remedy}");
        Note::problem(text)
    });
    let mut lines: Vec<_> = lines.collect();
    if matches!(view, View::Tree | View::Recipes)
        && let Some(reason) = &model.no_session
    {
        lines.push(Note::problem(format!("no nodes can be read: {reason}")));
    }
    lines
}

fn text(text: Option<&String>) -> Cell {
    text.map_or_else(Cell::unknown, Cell::text)
}

/// The id of a session or of a transaction.
fn hex(id: Option<u64>) -> Cell {
    id.map_or_else(Cell::unknown, |id| Cell::text(format!("{id:#x}")))
}

fn duration(milliseconds: Option<u64>) -> Cell {
    milliseconds.map_or_else(Cell::unknown, |time| Cell::count(time, age(time)))
}

fn count(number: Option<u64>) -> Cell {
    number.map_or_else(Cell::unknown, |number| {
        Cell::count(number, number.to_string())
    })
}

fn decimal(number: Option<f64>) -> Cell {
    let Some(number) = number else {
        return Cell::unknown();
    };
    let shown = if number >= 100.0 || number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.1}")
    };
    Cell::number(number, shown)
}

/// Bytes in powers of 1024, as `du -h` prints them.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(number: Option<u64>) -> Cell {
    let Some(number) = number else {
        return Cell::unknown();
    };
    let mut size = number as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let shown = if unit == 0 || size >= 10.0 {
        format!("{size:.0}{}", UNITS[unit])
    } else {
        format!("{size:.1}{}", UNITS[unit])
    };
    Cell::count(number, shown)
}

fn seconds(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1_000) {
        format!("{}s", milliseconds / 1_000)
    } else {
        format!("{milliseconds}ms")
    }
}

/// In milliseconds.
const CLOCK_TOLERANCE: u64 = 1_000;
const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];

#[cfg(test)]
mod tests;
