//! Sends four-letter words to a server and parses the answers.
//!
//! A ZooKeeper server answers a few four-letter words on its client port.
//! [`four_letter`] returns the raw text; [`Srvr`], [`Mntr`], [`Cons`] and [`Wchs`] have what tests read of it, and parse it
//! from the text. [`Server`](crate::Server) has a method for each.
//!
//! - Only `srvr` is answered by every server: the others need `4lw.commands.whitelist` in the server's
//!   configuration, otherwise the answer is [`AdminError::NotWhitelisted`].
//! - A server without a quorum answers with [`AdminError::NotServing`]; only to `ruok` it answers `imok`.
//!
//! ```no_run
//! use std::time::Duration;
//! use zk_harness::{Role, admin};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let srvr = admin::srvr("127.0.0.1:2181".parse()?, Duration::from_secs(2)).await?;
//! if srvr.mode == Role::Leader {
//!     println!("leads epoch {} at zxid {:#x}", srvr.epoch(), srvr.zxid);
//! }
//! # Ok(())
//! # }
//! ```

mod answers;
mod error;

pub use answers::{Cons, Mntr, Srvr, Wchs};
pub use error::AdminError;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
/// [`AdminError::NoAnswer`] for a server that cannot be reached in time, or closes the connection without an answer.
/// A textual refusal, such as the one about the whitelist, is an answer here and an error only in the parsing functions.
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
    let problem = match timeout(within, exchange(addr, word, &mut waiting_for)).await {
        Ok(Ok(answer)) if !answer.is_empty() => {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
        Ok(Ok(_)) => {
            "it closed the connection, because it does not know the word, is shutting down, or has reached maxClientCnxns"
                .to_owned()
        }
        Ok(Err(error)) => format!("{error}, while waiting for {waiting_for}"),
        Err(_) => format!("still waiting for {waiting_for} after {within:?}"),
    };
    Err(AdminError::NoAnswer {
        addr,
        word: word.to_owned(),
        problem,
    })
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
pub async fn srvr(addr: SocketAddr, within: Duration) -> Result<Srvr, AdminError> {
    four_letter(addr, "srvr", within).await?.parse()
}

/// More than any server has to say (`wchp` of a million watches is about 50 MB); a bound for anything else that
/// happens to listen there.
const MAX_ANSWER: u64 = 64 << 20;

#[cfg(test)]
mod tests;
