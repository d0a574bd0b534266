//! What was read of the servers, and when: the records that a recording consists of.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::recipe_names::RecipeKind;

/// One reading of one server, or of the nodes if `server` is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// When it was read, in milliseconds since 1970, by the clock of this machine.
    pub(crate) at: u64,
    /// The address of the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) server: String,
    /// How many requests this program has sent to the server so far.
    #[serde(default)]
    pub(crate) asked: u64,
    pub(crate) reading: Reading,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    /// Figures of the server; those that the asked word does not have are left out.
    Figures(Figures),
    Connections(Vec<Connection>),
    /// The sessions that watch each path.
    Watches(BTreeMap<String, Vec<u64>>),
    /// The ephemeral nodes of each session.
    Ephemerals(BTreeMap<u64, Vec<String>>),
    /// The server does not answer.
    Down(String),
    /// The server answers, but not to this word.
    Missing(Missing),
    /// A lock, leader election or queue.
    Recipe(Recipe),
    /// The node of a recipe that a crawl has found is gone.
    RecipeGone(String),
    /// The sizes of the subtrees.
    Tree(Tree),
    /// The nodes cannot be read.
    NoSession(String),
}

/// A word that a server does not answer, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub(crate) word: String,
    pub(crate) remedy: String,
}

/// Figures of a server. What is `None` was not read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// `leader`, `follower`, `observer`, `standalone` or `read-only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zxid: Option<u64>,
    /// In milliseconds since the server started, as the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) average_latency: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_latency: Option<f64>,
    /// Packets since the server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) received: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outstanding: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) watches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ephemerals: Option<u64>,
    /// The data of all nodes, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) open_files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) synced_followers: Option<u64>,
    /// The average and the longest time of a write to the disk, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) average_fsync: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_fsync: Option<f64>,
    /// The bytes of snapshots and of transaction logs on the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log_bytes: Option<u64>,
    /// How many connections one client address may have; 0 if there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_connections_per_host: Option<u64>,
}

/// A connection of a client, and its session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Connection {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// `None` for a connection without a session, such as one that asks a four-letter word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
    pub(crate) outstanding: u64,
    pub(crate) received: u64,
    /// When the connection was made, in milliseconds since 1970, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) established: Option<u64>,
    /// The session timeout, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) average_latency: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_latency: Option<f64>,
}

/// Who holds a path, for how long, and what waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recipe {
    pub(crate) path: String,
    pub(crate) kind: RecipeKind,
    /// What the holder or leader says of itself.
    pub(crate) holder: Option<String>,
    pub(crate) session: Option<u64>,
    /// When the holder's node, or the oldest item, was created: milliseconds since 1970, by the leader's clock.
    pub(crate) since: Option<u64>,
    /// Contenders behind the holder, or items of a queue. Of no meaning with a problem.
    pub(crate) waiting: u64,
    /// Items of a work queue that consumers have claimed.
    pub(crate) claimed: Option<u64>,
    /// The names of the first children, in order.
    pub(crate) first: Vec<String>,
    /// Why it cannot be read.
    pub(crate) problem: Option<String>,
}

/// The result of one crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tree {
    pub(crate) nodes: u64,
    /// Whether the crawl ended at its limit, so that the counts are too low.
    pub(crate) is_cut: bool,
    /// Whether the crawl is still going on.
    pub(crate) is_running: bool,
    /// How many nodes have children that this session may not list.
    #[serde(alias = "unreadable")]
    pub(crate) refused: u64,
    /// How many nodes could not be listed for another reason, so that the counts are too low, and the first reason.
    #[serde(default)]
    pub(crate) failed: u64,
    #[serde(default)]
    pub(crate) failure: Option<String>,
    /// How long ago the crawl was that it is compared with, in milliseconds.
    pub(crate) compared_with: Option<u64>,
    pub(crate) subtrees: Vec<Subtree>,
    /// The first paths that recipes use, and how many more there are.
    #[serde(default)]
    pub(crate) recipes: Vec<String>,
    #[serde(default)]
    pub(crate) more_recipes: u64,
}

/// A node with children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subtree {
    pub(crate) path: String,
    pub(crate) children: u64,
    pub(crate) descendants: u64,
    /// How many more descendants it has than at the crawl before.
    pub(crate) growth: Option<i64>,
    /// How many names were added or removed below it since the crawl before.
    pub(crate) changes: Option<u64>,
}

impl Figures {
    /// Replaces the figures that `newer` has.
    pub(crate) fn merge(&mut self, newer: Self) {
        let Self {
            version,
            role,
            zxid,
            average_latency,
            max_latency,
            received,
            connections,
            outstanding,
            nodes,
            watches,
            ephemerals,
            data_bytes,
            open_files,
            max_files,
            synced_followers,
            average_fsync,
            max_fsync,
            snapshot_bytes,
            log_bytes,
            max_connections_per_host,
        } = newer;
        replace(&mut self.version, version);
        replace(&mut self.role, role);
        replace(&mut self.zxid, zxid);
        replace(&mut self.average_latency, average_latency);
        replace(&mut self.max_latency, max_latency);
        replace(&mut self.received, received);
        replace(&mut self.connections, connections);
        replace(&mut self.outstanding, outstanding);
        replace(&mut self.nodes, nodes);
        replace(&mut self.watches, watches);
        replace(&mut self.ephemerals, ephemerals);
        replace(&mut self.data_bytes, data_bytes);
        replace(&mut self.open_files, open_files);
        replace(&mut self.max_files, max_files);
        replace(&mut self.synced_followers, synced_followers);
        replace(&mut self.average_fsync, average_fsync);
        replace(&mut self.max_fsync, max_fsync);
        replace(&mut self.snapshot_bytes, snapshot_bytes);
        replace(&mut self.log_bytes, log_bytes);
        replace(&mut self.max_connections_per_host, max_connections_per_host);
    }
}

fn replace<T>(old: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *old = new;
    }
}
