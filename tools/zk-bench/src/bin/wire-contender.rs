//! Acquires the client crate's own lock on command, with the same commands as `tests/java/Contender.java`.
//!
//! ```text
//! wire-contender CONNECT PATH SESSION_TIMEOUT_MS
//! ```

#![expect(clippy::print_stdout, reason = "the replies to the commands")]

use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use zk_tests::peers::monotonic;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let mut arg = |name: &str| args.next().with_context(|| format!("{name} is missing"));
    let (connect, path) = (arg("CONNECT")?, arg("PATH")?);
    let timeout = Duration::from_millis(arg("SESSION_TIMEOUT_MS")?.parse()?);
    let client = Client::connector()
        .with_session_timeout(timeout)
        .connect(&connect)
        .await?;
    println!("ready {:x}", client.session_id().0);
    let mut held = None;
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = commands.next_line().await? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["acquire", wait] => {
                let wait = Duration::from_millis(wait.parse()?);
                let prefix = LockPrefix::new_curator(&path, "lock-")?;
                let parents = CreateMode::Persistent.with_acls(Acls::anyone_all());
                let options =
                    LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
                match tokio::time::timeout(wait, client.lock(prefix, b"", options)).await {
                    Ok(Ok(lock)) => {
                        held = Some(lock);
                        println!("acquired {}", monotonic().as_nanos());
                    }
                    Ok(Err(error)) => println!("failed {error}"),
                    Err(_) => println!("timeout {}", monotonic().as_nanos()),
                }
            }
            ["release"] => {
                let before = monotonic();
                // Its nodes are deleted in the background.
                drop(held.take());
                println!("released {}", before.as_nanos());
            }
            ["quit"] => {
                drop(held.take());
                // The session ends with the client, which is dropped at the end of `main`.
                println!("bye");
                return Ok(());
            }
            _ => println!("failed unknown command {line}"),
        }
    }
    anyhow::bail!("the input ended without the command quit")
}
