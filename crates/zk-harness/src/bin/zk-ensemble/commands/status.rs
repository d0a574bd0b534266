//! `list`, `status` and `env` print the state of ensembles.

use std::fmt::Write as _;
use std::process::ExitCode;

use zk_harness::{Ensemble, ProcessState};

use super::network;
use crate::args::EnvFormat;
use crate::network_state::Files;
use crate::output::print;
use crate::store::Store;
use crate::undo::quoted;
use crate::{credentials, tables};

pub(crate) async fn list(store: &Store) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for name in store.names()? {
        match store.open(&name) {
            Ok(ensemble) => {
                let status = ensemble.status().await;
                rows.push((name, ensemble, status));
            }
            Err(error) if Ensemble::exists(&store.directory(&name)) => {
                code = crate::report(&error);
            }
            // It was taken down meanwhile.
            Err(_) => {}
        }
    }
    if !rows.is_empty() {
        print(&tables::ensembles(&rows))?;
    } else if code == ExitCode::SUCCESS {
        print("no ensembles\n")?;
    }
    Ok(code)
}

pub(crate) async fn status(store: &Store, name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let ensemble = store.open(name)?;
    let status = ensemble.status().await;
    if json {
        print(&tables::json(name, &ensemble, &status)?)?;
    } else {
        let mut text = tables::overview(name, &ensemble, &status)?;
        for server in &status.servers {
            if let (Some(problem), ProcessState::Running) = (&server.problem, server.process) {
                writeln!(text, "server {}: {problem}", server.id)?;
            }
        }
        if let Some(faults) = Files::new(ensemble.directory()).requested()?.describe() {
            writeln!(text, "network: {faults}")?;
        }
        if ensemble.has_proxies() && !network::are_reachable(&ensemble) {
            text.push_str("clients cannot connect: the process of the fault proxies has ended; `up` starts it again\n");
        }
        print(&text)?;
    }
    Ok(if status.health.serves() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub(crate) fn env(store: &Store, name: &str, format: EnvFormat) -> anyhow::Result<ExitCode> {
    let ensemble = store.open(name)?;
    let variables = credentials::variables(&ensemble)?;
    print(&match format {
        EnvFormat::Export => variables.iter().fold(String::new(), |text, (name, value)| {
            text + &format!("export {name}={}\n", quoted(value))
        }),
        EnvFormat::Value => format!("{}\n", credentials::connect_string(&ensemble)?),
        EnvFormat::Json => format!("{}\n", serde_json::json!(variables)),
    })
}
