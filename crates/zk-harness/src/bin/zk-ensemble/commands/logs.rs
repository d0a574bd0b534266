//! `logs` prints the servers' logs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use zk_harness::{Ensemble, Selector, Server};

use crate::output::note;
use crate::store::Store;

pub(crate) async fn logs(
    store: &Store,
    name: &str,
    which: Option<Selector>,
    follow: bool,
    lines: usize,
) -> anyhow::Result<ExitCode> {
    let ensemble = store.open(name)?;
    let servers = ensemble.select(which.unwrap_or(Selector::All)).await?;
    for server in &servers {
        server.follow_log().await?;
    }
    let prefixed = servers.len() > 1;
    let mut offsets = BTreeMap::new();
    let mut first = true;
    loop {
        for server in &servers {
            let offset = offsets.entry(server.id()).or_insert(0);
            let mut text = read_from(server, offset, follow)?;
            if first && lines > 0 {
                let all: Vec<_> = text.lines().collect();
                text = all[all.len().saturating_sub(lines)..].join("\n");
            }
            let prefix = if prefixed {
                format!("[{}] ", server.id())
            } else {
                String::new()
            };
            let mut out = io::stdout().lock();
            for line in text.lines() {
                writeln!(out, "{prefix}{line}")?;
            }
            out.flush()?;
        }
        first = false;
        if !follow {
            return Ok(ExitCode::SUCCESS);
        }
        if !Ensemble::exists(ensemble.directory()) {
            note(&format!("the ensemble {name} is down"));
            return Ok(ExitCode::SUCCESS);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two reads of the logs"
        )]
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns what was added to the log since `offset`; only complete lines if `more_may_come`.
fn read_from(server: &Server, offset: &mut u64, more_may_come: bool) -> anyhow::Result<String> {
    let path = server.log_file();
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    file.seek(SeekFrom::Start(*offset))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if more_may_come {
        bytes.truncate(
            bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1),
        );
    }
    *offset += bytes.len() as u64;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
