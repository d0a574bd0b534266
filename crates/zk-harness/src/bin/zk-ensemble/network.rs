//! What is wanted of the network around the servers: a file that commands write and the proxies' process carries out.
//!
//! The file says how things are to be, not what to do: a process that starts anew makes it so again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

/// How the network is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Network {
    /// Rises with each change.
    pub(crate) generation: u64,
    /// What is different from a whole network, from the first server to the second.
    pub(crate) ways: Vec<Way>,
    /// Servers that no client reaches.
    pub(crate) unreachable: BTreeSet<u32>,
    /// How often the connections of a server's clients were to be cut so far.
    pub(crate) cuts: BTreeMap<u32, u64>,
}

/// One direction between two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Way {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Nothing passes.
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

/// Which part of a server's network is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Everything.
    Isolated,
    /// The other servers; clients reach it.
    Peers,
    /// What the others say to it.
    Deaf,
    /// What it says to the others.
    Mute,
}

impl Network {
    /// Cuts a server off.
    pub(crate) fn partition(&mut self, server: u32, others: &[u32], cut: Cut) {
        for &other in others {
            if cut != Cut::Deaf {
                self.way(server, other).blocked = true;
            }
            if cut != Cut::Mute {
                self.way(other, server).blocked = true;
            }
        }
        if cut == Cut::Isolated {
            self.unreachable.insert(server);
            self.cut(server);
        }
    }

    /// Makes all that a server and the others say to each other late, or slow.
    pub(crate) fn slow(
        &mut self,
        server: u32,
        others: &[u32],
        (delay, jitter, rate): (u64, u64, Option<u64>),
    ) {
        for &other in others {
            for (from, to) in [(server, other), (other, server)] {
                let way = self.way(from, to);
                (way.delay, way.jitter, way.rate) = (delay, jitter, rate);
            }
        }
    }

    /// Cuts the connections of a server's clients, once.
    pub(crate) fn cut(&mut self, server: u32) {
        *self.cuts.entry(server).or_default() += 1;
    }

    /// Makes the network whole.
    pub(crate) fn heal(&mut self) {
        self.ways.clear();
        self.unreachable.clear();
    }

    /// What is not whole, in words; nothing if all is.
    pub(crate) fn describe(&self) -> Option<String> {
        let mut parts = Vec::new();
        for way in &self.ways {
            let Way { from, to, .. } = way;
            let what = match (way.blocked, way.rate) {
                (true, _) => "blocked".to_owned(),
                (false, None) => format!("{} ms late", way.delay),
                (false, Some(rate)) => format!("{} ms late, {rate} bytes/s", way.delay),
            };
            parts.push(format!("{from} to {to} {what}"));
        }
        for server in &self.unreachable {
            parts.push(format!("{server} out of reach of clients"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn way(&mut self, from: u32, to: u32) -> &mut Way {
        let at = self
            .ways
            .iter()
            .position(|way| (way.from, way.to) == (from, to));
        let at = at.unwrap_or_else(|| {
            self.ways.push(Way {
                from,
                to,
                blocked: false,
                delay: 0,
                jitter: 0,
                rate: None,
            });
            self.ways.len() - 1
        });
        &mut self.ways[at]
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

    /// What is wanted; a whole network if nothing was said yet.
    pub(crate) fn wanted(&self) -> anyhow::Result<Network> {
        read(&self.directory.join(WANTED))
    }

    /// What the proxies' process has made so.
    pub(crate) fn applied(&self) -> anyhow::Result<Network> {
        read(&self.directory.join(APPLIED))
    }

    pub(crate) fn want(&self, network: &Network) -> anyhow::Result<()> {
        write(&self.directory.join(WANTED), network)
    }

    pub(crate) fn apply(&self, network: &Network) -> anyhow::Result<()> {
        write(&self.directory.join(APPLIED), network)
    }

    /// What the proxies' process prints.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("proxies.log")
    }

    /// Takes the lock that the proxies' process holds as long as it lives; nothing if somebody has it.
    pub(crate) fn lock(&self) -> anyhow::Result<Option<File>> {
        let path = self.directory.join("proxies.lock");
        let file =
            File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Waits until the proxies' process has made `generation` so.
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
                reason = "the pause between two looks at the file"
            )]
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Network> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is not as commands write it", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Network::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write(path: &Path, network: &Network) -> anyhow::Result<()> {
    let draft = path.with_extension("new");
    let text = serde_json::to_string(network)?;
    // Complete or absent: a reader never sees half of it.
    fs::write(&draft, text)
        .and_then(|()| fs::rename(&draft, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

const WANTED: &str = "network.json";
const APPLIED: &str = "network-applied.json";
const APPLIED_WITHIN: Duration = Duration::from_secs(10);
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    // covers: H7
    #[test]
    fn a_partition_blocks_what_it_says_and_heals() {
        let ways = |cut| {
            let mut network = Network::default();
            network.partition(2, &[1, 3], cut);
            let mut ways: Vec<_> = network.ways.iter().map(|way| (way.from, way.to)).collect();
            ways.sort_unstable();
            (ways, network.unreachable.contains(&2))
        };
        let all = vec![(1, 2), (2, 1), (2, 3), (3, 2)];
        assert_eq!(ways(Cut::Isolated), (all.clone(), true));
        assert_eq!(ways(Cut::Peers), (all, false));
        assert_eq!(ways(Cut::Deaf), (vec![(1, 2), (3, 2)], false));
        assert_eq!(ways(Cut::Mute), (vec![(2, 1), (2, 3)], false));

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
    fn what_is_written_is_read_and_nothing_is_a_whole_network() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(directory.path());
        assert_eq!(files.wanted().unwrap(), Network::default());
        let mut network = Network::default();
        network.partition(1, &[2, 3], Cut::Mute);
        network.cut(3);
        files.want(&network).unwrap();
        assert_eq!(files.wanted().unwrap(), network);
        let lock = files.lock().unwrap();
        assert!(lock.is_some() && files.lock().unwrap().is_none());
    }
}
