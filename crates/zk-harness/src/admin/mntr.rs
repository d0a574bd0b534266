//! `mntr`: the server's metrics.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use super::AdminError;
use super::Mode;
use super::srvr::release_of;
use super::text::Answer;

/// The answer to `mntr`: some five hundred metrics, of which the usual ones have getters.
///
/// Which keys are there depends on the server's version and role, so a getter returns `None` for a key that is
/// missing or is no number; the role and the version are always there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mntr {
    mode: Mode,
    metrics: BTreeMap<String, String>,
}

impl Mntr {
    /// Returns the server's role (`zk_server_state`).
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the release, such as `3.9.3` (`zk_version`).
    pub fn version(&self) -> &str {
        self.get("zk_version").map_or("", release_of)
    }

    /// Returns the state of the peer in the ensemble, such as `leading - broadcast` (`zk_peer_state`, since 3.7).
    pub fn peer_state(&self) -> Option<&str> {
        self.get("zk_peer_state")
    }

    /// Returns how many nodes the tree has (`zk_znode_count`).
    pub fn node_count(&self) -> Option<u64> {
        self.number("zk_znode_count")
    }

    /// Returns how many of them are ephemeral (`zk_ephemerals_count`).
    pub fn ephemerals(&self) -> Option<u64> {
        self.number("zk_ephemerals_count")
    }

    /// Returns how many watches the server holds (`zk_watch_count`).
    pub fn watches(&self) -> Option<u64> {
        self.number("zk_watch_count")
    }

    /// Returns the size of the tree's data and paths in bytes, roughly (`zk_approximate_data_size`).
    pub fn data_size(&self) -> Option<u64> {
        self.number("zk_approximate_data_size")
    }

    /// Returns how many client connections are open, the asker included (`zk_num_alive_connections`).
    pub fn connections(&self) -> Option<u64> {
        self.number("zk_num_alive_connections")
    }

    /// Returns how many sessions the ensemble knows (`zk_global_sessions`).
    pub fn sessions(&self) -> Option<u64> {
        self.number("zk_global_sessions")
    }

    /// Returns how many requests wait for an answer (`zk_outstanding_requests`).
    pub fn outstanding(&self) -> Option<u64> {
        self.number("zk_outstanding_requests")
    }

    /// Returns how many packets were received (`zk_packets_received`).
    pub fn received(&self) -> Option<u64> {
        self.number("zk_packets_received")
    }

    /// Returns how many packets were sent (`zk_packets_sent`).
    pub fn sent(&self) -> Option<u64> {
        self.number("zk_packets_sent")
    }

    /// Returns the mean latency in milliseconds (`zk_avg_latency`).
    pub fn avg_latency(&self) -> Option<f64> {
        self.number("zk_avg_latency")
    }

    /// Returns the longest latency in milliseconds (`zk_max_latency`).
    pub fn max_latency(&self) -> Option<u64> {
        self.number("zk_max_latency")
    }

    /// Returns how many files the process has open (`zk_open_file_descriptor_count`).
    pub fn open_files(&self) -> Option<u64> {
        self.number("zk_open_file_descriptor_count")
    }

    /// Returns since when the server serves (`zk_uptime`).
    pub fn uptime(&self) -> Option<Duration> {
        self.number("zk_uptime").map(Duration::from_millis)
    }

    /// Returns how many followers and observers a leader has (`zk_learners`); `None` from any other server.
    pub fn learners(&self) -> Option<u64> {
        self.number("zk_learners")
    }

    /// Returns how many followers are in step with a leader (`zk_synced_followers`); `None` from any other server.
    pub fn synced_followers(&self) -> Option<u64> {
        self.number("zk_synced_followers")
    }

    /// Returns the value of any key, as the server printed it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.metrics.get(key).map(String::as_str)
    }

    /// Returns the value of any key as a number.
    pub fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    /// Returns all keys and values, ordered by key.
    pub const fn metrics(&self) -> &BTreeMap<String, String> {
        &self.metrics
    }
}

impl FromStr for Mntr {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let answer = Answer::new("mntr", text)?;
        let mut metrics = BTreeMap::new();
        let mut mode = None;
        for line in answer.lines() {
            let Some((key, value)) = line.split_once('\t').filter(|(key, _)| !key.is_empty())
            else {
                return Err(answer.unexpected(line, "a key, a tab and a value"));
            };
            if key == "zk_server_state" {
                mode = Some(answer.value(
                    value,
                    line,
                    "leader, follower, observer, standalone or read-only",
                )?);
            }
            metrics.insert(key.to_owned(), value.to_owned());
        }
        if !metrics.contains_key("zk_version") {
            return Err(answer.unexpected("", "the line `zk_version …`"));
        }
        match mode {
            Some(mode) => Ok(Self { mode, metrics }),
            None => Err(answer.unexpected("", "the line `zk_server_state …`")),
        }
    }
}
