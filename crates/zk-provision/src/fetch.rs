//! Downloads a file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use ureq::http::StatusCode;
use ureq::{Agent, Body};

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const STALL_LIMIT: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How often a download begins, if the connection breaks.
const ATTEMPTS: u32 = 4;

/// Downloads `url` to the file `to`.
pub(super) fn fetch(
    url: &str,
    to: &Path,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), String> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_LIMIT))
        .timeout_recv_response(Some(ANSWER_LIMIT))
        .timeout_per_read(Some(STALL_LIMIT))
        .timeout_global(Some(LIMIT))
        .user_agent(concat!("zk-harness/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut broken = String::new();
    for _ in 0..ATTEMPTS {
        let response = agent.get(url).call().map_err(|error| error.to_string())?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(format!("the server answered {status}"));
        }
        match receive(response.into_body(), to, progress) {
            Ok(()) => return Ok(()),
            Err(error) => {
                tracing::info!(%error, url, "the download broke off");
                broken = error.to_string();
            }
        }
    }
    Err(format!(
        "the download broke off {ATTEMPTS} times ({broken})"
    ))
}

/// Writes the body to a file.
fn receive(body: Body, to: &Path, progress: &dyn Fn(u64, Option<u64>)) -> io::Result<()> {
    let mut file = File::create(to)?;
    let total = body.content_length();
    let mut reader = body.into_reader();
    let mut buffer = vec![0; 1 << 16];
    let mut done = 0;
    loop {
        progress(done, total);
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        file.write_all(&buffer[..read])?;
        done += read as u64;
    }
    match total {
        Some(total) if done != total => {
            Err(io::Error::other(format!("{done} of {total} bytes came")))
        }
        _ => Ok(()),
    }
}
