//! `serve` listens until a signal arrives.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use zk_sim::{Chaos, Ensemble};

use crate::args::ServeArgs;
use crate::fault::{Fault, parse_script};

pub(crate) fn serve(options: &ServeArgs) -> anyhow::Result<()> {
    let faults = faults(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // From here on a signal ends it in good order.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let ensemble = Ensemble::builder()
            .servers(options.servers.into())
            .seed(options.seed)
            .reap_every(REAP_EVERY)
            .build();
        for fault in &faults {
            fault.inject(&ensemble);
        }
        let listener = ensemble.listen_from(options.port).await.with_context(|| {
            format!("cannot listen on port {} and those after it", options.port)
        })?;
        print(&listener.connect_string())?;
        let chaos = async {
            if options.chaos {
                loop {
                    drop(Chaos::default().run(&ensemble).await);
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = chaos => {}
        }
        Ok(())
    })
}

/// Returns the failures of the command line and of the script, which is read before anything listens.
fn faults(options: &ServeArgs) -> anyhow::Result<Vec<Fault>> {
    let mut faults = options.faults.clone();
    if let Some(file) = &options.script {
        faults.extend(script(file)?);
    }
    Ok(faults)
}

fn script(file: &Path) -> anyhow::Result<Vec<Fault>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse_script(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
}

fn print(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// How often the leader deletes empty containers and expired TTL nodes; real ones do it every minute.
const REAP_EVERY: Duration = Duration::from_secs(1);
