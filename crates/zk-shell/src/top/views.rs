//! The tables of the dashboard.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::model::Lag;
use super::model::Model;
use super::model::NO_QUORUM;
use super::model::age;
use super::sample::RecipeKind;
use super::table::Cell;
use super::table::Column;
use super::table::Emphasis;
use super::table::Order;
use super::table::Row;
use super::table::Table;
use super::table::printable;
use super::word::Word;

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
    Column::text("SERVER", "server"),
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
            Some(Lag::Transactions(count)) => Cell::count(count, count.to_string()),
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
            figures
                .version
                .as_ref()
                .map_or_else(Cell::unknown, Cell::text),
            count(figures.nodes),
            count(figures.watches),
            count(figures.ephemerals),
            bytes(figures.data_bytes),
            bytes(figures.snapshot_bytes),
            count(figures.open_files),
            figures
                .zxid
                .map_or_else(Cell::unknown, |zxid| Cell::text(format!("{zxid:#x}"))),
            decimal(server.own_rate),
        ]);
        let role = figures.role.as_deref();
        row.emphasis = if server.down.is_some() || role == Some(NO_QUORUM) {
            Emphasis::Alarm
        } else if matches!(role, Some("leader" | "standalone")) {
            Emphasis::Strong
        } else {
            Emphasis::None
        };
        if let Some(down) = &server.down {
            row.detail
                .push(format!("down: {}", printable(&down.reason)));
        }
        if let (Some(max), Some(open)) = (figures.max_files, figures.open_files) {
            row.detail.push(format!("open files: {open} of {max}"));
        }
        if let Some(fsync) = figures.max_fsync {
            row.detail
                .push(format!("longest write to disk: {fsync} ms"));
        }
        if let Some(limit) = figures.max_connections_per_host {
            row.detail
                .push(format!("connections per host: {}", shown_limit(limit)));
        }
        if let Some(synced) = figures.synced_followers {
            row.detail.push(format!("synced followers: {synced}"));
        }
        let missing = server.missing.values();
        row.detail
            .extend(missing.map(|missing| format!("{}: {}", missing.word, missing.remedy)));
        row
    });
    rows.collect()
}

fn stale(model: &Model) -> Vec<String> {
    let servers = model.servers.iter();
    let stale = servers.filter_map(|(address, server)| {
        let silent = server.stale_for(model.now)?;
        Some(format!("{address}: the figures are {} old", age(silent)))
    });
    stale.collect()
}

const SESSIONS: &[Column] = &[
    Column::text("SESSION", "session"),
    Column::text("HOST", "host"),
    Column::number("PORT", "port"),
    Column::text("SERVER", "server"),
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
    let all = model
        .servers
        .values()
        .filter_map(|server| server.ephemerals.as_ref());
    // Each server knows the ephemeral nodes of all sessions.
    let ephemerals: BTreeMap<_, _> = all.flatten().collect();
    let is_known = model
        .servers
        .values()
        .any(|server| server.ephemerals.is_some());
    let mut rows = Vec::new();
    for (address, server) in &model.servers {
        for connection in server.connections.iter().flatten() {
            // The others are those of four-letter words, of this program too.
            let Some(session) = connection.session else {
                continue;
            };
            let key = (connection.host.clone(), connection.port);
            let own = ephemerals.get(&session);
            let number = own.map_or(0, |paths| paths.len() as u64);
            let open = connection
                .established
                .map(|then| model.now.saturating_sub(then));
            let mut row = Row::new(vec![
                Cell::text(format!("{session:#x}")),
                Cell::text(&connection.host),
                count(Some(connection.port.into())),
                Cell::text(address),
                decimal(server.connection_rates.get(&key).copied()),
                count(Some(connection.outstanding)),
                decimal(connection.average_latency),
                count(is_known.then_some(number)),
                open.map_or_else(Cell::unknown, |open| Cell::count(open, age(open))),
                decimal(connection.max_latency),
                connection.timeout.map_or_else(Cell::unknown, |timeout| {
                    Cell::count(timeout, seconds(timeout))
                }),
                connection
                    .last_operation
                    .as_ref()
                    .map_or_else(Cell::unknown, Cell::text),
                count(Some(connection.received)),
            ]);
            row.detail
                .extend(list("ephemeral nodes", own.map_or(&[][..], |paths| paths)));
            rows.push(row);
        }
    }
    rows
}

const HOSTS: &[Column] = &[
    Column::text("HOST", "host"),
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
    for (address, server) in &model.servers {
        for connection in server.connections.iter().flatten() {
            let host = hosts.entry(&connection.host).or_default();
            host.sessions.extend(connection.session);
            *host.per_server.entry(address).or_default() += 1;
            let key = (connection.host.clone(), connection.port);
            host.rate += server.connection_rates.get(&key).copied().unwrap_or(0.0);
        }
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
        let per_server = host.per_server.iter();
        row.detail
            .extend(per_server.map(|(server, number)| format!("{number} to {server}")));
        row
    });
    rows.collect()
}

const WATCHES: &[Column] = &[
    Column::text("PATH", "path"),
    Column::number("WATCHES", "watches"),
    Column::number("SERVERS", "servers"),
];

fn watches(model: &Model) -> Vec<Row> {
    let mut paths = BTreeMap::<&str, Vec<(&str, u64)>>::new();
    for (address, server) in &model.servers {
        for (path, sessions) in server.watches.iter().flatten() {
            let watchers = sessions.iter().map(|session| (address.as_str(), *session));
            paths.entry(path).or_default().extend(watchers);
        }
    }
    let rows = paths.into_iter().map(|(path, watchers)| {
        let servers: BTreeSet<_> = watchers.iter().map(|(server, _)| server).collect();
        let mut row = Row::new(vec![
            Cell::text(path),
            count(Some(watchers.len() as u64)),
            count(Some(servers.len() as u64)),
        ]);
        let lines = watchers
            .iter()
            .map(|(server, session)| format!("{session:#x} at {server}"));
        row.detail
            .extend(list("sessions", &lines.collect::<Vec<_>>()));
        row
    });
    rows.collect()
}

const WATCHERS: &[Column] = &[
    Column::text("SESSION", "session"),
    Column::text("SERVER", "server"),
    Column::number("WATCHES", "watches"),
    Column::text("FIRST PATH", "first_path"),
];

fn watchers(model: &Model) -> Vec<Row> {
    let mut sessions = BTreeMap::<(u64, &str), Vec<String>>::new();
    for (address, server) in &model.servers {
        for (path, watchers) in server.watches.iter().flatten() {
            for session in watchers {
                let key = (*session, address.as_str());
                sessions.entry(key).or_default().push(path.clone());
            }
        }
    }
    let rows = sessions.into_iter().map(|((session, server), paths)| {
        let mut row = Row::new(vec![
            Cell::text(format!("{session:#x}")),
            Cell::text(server),
            count(Some(paths.len() as u64)),
            Cell::text(&paths[0]),
        ]);
        row.detail.extend(list("watched paths", &paths));
        row
    });
    rows.collect()
}

const TREE: &[Column] = &[
    Column::text("SUBTREE", "path"),
    Column::number("NODES", "descendants"),
    Column::number("CHILDREN", "children"),
    Column::number("GROWTH", "growth"),
    Column::number("CHANGES", "changes"),
];

#[expect(clippy::cast_precision_loss, reason = "no tree grows by 2^53 nodes")]
fn tree(model: &Model) -> (Vec<Row>, Vec<String>) {
    let Some((at, tree)) = &model.tree else {
        return (
            Vec::new(),
            vec!["the tree was not crawled yet: press c".to_owned()],
        );
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
    let old = age(model.now.saturating_sub(*at));
    let mut notes = Vec::new();
    notes.push(match (tree.is_running, tree.compared_with) {
        (true, _) => format!("crawling: {} nodes so far", tree.nodes),
        (false, Some(before)) => format!(
            "{} nodes {old} ago; growth and changes since the crawl {} before",
            tree.nodes,
            age(before)
        ),
        (false, None) => format!(
            "{} nodes {old} ago; press c again to see what has changed since",
            tree.nodes
        ),
    });
    if tree.is_cut {
        notes.push("the crawl ended at its limit: raise --crawl-limit for all nodes".to_owned());
    }
    if tree.unreadable > 0 {
        let unreadable = tree.unreadable;
        notes.push(format!(
            "{unreadable} subtrees may not be listed by this session: set ZK_AUTH"
        ));
    }
    (rows.collect(), notes)
}

const RECIPES: &[Column] = &[
    Column::text("PATH", "path"),
    Column::text("KIND", "kind"),
    Column::text("HOLDER", "holder"),
    Column::number("AGE", "age_ms"),
    Column::number("WAITING", "waiting"),
    Column::number("CLAIMED", "claimed"),
    Column::text("SESSION", "session"),
];

fn recipes(model: &Model) -> (Vec<Row>, Vec<String>) {
    let rows = model.recipes.values().map(|recipe| {
        let old = recipe.since.map(|since| model.now.saturating_sub(since));
        let kind = match recipe.kind {
            RecipeKind::Lock => "lock",
            RecipeKind::Leader => "leader",
            RecipeKind::Queue => "queue",
            RecipeKind::WorkQueue => "work queue",
            RecipeKind::Unknown => "unknown",
        };
        let holder = recipe.holder.as_ref().or(recipe.problem.as_ref());
        let mut row = Row::new(vec![
            Cell::text(&recipe.path),
            Cell::text(kind),
            holder.map_or_else(Cell::unknown, Cell::text),
            old.map_or_else(Cell::unknown, |old| Cell::count(old, age(old))),
            count(Some(recipe.waiting)),
            count(recipe.claimed),
            recipe
                .session
                .map_or_else(Cell::unknown, |session| Cell::text(format!("{session:#x}"))),
        ]);
        if recipe.problem.is_some() {
            row.emphasis = Emphasis::Alarm;
        }
        row.detail.extend(list("nodes, in order", &recipe.first));
        row
    });
    let rows: Vec<_> = rows.collect();
    let mut notes = Vec::new();
    if rows.is_empty() {
        notes.push("no paths are known: press c or add --show tree to search them, or name them with --watch-path".to_owned());
    }
    (rows, notes)
}

/// What the view lacks, a line for each word.
fn missing(model: &Model, view: View) -> Vec<String> {
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
        format!("{word} is not available from {who}: {remedy}")
    });
    let mut lines: Vec<_> = lines.collect();
    if matches!(view, View::Tree | View::Recipes)
        && let Some(reason) = &model.no_session
    {
        lines.push(format!("no nodes can be read: {}", printable(reason)));
    }
    lines
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

fn shown_limit(limit: u64) -> String {
    if limit == 0 {
        "no limit".to_owned()
    } else {
        format!("at most {limit}")
    }
}

/// A heading with the number of entries, and the first of them.
fn list(heading: &str, entries: &[String]) -> Vec<String> {
    if entries.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("{heading}: {}", entries.len())];
    let first = entries.iter().take(LISTED);
    lines.extend(first.map(|entry| format!("  {}", printable(entry))));
    if entries.len() > LISTED {
        lines.push(format!("  and {} more", entries.len() - LISTED));
    }
    lines
}

const LISTED: usize = 50;
const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];

#[cfg(test)]
mod tests;
