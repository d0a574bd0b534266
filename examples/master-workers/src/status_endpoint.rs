//! A door at which a process says what it did last, to whoever knocks; processes are found by discovery.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_core::Session;
use zk_discovery::BuildError;
use zk_discovery::Instance;
use zk_discovery::Picked;
use zk_discovery::ProviderOptions;
use zk_discovery::Registry;
use zk_discovery::RoundRobin;

use crate::pause::pause;
use crate::reporter::Reporter;
use crate::tree::Tree;

/// A door on this machine.
///
/// It is open to this machine alone, and so is the address that others find: the walk takes place on one.
/// Over several machines a process listens at an address that the others can reach, and registers that one, which it has
/// to be told: a machine has many, and knows of none how it looks from outside.
#[derive(Debug)]
pub struct StatusEndpoint {
    listener: TcpListener,
    port: u16,
}

impl StatusEndpoint {
    /// Opens a door at a port that is free.
    ///
    /// # Errors
    ///
    /// When there is none.
    ///
    /// # Cancel safety
    ///
    /// Safe: no door is open.
    pub async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Tells whoever knocks the last line of `reporter`, one after the other.
    pub(crate) async fn answer(&self, reporter: &Reporter) {
        loop {
            match self.listener.accept().await {
                Ok((mut visitor, _)) => {
                    let answer = reporter.last();
                    let told = visitor.write_all(answer.as_bytes());
                    // Who does not listen is not waited for.
                    drop(timeout(PATIENCE, told).await);
                }
                // It will not help to try again at once.
                Err(_) => pause(PATIENCE).await,
            }
        }
    }

    /// Describes the process behind this endpoint, to be found.
    pub(crate) fn instance(&self, reporter: &Reporter) -> Result<Instance<String>, BuildError> {
        Instance::builder(SERVICE, reporter.name().to_owned())
            .address(Ipv4Addr::LOCALHOST.to_string())
            .port(self.port)
            .build()
    }
}

/// Asks processes, one after the other, `count` times in all, and returns what they answer.
///
/// A process that does not answer is passed over, and left alone for a time when it does so again: it may have been killed
/// a moment ago, and is found until its session has expired.
///
/// # Errors
///
/// When there is no process, or none that answers.
///
/// # Cancel safety
///
/// Safe, nothing happened.
///
/// # Session loss
///
/// An error.
pub async fn ask(session: &Session, tree: &Tree, count: usize) -> anyhow::Result<Vec<String>> {
    let registry = Registry::new(session, tree.services())?;
    let processes = registry.providers_with::<String>(SERVICE, ProviderOptions::default())?;
    processes.synchronized().await?;
    let turn = RoundRobin::anywhere();
    let mut answers = Vec::new();
    let mut silent = 0;
    while answers.len() < count {
        let process = processes.pick(&turn).context("nobody can be asked")?;
        match query(&process).await {
            Ok(answer) => {
                silent = 0;
                answers.push(answer);
            }
            Err(error) => {
                silent += 1;
                let name = process.payload().clone();
                process.failed();
                if silent > processes.instances().len() {
                    return Err(error.context(format!("nobody answers, the last one was {name}")));
                }
            }
        }
    }
    Ok(answers)
}

/// Hears what a process has to say.
async fn query(process: &Picked<String>) -> anyhow::Result<String> {
    let (Some(address), Some(port)) = (process.address(), process.port()) else {
        anyhow::bail!("{} has no door", process.payload());
    };
    let hearing = async {
        let stream = TcpStream::connect((address, port)).await?;
        read_answer(stream).await
    };
    Ok(timeout(PATIENCE, hearing)
        .await
        .with_context(|| format!("waited {PATIENCE:?} for an answer"))??)
}

/// Reads an answer to its end. By now somebody else may be at that port, and have much to say.
async fn read_answer(visited: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut visited = visited.take(LONGEST_ANSWER);
    visited.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The name of the service that each process is an instance of.
const SERVICE: &str = "processes";
/// How many bytes of an answer are listened to.
const LONGEST_ANSWER: u64 = 64 * 1024;
/// For what takes moments on one machine.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_does_not_stop_talking_is_listened_to_for_a_while() {
        let endless = timeout(PATIENCE, read_answer(tokio::io::repeat(b'x'))).await;
        let answer = endless.expect("it is not listened to for ever").unwrap();
        assert_eq!(answer, "x".repeat(64 * 1024));
        // Where it is cut may be in the middle of a letter.
        let cut = read_answer("is ü".as_bytes().take(4)).await.unwrap();
        assert_eq!(cut, "is \u{fffd}");
    }
}
