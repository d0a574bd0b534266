//! Curator's service discovery in its own process.

use anyhow::Context as _;
use anyhow::ensure;

use super::curator::Curator;
use super::dialogue::Dialogue;
use super::dialogue::MAX_WAIT;
use super::run::QUICK;

/// A process that registers instances with Curator's service discovery, and tells which it finds.
///
/// The payload of its instances is an object of the class [`PAYLOAD_CLASS`](Self::PAYLOAD_CLASS) with a `zone` and a
/// `weight`.
///
/// # Dropping
///
/// The process is killed; its instances go when its session expires.
#[derive(Debug)]
pub struct PeerDiscovery(Dialogue);

impl PeerDiscovery {
    /// The Java class of the payloads.
    pub const PAYLOAD_CLASS: &str = "DiscoveryPeer$Meta";

    /// Starts a process for one service below `base`, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// Java cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(
        curator: &Curator,
        connect: &str,
        base: &str,
        service: &str,
    ) -> anyhow::Result<Self> {
        let mut program = curator.program(&QUICK, "DiscoveryPeer")?;
        let mut dialogue = Dialogue::start(program.args([connect, base, service]))?;
        let line = dialogue.line("that it is ready", MAX_WAIT).await?;
        ensure!(
            line.starts_with("ready "),
            "Curator's discovery began with {line:?}"
        );
        Ok(Self(dialogue))
    }

    /// Registers an instance.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn register(&mut self, id: &str, zone: &str, weight: u32) -> anyhow::Result<()> {
        let command = format!("register {id} {zone} {weight}");
        self.does(&command, "registered").await
    }

    /// Updates an instance that it has registered.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn update(&mut self, id: &str, zone: &str, weight: u32) -> anyhow::Result<()> {
        let command = format!("update {id} {zone} {weight}");
        self.does(&command, "updated").await
    }

    /// Unregisters an instance that it has registered.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn unregister(&mut self, id: &str) -> anyhow::Result<()> {
        self.does(&format!("unregister {id}"), "unregistered").await
    }

    /// Returns the instances that it finds, in the order of their ids: `id=zone:weight:enabled:uri`.
    ///
    /// # Errors
    ///
    /// Curator failed, also by an entry that it cannot read, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn list(&mut self) -> anyhow::Result<Vec<String>> {
        self.0.tell("list").await?;
        let line = self.0.line("what it finds", MAX_WAIT).await?;
        let found = line
            .strip_prefix("found")
            .with_context(|| format!("Curator's discovery said {line:?}"))?;
        Ok(found.split_whitespace().map(str::to_owned).collect())
    }

    async fn does(&mut self, command: &str, answer: &str) -> anyhow::Result<()> {
        self.0.tell(command).await?;
        let line = self.0.line(answer, MAX_WAIT).await?;
        ensure!(
            line == answer,
            "Curator's discovery said {line:?} instead of {answer}"
        );
        Ok(())
    }
}
