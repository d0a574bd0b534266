//! Defines the settings of an ensemble, and checks them before anything is started.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod sasl_digest;
mod superuser;

pub use sasl_digest::SaslDigest;
pub use superuser::superuser_digest;

/// The settings of an ensemble, from the builder or an `ensemble.toml`.
///
/// Durations in the file are text with a unit (`"200ms"`, `"2s"`).
/// An unknown key is an error.
///
/// ```
/// let spec = zk_harness::Spec::from_toml(
///     r#"
///     servers = 3
///     tick_time = "500ms"
///     data = "disk"
///
///     [properties]
///     "snapCount" = "1000"
///     "#,
/// )?;
/// assert_eq!(spec.tick_time.as_millis(), 500);
/// # Ok::<(), zk_harness::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent setting of the servers, as in their own file"
)]
pub struct Spec {
    /// The number of servers, 1 to 254. Default 3. Ignored if [`server`](Self::server) is not empty.
    pub servers: usize,
    /// The servers with their ids and ports. Default empty: ids 1 to [`servers`](Self::servers), free ports.
    pub server: Vec<ServerSpec>,
    /// `tickTime`, in whole milliseconds, at least 1 ms. Default 200 ms, for a quick failover.
    #[serde(with = "humantime_serde")]
    pub tick_time: Duration,
    /// `initLimit`: ticks a follower may take to connect and synchronise, at least 1. Default 50.
    pub init_limit: u32,
    /// `syncLimit`: ticks a follower may fall behind, at least 1. Default 10.
    pub sync_limit: u32,
    /// `minSessionTimeout`. Default: two ticks.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub min_session_timeout: Option<Duration>,
    /// `maxSessionTimeout`, not below the minimum. Default 60 s.
    #[serde(with = "humantime_serde")]
    pub max_session_timeout: Duration,
    /// `maxClientCnxns`: connections from one address, 0 for no limit. Default 0.
    ///
    /// With ZooKeeper's default of 60 a server closes the 61st connection without an error.
    pub max_client_connections: u32,
    /// `jute.maxbuffer`: the longest request in bytes, from 1024. Default: ZooKeeper's, 1048575.
    ///
    /// Clients need the same limit: `SessionBuilder::max_buffer` of `zk-core`, `--max-buffer` of `zk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_buffer: Option<u32>,
    /// `znode.container.checkIntervalMs`: how often empty container nodes are deleted, at least 1 ms. Default 1 s
    /// (ZooKeeper's is 60 s).
    #[serde(with = "humantime_serde")]
    pub container_check_interval: Duration,
    /// `zookeeper.extendedTypesEnabled`: nodes with a time to live. Default true.
    pub extended_types: bool,
    /// `readonlymode.enabled`: whether a server without a quorum serves reads, to clients that ask for that. Default
    /// false.
    ///
    /// It also enables local sessions, without which such a server resumes sessions but grants no new ones.
    pub read_only_mode: bool,
    /// `4lw.commands.whitelist`. Default `["*"]`. The harness needs `srvr`.
    pub four_letter_words: Vec<String>,
    /// Where data and transaction log are stored. Default [`DataStore::Disk`].
    pub data: DataStore,
    /// The ensemble's directory; it must be new or empty. Default: a new one in the temporary directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The ZooKeeper to use: a version such as `"3.9"` or `"3.9.6"`, or the directory of an unpacked one. Default: the
    /// first one found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zookeeper: Option<String>,
    /// The `java` program to run it with. Default: `JAVA_HOME`, then `PATH`, then the harness's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub java: Option<PathBuf>,
    /// JVM flags that replace the harness's own, which favour a quick start over peak speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jvm_flags: Option<Vec<String>>,
    /// The timeout of the start, without provisioning. Default 60 s.
    #[serde(with = "humantime_serde")]
    pub start_timeout: Duration,
    /// Whether [`Server::shift_clock`](crate::Server::shift_clock) can move the servers' clocks, by loading libfaketime
    /// into them. Default false, because servers start more slowly with it.
    pub movable_clock: bool,
    /// Whether the servers also listen for TLS, and use it among themselves. Default false.
    ///
    /// It needs the feature `tls`, which creates the [certificates](crate::certificates). Clients have to present one.
    /// The client port without TLS stays, for all clients; the [properties](Self::properties) `enforce.auth.enabled` =
    /// `true` and `enforce.auth.schemes` = `x509` make servers from 3.7 on refuse every request of a session there.
    pub tls: bool,
    /// The digest of the superuser, whom no access control list restricts: `super:` and a hash, as
    /// [`superuser_digest`] returns it. Default: none, and there is no superuser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superuser: Option<String>,
    /// The users of the SASL mechanism DIGEST-MD5. Default: none, and no SASL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sasl_digest: Option<SaslDigest>,
    /// Additional lines for every `zoo-N.cfg`. Keys that the harness sets itself are refused.
    pub properties: BTreeMap<String, String>,
}

/// One server of a [`Spec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerSpec {
    /// The `myid`, 1 to 254, unique.
    ///
    /// ZooKeeper has 255 too, but with [`extended_types`](Spec::extended_types) such a server cannot lead: whenever it is
    /// elected it steps down at once (`EphemeralType.validateServerId`).
    pub id: u32,
    /// The client port. Default: a free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<u16>,
    /// The port that followers connect to. Default: a free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum_port: Option<u16>,
    /// The port for leader elections. Default: a free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub election_port: Option<u16>,
}

impl ServerSpec {
    /// Creates a server with this id and free ports.
    pub const fn new(id: u32) -> Self {
        Self {
            id,
            client_port: None,
            quorum_port: None,
            election_port: None,
        }
    }

    /// Sets the client port.
    #[must_use]
    pub const fn with_client_port(mut self, port: u16) -> Self {
        self.client_port = Some(port);
        self
    }

    pub(crate) fn ports(&self) -> [(&'static str, Option<u16>); 3] {
        [
            ("client_port", self.client_port),
            ("quorum_port", self.quorum_port),
            ("election_port", self.election_port),
        ]
    }
}

/// Where the servers keep their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DataStore {
    /// In the memory file system: a write needs no disk flush, and a reboot loses everything.
    Memory,
    /// In the ensemble's directory: every write is flushed to disk, as in production.
    #[default]
    Disk,
}

/// A warning about a setting that is allowed but rarely intended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A single server, whose failure is an outage.
    Single,
    /// An even number of servers, which tolerates no more failures than one server fewer.
    Even {
        /// The number of servers.
        servers: usize,
    },
    /// The ports are not reserved where all processes of this user look: another user owns that directory, or may access
    /// it. Other ensembles of this user may choose the same ports.
    PortsReservedElsewhere {
        /// The directory, its owner, and the remedy if there is one.
        reason: String,
    },
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: {rule}")]
#[non_exhaustive]
pub struct SpecError {
    /// The name of the setting in `ensemble.toml`.
    pub field: String,
    /// The value.
    pub value: String,
    /// The rule that the value violates, or the remedy.
    pub rule: String,
}

impl SpecError {
    pub(crate) fn new(
        field: impl Into<String>,
        value: impl fmt::Display,
        rule: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            value: value.to_string(),
            rule: rule.into(),
        }
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            servers: 3,
            server: Vec::new(),
            tick_time: Duration::from_millis(200),
            init_limit: 50,
            sync_limit: 10,
            min_session_timeout: None,
            max_session_timeout: Duration::from_secs(60),
            max_client_connections: 0,
            max_buffer: None,
            container_check_interval: Duration::from_secs(1),
            extended_types: true,
            read_only_mode: false,
            four_letter_words: vec!["*".to_owned()],
            data: DataStore::default(),
            directory: None,
            zookeeper: None,
            java: None,
            jvm_flags: None,
            start_timeout: Duration::from_secs(60),
            movable_clock: false,
            tls: false,
            sasl_digest: None,
            superuser: None,
            properties: BTreeMap::new(),
        }
    }
}

impl Spec {
    /// Parses an `ensemble.toml`.
    ///
    /// # Errors
    ///
    /// A [`SpecError`] if the text is not TOML, or has an unknown key or a value of the wrong type.
    /// [`validate`](Self::validate) checks the values.
    pub fn from_toml(text: &str) -> Result<Self, SpecError> {
        toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            let lines: Vec<&str> = text.lines().take(line).map(str::trim).collect();
            let table = lines.iter().rfind(|line| line.starts_with('['));
            let source = *lines.last().unwrap_or(&"");
            // Its users have passwords.
            let is_secret = source.contains(SASL_DIGEST)
                || table.is_some_and(|table| table.contains(SASL_DIGEST));
            let source = if is_secret {
                "(secret)".to_owned()
            } else {
                format!("`{source}`")
            };
            SpecError::new(format!("line {line}"), source, error.message())
        })
    }

    /// Returns [`server`](Self::server), or [`servers`](Self::servers) default servers if that is empty.
    pub fn server_specs(&self) -> Vec<ServerSpec> {
        if self.server.is_empty() {
            (1..=u32::try_from(self.servers).unwrap_or(u32::MAX))
                .map(ServerSpec::new)
                .collect()
        } else {
            self.server.clone()
        }
    }

    /// Checks all settings, and returns warnings about those that are rarely intended.
    ///
    /// # Errors
    ///
    /// The first invalid setting.
    pub fn validate(&self) -> Result<Vec<Warning>, SpecError> {
        if self.server.is_empty() && !(1..=254).contains(&self.servers) {
            return Err(SpecError::new("servers", self.servers, "must be 1 to 254"));
        }
        self.validate_servers()?;
        whole_millis("tick_time", self.tick_time)?;
        whole_millis("container_check_interval", self.container_check_interval)?;
        whole_millis("max_session_timeout", self.max_session_timeout)?;
        whole_millis("start_timeout", self.start_timeout)?;
        for (field, limit) in [
            ("init_limit", self.init_limit),
            ("sync_limit", self.sync_limit),
        ] {
            if limit == 0 {
                return Err(SpecError::new(field, limit, "must be at least 1 tick"));
            }
        }
        if let Some(bytes) = self.max_buffer
            && !(1024..=i32::MAX.cast_unsigned()).contains(&bytes)
        {
            let rule = "must be from 1024 to 2147483647 bytes";
            return Err(SpecError::new("max_buffer", bytes, rule));
        }
        if let Some(min) = self.min_session_timeout {
            whole_millis("min_session_timeout", min)?;
        }
        if self.max_session_timeout < self.min_session_timeout() {
            return Err(SpecError::new(
                "max_session_timeout",
                humantime_serde::re::humantime::format_duration(self.max_session_timeout),
                format!(
                    "must be at least min_session_timeout, which is {}",
                    humantime_serde::re::humantime::format_duration(self.min_session_timeout())
                ),
            ));
        }
        if !self
            .four_letter_words
            .iter()
            .any(|word| word == "*" || word == "srvr")
        {
            return Err(SpecError::new(
                "four_letter_words",
                format!("{:?}", self.four_letter_words),
                "must contain \"srvr\" or \"*\", because the harness sends `srvr`",
            ));
        }
        for word in &self.four_letter_words {
            if word != "*"
                && !(word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_lowercase()))
            {
                return Err(SpecError::new(
                    "four_letter_words",
                    format!("{word:?}"),
                    "must be four lowercase letters, or \"*\" for all",
                ));
            }
        }
        if self.tls && !cfg!(feature = "tls") {
            let rule = "this program was built without the feature `tls` of zk-harness; enable it";
            return Err(SpecError::new("tls", true, rule));
        }
        if let Some(sasl) = &self.sasl_digest {
            sasl.validate()?;
        }
        if let Some(digest) = &self.superuser {
            superuser::validate(digest)?;
        }
        for (key, value) in &self.properties {
            if is_own_key(key) || (self.tls && TLS_KEYS.contains(&key.as_str())) {
                return Err(SpecError::new(
                    format!("properties.{key}"),
                    format!("{value:?}"),
                    "the harness sets this key itself; use the setting of the harness",
                ));
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if key.is_empty() || !key.chars().all(plain) || value.contains(char::is_control) {
                return Err(SpecError::new(
                    format!("properties.{key}"),
                    format!("{value:?}"),
                    "must be one line: a key of letters, digits, `.`, `_` and `-`, and a value without control characters",
                ));
            }
        }
        Ok(match self.server_specs().len() {
            1 => vec![Warning::Single],
            servers if servers % 2 == 0 => vec![Warning::Even { servers }],
            _ => Vec::new(),
        })
    }

    /// Returns `minSessionTimeout`; two ticks if it is not set.
    pub fn min_session_timeout(&self) -> Duration {
        self.min_session_timeout.unwrap_or(self.tick_time * 2)
    }

    fn validate_servers(&self) -> Result<(), SpecError> {
        let mut ids = BTreeSet::new();
        let mut ports = BTreeMap::new();
        if self.server.len() > 254 {
            return Err(SpecError::new(
                "server",
                self.server.len(),
                "must be 1 to 254 servers",
            ));
        }
        for (index, server) in self.server.iter().enumerate() {
            let field = format!("server[{index}].id");
            if !(1..=254).contains(&server.id) {
                return Err(SpecError::new(field, server.id, "must be 1 to 254"));
            }
            if !ids.insert(server.id) {
                return Err(SpecError::new(
                    field,
                    server.id,
                    "another server has the same id",
                ));
            }
            for (name, port) in server.ports() {
                let Some(port) = port else { continue };
                let field = format!("server[{index}].{name}");
                if port == 0 {
                    return Err(SpecError::new(
                        field,
                        port,
                        "must be 1 to 65535; omit it for a free port",
                    ));
                }
                if let Some(other) = ports.insert(port, field.clone()) {
                    return Err(SpecError::new(
                        field,
                        port,
                        format!("{other} has the same port"),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => {
                write!(f, "1 server tolerates no failure; 3 tolerate the loss of 1")
            }
            Self::Even { servers } => {
                let tolerated = (servers - 1) / 2;
                write!(
                    f,
                    "{servers} servers tolerate the loss of {tolerated}, as {} do; use an odd number",
                    servers - 1
                )
            }
            Self::PortsReservedElsewhere { reason } => {
                write!(
                    f,
                    "{reason}; other ensembles of this user may choose the same ports"
                )
            }
        }
    }
}

fn whole_millis(field: &str, value: Duration) -> Result<(), SpecError> {
    let millis = value.as_millis();
    if millis == 0
        || millis > i32::MAX as u128
        || value != Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    {
        return Err(SpecError::new(
            field,
            humantime_serde::re::humantime::format_duration(value),
            "must be a whole number of milliseconds, at least 1 ms and below 25 days",
        ));
    }
    Ok(())
}

fn is_own_key(key: &str) -> bool {
    key.starts_with("server.") || OWN_KEYS.contains(&key)
}

/// The keys of `zoo.cfg` with a field in [`Spec`].
const OWN_KEYS: [&str; 17] = [
    "tickTime",
    "initLimit",
    "syncLimit",
    "dataDir",
    "dataLogDir",
    "clientPort",
    "clientPortAddress",
    "maxClientCnxns",
    "minSessionTimeout",
    "maxSessionTimeout",
    "4lw.commands.whitelist",
    "admin.enableServer",
    "extendedTypesEnabled",
    "zookeeper.extendedTypesEnabled",
    "znode.container.checkIntervalMs",
    "standaloneEnabled",
    "DigestAuthenticationProvider.superDigest",
];

/// The table whose values are passwords.
const SASL_DIGEST: &str = "sasl_digest";

/// The keys of `zoo.cfg` that [`Spec::tls`] sets and that no property can.
const TLS_KEYS: [&str; 4] = [
    "secureClientPort",
    "secureClientPortAddress",
    "serverCnxnFactory",
    "sslQuorum",
];

#[cfg(test)]
mod tests;
