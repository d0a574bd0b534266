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
        let received = match response.status() {
            StatusCode::OK => {
                File::create(part).and_then(|file| receive(response, file, 0, progress))
            }
            StatusCode::PARTIAL_CONTENT if have > 0 && start_of_range(&response) == Some(have) => {
                let file = File::options().append(true).open(part);
                file.and_then(|file| receive(response, file, have, progress))
            }
            // The server has another file, or does not understand: start over.
            StatusCode::PARTIAL_CONTENT if have > 0 => fs::remove_file(part).map(|()| false),
            // The server has no more bytes; the checksum decides.
            StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => return Ok(()),
            other => return Err(format!("the server answered {other}")),
        };
        match received {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => {
                tracing::info!(%error, url, "the download broke off");
                broken = error.to_string();
            }
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

/// Writes the body behind the `done` bytes of a file; returns that it is complete.
fn receive(
    response: Response<Body>,
    mut file: File,
    mut done: u64,
    progress: &dyn Fn(u64, Option<u64>),
) -> io::Result<bool> {
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
        _ => Ok(true),
    }
}
