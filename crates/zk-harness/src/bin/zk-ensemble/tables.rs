//! Renders the state of ensembles: as tables, summaries and JSON.

use std::path::Path;

use crate::credentials;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use zk_harness::{Ensemble, Health, ProcessState, Role, ServerStatus, StartReport, Status};

/// The output of `status --json`; the names and their order are fixed.
#[derive(Serialize)]
struct StatusJson<'a> {
    name: &'a str,
    connect: &'a str,
    servers: Vec<ServerJson<'a>>,
}

#[derive(Serialize)]
struct ServerJson<'a> {
    id: u32,
    role: Option<Role>,
    state: &'static str,
    /// `None` for a stopped container.
    client_port: Option<u16>,
    pid: Option<i32>,
    dir: &'a Path,
    /// Only for a server in a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
}

/// Renders the summary of an ensemble, the table of its servers, and how to connect.
pub(crate) fn overview(name: &str, ensemble: &Ensemble, status: &Status) -> anyhow::Result<String> {
    Ok(format!(
        "{}\n{}connect: {}\n{}",
        summary(name, ensemble, status),
        servers(status),
        credentials::connect_string(ensemble)?,
        credentials::hint(ensemble)?,
    ))
}

/// Renders a table of the servers.
fn servers(status: &Status) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut servers = status.servers.iter();
    let in_containers = servers.any(|server| server.container.is_some());
    let process = if in_containers { "container" } else { "pid" };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    table.set_header(["id", "role", "state", "client port", process, "directory"]);
    for server in &status.servers {
        table.add_row([
            server.id.to_string(),
            or_dash(server.role.map(|role| role.to_string())),
            state(server).to_owned(),
            or_dash(port(server).map(|port| port.to_string())),
            or_dash(match &server.container {
                Some(name) => Some(name.clone()),
                None => server.pid.map(|pid| pid.to_string()),
            }),
            server.directory.display().to_string(),
        ]);
    }
    for column in [0, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    trimmed(&table)
}

/// Renders a table of ensembles: name, version, running servers, quorum, connection string.
pub(crate) fn ensembles(rows: &[(String, Ensemble, Status)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["name", "version", "running", "quorum", "connect"]);
    for (name, ensemble, status) in rows {
        let is_serving = status.health.serves();
        table.add_row([
            name.clone(),
            version(ensemble, status).to_owned(),
            format!("{} of {}", running(status), status.servers.len()),
            if is_serving { "serves" } else { "none" }.to_owned(),
            ensemble.connect_string(),
        ]);
    }
    trimmed(&table)
}

/// Renders the summary of an ensemble on one line.
fn summary(name: &str, ensemble: &Ensemble, status: &Status) -> String {
    let total = status.servers.len();
    let serving = status
        .servers
        .iter()
        .filter(|server| server.role.is_some())
        .count();
    let health = match status.health {
        Health::Down => "no quorum serves".to_owned(),
        _ if serving == total && total == 1 => "its server serves".to_owned(),
        _ if serving == total => format!("all {total} servers serve"),
        _ => format!("a quorum serves, {serving} of {total} servers"),
    };
    let place = if ensemble.is_in_containers() {
        " in containers"
    } else {
        ""
    };
    format!(
        "ensemble {name}: ZooKeeper {}{place}, {health}",
        version(ensemble, status)
    )
}

/// Returns the version that the servers report, because a container image may have its own.
fn version<'a>(ensemble: &'a Ensemble, status: &'a Status) -> &'a str {
    let reported = status
        .servers
        .iter()
        .find_map(|server| server.version.as_deref());
    reported.unwrap_or_else(|| ensemble.version())
}

/// Renders the status as one line of JSON.
pub(crate) fn json(name: &str, ensemble: &Ensemble, status: &Status) -> anyhow::Result<String> {
    let servers = status
        .servers
        .iter()
        .map(|server| ServerJson {
            id: server.id,
            role: server.role,
            state: state(server),
            client_port: port(server),
            pid: server.pid,
            dir: &server.directory,
            container: server.container.as_deref(),
        })
        .collect();
    let text = serde_json::to_string(&StatusJson {
        name,
        connect: &ensemble.connect_string(),
        servers,
    })?;
    Ok(text + "\n")
}

/// Renders the durations of the steps of a start.
pub(crate) fn report(report: &StartReport) -> String {
    format!(
        "{:.2} s (finding ZooKeeper {:.2}, files {:.2}, servers {:.2}, election {:.2}, probes {:.2})",
        report.total.as_secs_f64(),
        report.find.as_secs_f64(),
        report.prepare.as_secs_f64(),
        report.processes.as_secs_f64(),
        report.election.as_secs_f64(),
        report.probe.as_secs_f64(),
    )
}

/// Returns how many servers run.
pub(crate) fn running(status: &Status) -> usize {
    let servers = status.servers.iter();
    servers
        .filter(|server| server.process == ProcessState::Running)
        .count()
}

fn port(server: &ServerStatus) -> Option<u16> {
    (server.client_port != 0).then_some(server.client_port)
}

fn state(server: &ServerStatus) -> &'static str {
    match (server.process, server.role) {
        (ProcessState::Stopped, _) => "stopped",
        (ProcessState::Paused, _) => "paused",
        (_, Some(_)) => "serving",
        (_, None) => "not serving",
    }
}

fn trimmed(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
