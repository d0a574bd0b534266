//! Downloads a file, and resumes an earlier partial download.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use ureq::http::header::{CONTENT_RANGE, RANGE};
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const STALL_LIMIT: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How many broken connections in a row are resumed.
const ATTEMPTS: u32 = 4;

/// What to do with a response, given the bytes of an earlier download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// The body is the whole file.
    Whole,
    /// The body is the rest.
    Rest,
    /// The partial file has all that the server has; its checksum decides.
    Complete,
    /// The partial file does not match: delete it and start over.
    StartOver,
}

/// Downloads `url` to `part`.
///
/// On failure, the received bytes stay in `part` for the next attempt or process.
pub(super) fn fetch(
    url: &str,
    part: &Path,
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
        let have = fs::metadata(part).map_or(0, |metadata| metadata.len());
        let mut request = agent.get(url);
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let response = request.call().map_err(|error| error.to_string())?;
        let plan = plan(response.status(), start_of_range(&response), have)?;
        match plan {
            Plan::Complete => return Ok(()),
            Plan::StartOver => {
                fs::remove_file(part)
                    .map_err(|error| format!("cannot remove {}: {error}", part.display()))?;
            }
            Plan::Whole | Plan::Rest => match receive(response, plan, have, part, progress) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::info!(%error, url, "the download broke off");
                    broken = error.to_string();
                }
            },
        }
    }
    let have = fs::metadata(part).map_or(0, |metadata| metadata.len());
    Err(format!(
        "the download broke off {ATTEMPTS} times ({broken}); {have} bytes are kept, run it again to go on"
    ))
}

/// The first byte of `bytes 100-199/200`.
fn start_of_range(response: &Response<Body>) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (start, _) = range.strip_prefix("bytes ")?.split_once('-')?;
    start.parse().ok()
}

fn plan(status: StatusCode, start: Option<u64>, have: u64) -> Result<Plan, String> {
    match status {
        StatusCode::OK => Ok(Plan::Whole),
        StatusCode::PARTIAL_CONTENT if have > 0 && start == Some(have) => Ok(Plan::Rest),
        StatusCode::PARTIAL_CONTENT if have > 0 => Ok(Plan::StartOver),
        StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => Ok(Plan::Complete),
        other => Err(format!("the server answered {other}")),
    }
}

fn receive(
    response: Response<Body>,
    plan: Plan,
    have: u64,
    part: &Path,
    progress: &dyn Fn(u64, Option<u64>),
) -> io::Result<()> {
    let (mut file, mut done) = if plan == Plan::Rest {
        (File::options().append(true).open(part)?, have)
    } else {
        (File::create(part)?, 0)
    };
    let body = response.into_body();
    let total = body.content_length().map(|length| done + length);
    let mut reader = body.into_reader();
    let mut buffer = vec![0; 1 << 16];
    progress(done, total);
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        file.write_all(&buffer[..read])?;
        done += read as u64;
        progress(done, total);
    }
    match total {
        Some(total) if done != total => {
            Err(io::Error::other(format!("{done} of {total} bytes came")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
