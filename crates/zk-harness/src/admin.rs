//! Sends four-letter words to a server and parses the answers.
//!
//! A ZooKeeper server answers a few four-letter words on its client port.
//! [`four_letter`] returns the raw text; [`srvr()`], [`mntr()`], [`cons()`] and [`wchs()`] return what tests read of it.
//! Each parsed type also implements [`FromStr`](std::str::FromStr), so that a captured text can be judged without a
//! server.
//!
//! - Only `srvr` is answered by every server: the others need `4lw.commands.whitelist` in the server's
//!   configuration, otherwise the answer is [`AdminError::NotWhitelisted`].
//! - A server without a quorum answers with [`AdminError::NotServing`]; only to `ruok` it answers `imok`.
//!
//! ```no_run
//! use std::time::Duration;
//! use zk_harness::admin::{self, Mode};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let srvr = admin::srvr("127.0.0.1:2181".parse()?, Duration::from_secs(2)).await?;
//! if srvr.mode == Mode::Leader {
//!     println!("leads epoch {} at zxid {:#x}", srvr.epoch(), srvr.zxid);
//! }
//! # Ok(())
//! # }
//! ```

mod cons;
mod error;
mod mntr;
mod srvr;
mod text;
mod wchs;

pub use cons::Cons;
pub use error::AdminError;
pub use mntr::Mntr;
pub use srvr::{Mode, Srvr};
pub use wchs::Wchs;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Sends a four-letter word to the server at `addr` and returns its answer.
///
/// `within` limits the whole call: connecting, sending and reading up to the end of the answer.
///
/// # Errors
///
/// [`AdminError::InvalidWord`] without a connection if `word` is not four ASCII letters, because a server would
/// interpret it as the length of a request.
/// [`AdminError::Refused`], [`AdminError::TimedOut`] and [`AdminError::Io`] for a server that cannot be reached,
/// [`AdminError::NoAnswer`] for one that closes the connection without an answer.
/// A textual refusal, such as the one about the whitelist, is an answer here and an error only in the parsing functions.
///
/// # Cancel safety
///
/// Safe: the connection is closed, and the server keeps no state.
pub async fn four_letter(
    addr: SocketAddr,
    word: &str,
    within: Duration,
) -> Result<String, AdminError> {
    if word.len() != 4 || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(AdminError::InvalidWord {
            word: word.to_owned(),
        });
    }
    let mut waiting_for = "a connection";
    match timeout(within, exchange(addr, word, &mut waiting_for)).await {
        Ok(Ok(answer)) if answer.is_empty() => Err(AdminError::NoAnswer {
            addr,
            word: word.to_owned(),
        }),
        Ok(Ok(answer)) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Ok(Err(source)) if source.kind() == io::ErrorKind::ConnectionRefused => {
            Err(AdminError::Refused { addr, source })
        }
        Ok(Err(source)) => Err(AdminError::Io {
            addr,
            word: word.to_owned(),
            waiting_for,
            source,
        }),
        Err(_) => Err(AdminError::TimedOut {
            addr,
            word: word.to_owned(),
            waiting_for,
            within,
        }),
    }
}

/// Does the I/O; `waiting_for` always names the current step.
async fn exchange(
    addr: SocketAddr,
    word: &str,
    waiting_for: &mut &'static str,
) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    *waiting_for = "the word to be sent";
    stream.write_all(word.as_bytes()).await?;
    *waiting_for = "the end of the answer";
    let mut answer = Vec::new();
    // No half-close after the word: a server may then close the connection before it answers.
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    if answer.len() as u64 == MAX_ANSWER {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the answer exceeds {MAX_ANSWER} bytes"),
        ));
    }
    Ok(answer)
}

/// Sends `srvr`: version, zxid and role of one server.
///
/// # Errors
///
/// The errors of [`four_letter`], [`AdminError::NotServing`] while the server has no quorum, and
/// [`AdminError::Unexpected`] for a text that is not an answer to `srvr`.
///
/// # Cancel safety
///
/// Safe, as [`four_letter`].
pub async fn srvr(addr: SocketAddr, within: Duration) -> Result<Srvr, AdminError> {
    four_letter(addr, "srvr", within).await?.parse()
}

/// Sends `mntr`: the server's metrics.
///
/// # Errors
///
/// The errors of [`srvr()`], and [`AdminError::NotWhitelisted`].
///
/// # Cancel safety
///
/// Safe, as [`four_letter`].
pub async fn mntr(addr: SocketAddr, within: Duration) -> Result<Mntr, AdminError> {
    four_letter(addr, "mntr", within).await?.parse()
}

/// Sends `cons`: the sessions that are connected to the server.
///
/// # Errors
///
/// The errors of [`srvr()`], and [`AdminError::NotWhitelisted`].
///
/// # Cancel safety
///
/// Safe, as [`four_letter`].
pub async fn cons(addr: SocketAddr, within: Duration) -> Result<Cons, AdminError> {
    four_letter(addr, "cons", within).await?.parse()
}

/// Sends `wchs`, for the number of watches of this server.
///
/// # Errors
///
/// The errors of [`srvr()`], and [`AdminError::NotWhitelisted`].
///
/// # Cancel safety
///
/// Safe, as [`four_letter`].
pub async fn wchs(addr: SocketAddr, within: Duration) -> Result<Wchs, AdminError> {
    four_letter(addr, "wchs", within).await?.parse()
}

/// More than any server has to say (`wchp` of a million watches is about 50 MB); a bound for anything else that
/// happens to listen there.
const MAX_ANSWER: u64 = 64 << 20;

#[cfg(test)]
mod tests;
