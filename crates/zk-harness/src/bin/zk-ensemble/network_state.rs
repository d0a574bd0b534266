//! Defines the requested state of the network around the servers, which commands write to a file and the process of the
//! fault proxies applies.
//!
//! The file contains a state and no actions, so that a restarted process can apply it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use zk_fault_proxy::links::Conditions;

/// A state of the network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Network {
    /// The number of changes so far.
    pub(crate) generation: u64,
    /// The links that are blocked, delayed or limited.
    #[serde(rename = "ways")]
    pub(crate) links: Vec<LinkFault>,
    /// Servers that clients cannot connect to.
    pub(crate) unreachable: BTreeSet<u32>,
    /// How often a cut of a server's client connections was requested.
    pub(crate) cuts: BTreeMap<u32, u64>,
}

/// The faults of one direction between two servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkFault {
    pub(crate) from: u32,
    pub(crate) to: u32,
    #[serde(default)]
    pub(crate) blocked: bool,
    /// Milliseconds.
    #[serde(default)]
    pub(crate) delay: u64,
    /// Milliseconds.
    #[serde(default)]
    pub(crate) jitter: u64,
    /// Bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u64>,
}

/// The part of a server's network that is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Everything.
    Isolated,
    /// The links to and from the other servers; clients can connect.
    Peers,
    /// The links from the other servers.
    Inbound,
    /// The links to the other servers.
    Outbound,
}

impl Network {
    /// Cuts a server off.
    pub(crate) fn partition(&mut self, server: u32, others: &[u32], cut: Cut) {
        for &other in others {
            if cut != Cut::Inbound {
                self.link(server, other).blocked = true;
            }
            if cut != Cut::Outbound {
                self.link(other, server).blocked = true;
            }
        }
        if cut == Cut::Isolated {
            self.unreachable.insert(server);
            self.cut(server);
        }
    }

    /// Delays and limits the links between a server and the others.
    pub(crate) fn slow(
        &mut self,
        server: u32,
        others: &[u32],
        (delay, jitter, rate): (u64, u64, Option<u64>),
    ) {
        for &other in others {
            for (from, to) in [(server, other), (other, server)] {
                let link = self.link(from, to);
                (link.delay, link.jitter, link.rate) = (delay, jitter, rate);
            }
        }
    }

    /// Cuts the connections of a server's clients, once.
    pub(crate) fn cut(&mut self, server: u32) {
        *self.cuts.entry(server).or_default() += 1;
    }

    /// Removes all faults.
    pub(crate) fn heal(&mut self) {
        self.links.clear();
        self.unreachable.clear();
    }

    /// Describes the faults; `None` if there are none.
    pub(crate) fn describe(&self) -> Option<String> {
        let mut parts = Vec::new();
        for link in &self.links {
            let LinkFault { from, to, .. } = link;
            let what = match (link.blocked, link.rate) {
                (true, _) => "blocked".to_owned(),
                (false, None) => format!("{} ms late", link.delay),
                (false, Some(rate)) => format!("{} ms late, {rate} bytes/s", link.delay),
            };
            parts.push(format!("{from} to {to} {what}"));
        }
        for server in &self.unreachable {
            parts.push(format!("{server} out of reach of clients"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Returns the conditions of the link from one server to another.
    pub(crate) fn conditions(&self, from: u32, to: u32) -> Conditions {
        let link = self.position(from, to).map(|at| self.links[at]);
        let link = link.unwrap_or_default();
        Conditions {
            delay: Duration::from_millis(link.delay),
            jitter: Duration::from_millis(link.jitter),
            rate: link.rate,
            blocked: link.blocked,
        }
    }

    fn link(&mut self, from: u32, to: u32) -> &mut LinkFault {
        let at = self.position(from, to).unwrap_or_else(|| {
            self.links.push(LinkFault {
                from,
                to,
                ..LinkFault::default()
            });
            self.links.len() - 1
        });
        &mut self.links[at]
    }

    fn position(&self, from: u32, to: u32) -> Option<usize> {
        let mut links = self.links.iter();
        links.position(|link| (link.from, link.to) == (from, to))
    }
}

/// The files of one ensemble's network.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// Returns the requested state; by default, without faults.
    pub(crate) fn requested(&self) -> anyhow::Result<Network> {
        read(&self.directory.join(REQUESTED))
    }

    /// Returns the state that the process of the proxies has applied.
    pub(crate) fn applied(&self) -> anyhow::Result<Network> {
        read(&self.directory.join(APPLIED))
    }

    pub(crate) fn request(&self, network: &Network) -> anyhow::Result<()> {
        write(&self.directory.join(REQUESTED), network)
    }

    pub(crate) fn set_applied(&self, network: &Network) -> anyhow::Result<()> {
        write(&self.directory.join(APPLIED), network)
    }

    /// Returns the log file of the process of the proxies.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("proxies.log")
    }

    /// Takes the lock that the process of the proxies holds while it runs; `None` if it is taken.
    pub(crate) fn lock(&self) -> anyhow::Result<Option<File>> {
        let path = self.directory.join("proxies.lock");
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Waits until the process of the proxies has applied `generation`.
    pub(crate) async fn until_applied(&self, generation: u64) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + APPLIED_WITHIN;
        loop {
            if self.applied()?.generation >= generation {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                bail!(
                    "the process of the fault proxies does not answer; `up` starts it again if it is gone; its log is {}",
                    self.log().display()
                );
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the pause between two reads of the file"
            )]
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Network> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is not a valid network file; remove it", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Network::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write(path: &Path, network: &Network) -> anyhow::Result<()> {
    let draft = path.with_extension("new");
    let text = serde_json::to_string(network)?;
    // Renamed when complete, so that a reader never sees a part of it.
    fs::write(&draft, text)
        .and_then(|()| fs::rename(&draft, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

const REQUESTED: &str = "network.json";
const APPLIED: &str = "network-applied.json";
const APPLIED_WITHIN: Duration = Duration::from_secs(10);
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_blocks_its_links_and_heals() {
        let blocked_links = |cut| {
            let mut network = Network::default();
            network.partition(2, &[1, 3], cut);
            let mut links: Vec<_> = network
                .links
                .iter()
                .map(|link| (link.from, link.to))
                .collect();
            links.sort_unstable();
            (links, network.unreachable.contains(&2))
        };
        let all = vec![(1, 2), (2, 1), (2, 3), (3, 2)];
        assert_eq!(blocked_links(Cut::Isolated), (all.clone(), true));
        assert_eq!(blocked_links(Cut::Peers), (all, false));
        assert_eq!(blocked_links(Cut::Inbound), (vec![(1, 2), (3, 2)], false));
        assert_eq!(blocked_links(Cut::Outbound), (vec![(2, 1), (2, 3)], false));

        let mut network = Network::default();
        network.partition(1, &[2], Cut::Isolated);
        network.slow(1, &[2], (30, 5, Some(1000)));
        assert_eq!(
            network.describe().unwrap(),
            "1 to 2 blocked; 2 to 1 blocked; 1 out of reach of clients"
        );
        network.heal();
        assert_eq!(network.describe(), None);
        network.slow(1, &[2], (30, 5, Some(1000)));
        assert_eq!(
            network.describe().unwrap(),
            "1 to 2 30 ms late, 1000 bytes/s; 2 to 1 30 ms late, 1000 bytes/s"
        );
    }

    #[test]
    fn a_written_state_is_read_and_a_missing_one_has_no_faults() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(directory.path());
        assert_eq!(files.requested().unwrap(), Network::default());
        let mut network = Network::default();
        network.partition(1, &[2, 3], Cut::Outbound);
        network.cut(3);
        files.request(&network).unwrap();
        assert_eq!(files.requested().unwrap(), network);
        let lock = files.lock().unwrap();
        assert!(lock.is_some() && files.lock().unwrap().is_none());
    }
}
