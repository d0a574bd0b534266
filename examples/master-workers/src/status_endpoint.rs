//! A TCP endpoint that reports a process's last action, and a client that finds endpoints by service discovery.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use zk_core::Session;
use zk_discovery::{BuildError, Instance, Picked, ProviderOptions, Registry, RoundRobin};

use crate::pause::pause;
use crate::reporter::Reporter;
use crate::tree::Tree;

/// A TCP endpoint on this machine that reports the last action of a process.
///
/// It listens on the loopback address and registers that address, because the walk-through runs on one machine.
/// On several machines a process listens on an address that the others can reach, and registers that one. The address
/// must be configured: a machine has several, and cannot tell which one is reachable from outside.
#[derive(Debug)]
pub struct StatusEndpoint {
    listener: TcpListener,
    port: u16,
}

impl StatusEndpoint {
    /// Listens on a free port.
    ///
    /// # Errors
    ///
    /// If no port can be bound.
    pub async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Sends the last line of `reporter` to each client, one client after the other.
    pub(crate) async fn answer(&self, reporter: &Reporter) {
        loop {
            match self.listener.accept().await {
                Ok((mut client, _)) => {
                    let answer = reporter.last();
                    let sent = client.write_all(answer.as_bytes());
                    // A client that does not read must not block the others.
                    drop(timeout(REQUEST_TIMEOUT, sent).await);
                }
                // An immediate retry would fail as well.
                Err(_) => pause(REQUEST_TIMEOUT).await,
            }
        }
    }

    /// Returns the instance that announces this endpoint.
    pub(crate) fn instance(&self, reporter: &Reporter) -> Result<Instance<String>, BuildError> {
        Instance::builder(SERVICE, reporter.name().to_owned())
            .address(Ipv4Addr::LOCALHOST.to_string())
            .port(self.port)
            .build()
    }
}

/// Queries processes in turn, `count` times in all, and returns their replies.
///
/// A process that does not reply is skipped, and ejected for a time if it fails repeatedly: a process that was just
/// killed is found until its session has expired.
///
/// # Errors
///
/// If there is no process, or none replies.
pub async fn ask(session: &Session, tree: &Tree, count: usize) -> anyhow::Result<Vec<String>> {
    let registry = Registry::new(session, &tree.services)?;
    let processes = registry.providers_with::<String>(SERVICE, ProviderOptions::default())?;
    processes.synchronized().await?;
    let turn = RoundRobin::anywhere();
    let mut answers = Vec::new();
    let mut silent = 0;
    while answers.len() < count {
        let process = processes.pick(&turn).context("no process can be queried")?;
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
                    return Err(
                        error.context(format!("no process replies; the last one tried was {name}"))
                    );
                }
            }
        }
    }
    Ok(answers)
}

/// Reads the reply of a process.
async fn query(process: &Picked<String>) -> anyhow::Result<String> {
    let (Some(address), Some(port)) = (process.address(), process.port()) else {
        anyhow::bail!("{} has no address and port", process.payload());
    };
    let reply = async {
        let stream = TcpStream::connect((address, port)).await?;
        read_answer(stream).await
    };
    Ok(timeout(REQUEST_TIMEOUT, reply)
        .await
        .with_context(|| format!("waited {REQUEST_TIMEOUT:?} for an answer"))??)
}

/// Reads a reply to its end, up to a limit: another program may be using the port by now.
async fn read_answer(stream: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut stream = stream.take(LONGEST_ANSWER);
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The name of the service that each process is an instance of.
const SERVICE: &str = "processes";
/// The maximum number of bytes read of a reply.
const LONGEST_ANSWER: u64 = 64 * 1024;
/// The limit for a request that takes milliseconds on one machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_endless_reply_is_cut_off() {
        let endless = timeout(REQUEST_TIMEOUT, read_answer(tokio::io::repeat(b'x'))).await;
        let answer = endless.expect("the reply is cut off").unwrap();
        assert_eq!(answer, "x".repeat(64 * 1024));
        // The cut may be in the middle of a character.
        let cut = read_answer("is ü".as_bytes().take(4)).await.unwrap();
        assert_eq!(cut, "is \u{fffd}");
    }
}
