//! What the detail view shows of one row below its cells.
//!
//! Pure: no I/O and no clock.

use super::{View, ephemerals_of, watches_of};
use crate::top::four_letter::hexadecimal;
use crate::top::model::{Model, Server};
use crate::top::sample::Recipe;
use crate::top::table::{Cell, Row, printable};

impl View {
    /// Returns what the detail view shows below the cells of a row, a line each.
    pub(crate) fn detail(self, model: &Model, row: &Row) -> Vec<String> {
        let raw = |column: usize| row.cells.get(column).map_or("", Cell::raw);
        let id = raw(0);
        match self {
            Self::Servers => model.servers.get(id).map_or_else(Vec::new, server),
            Self::Sessions => {
                let ephemerals = hexadecimal(id).and_then(|session| ephemerals_of(model, session));
                list("ephemeral nodes", ephemerals.unwrap_or_default())
            }
            Self::Hosts => {
                let servers = connections_of_host(model, id);
                servers
                    .map(|(server, number)| format!("{number} to {}", printable(server)))
                    .collect()
            }
            Self::Watches => {
                let watchers = watchers_of(model, id);
                let lines = watchers.map(|(server, session)| format!("{session:#x} at {server}"));
                list("sessions", &lines.collect::<Vec<_>>())
            }
            Self::Watchers => list("watched paths", &watched_by(model, id, raw(1))),
            Self::Tree => Vec::new(),
            Self::Recipes => {
                let recipe = model.recipes.get(id);
                recipe.map_or_else(Vec::new, |(_, recipe)| self::recipe(recipe))
            }
        }
    }
}

fn server(server: &Server) -> Vec<String> {
    let figures = &server.figures;
    let mut lines = Vec::new();
    if let Some(down) = &server.down {
        lines.push(format!("down: {}", printable(&down.reason)));
    }
    if let (Some(max), Some(open)) = (figures.max_files, figures.open_files) {
        lines.push(format!("open files: {open} of {max}"));
    }
    if let Some(fsync) = figures.max_fsync {
        lines.push(format!("longest write to disk: {fsync} ms"));
    }
    if let Some(limit) = figures.max_connections_per_host {
        lines.push(format!("connections per host: {}", shown_limit(limit)));
    }
    if let Some(synced) = figures.synced_followers {
        lines.push(format!("synced followers: {synced}"));
    }
    let missing = server.missing.values();
    lines.extend(missing.map(|missing| {
        let line = format!("{}: {}", missing.word, missing.remedy);
        printable(&line)
    }));
    lines
}

fn recipe(recipe: &Recipe) -> Vec<String> {
    let problem = recipe.problem.as_ref();
    let problem = problem.map(|problem| format!("not read since: {}", printable(problem)));
    let mut lines: Vec<_> = problem.into_iter().collect();
    lines.extend(list("nodes, in order", &recipe.first));
    lines
}

/// The servers that a host is connected to, with the numbers of its connections.
fn connections_of_host<'a>(
    model: &'a Model,
    host: &'a str,
) -> impl Iterator<Item = (&'a str, usize)> {
    let servers = model.servers.iter().map(move |(address, server)| {
        let connections = server.connections.iter().flatten();
        let own = connections.filter(|rated| rated.connection.host == host);
        (address.as_str(), own.count())
    });
    servers.filter(|(_, number)| *number > 0)
}

/// The sessions that watch a path, each with its server.
fn watchers_of<'a>(model: &'a Model, path: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
    model.servers.iter().flat_map(move |(address, server)| {
        let watches = server.watches.as_ref();
        let sessions = watches.and_then(|watches| watches.get(path));
        let sessions = sessions.into_iter().flatten();
        sessions.map(|session| (address.as_str(), *session))
    })
}

/// The paths that a session watches at a server; the session is a number as its cell has it.
fn watched_by(model: &Model, session: &str, address: &str) -> Vec<String> {
    let (Some(session), Some(server)) = (hexadecimal(session), model.servers.get(address)) else {
        return Vec::new();
    };
    let own = watches_of(server).filter(|(_, sessions)| sessions.contains(&session));
    own.map(|(path, _)| path.to_owned()).collect()
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
