//! Renders the configuration, start script and other files of a server.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zk_fault_proxy::links::LinkPorts;
use zk_provision::{Distribution, Logging};

use crate::movable_clock::{CLOCK_FILE, ClockLibrary};
use crate::spec::Spec;

mod secure;

/// A complete description of an ensemble, as stored in `ensemble.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) spec: Spec,
    pub(crate) distribution: Distribution,
    /// The directory with all files, except data in memory.
    pub(crate) directory: PathBuf,
    /// The directory of the data if it is in memory.
    pub(crate) memory_directory: Option<PathBuf>,
    /// The file that reserves the ports.
    pub(crate) port_file: Option<PathBuf>,
    /// The [class data](crate::class_data) that the servers start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class_data: Option<PathBuf>,
    /// The library that moves the servers' clocks, if they are movable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock_library: Option<ClockLibrary>,
    /// The prefix of the containers' names, if the servers run in containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) containers: Option<String>,
    pub(crate) members: Vec<Member>,
}

/// One server of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) id: u32,
    pub(crate) client_port: u16,
    pub(crate) quorum_port: u16,
    pub(crate) election_port: u16,
    /// The port for clients with TLS, if the servers have certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secure_port: Option<u16>,
    /// The port of its fault proxy, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proxy_port: Option<u16>,
    /// The ports through which the other servers connect to it, if the links are relayed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) relays: Vec<RelayPorts>,
}

/// The ports through which one server connects to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RelayPorts {
    /// The server that connects to them.
    pub(crate) from: u32,
    pub(crate) quorum_port: u16,
    pub(crate) election_port: u16,
}

impl Member {
    /// Returns the quorum port and the election port through which server `from` connects to this one.
    fn peer_ports(&self, from: u32) -> (u16, u16) {
        self.relays
            .iter()
            .find(|relay| relay.from == from)
            .map_or((self.quorum_port, self.election_port), |relay| {
                (relay.quorum_port, relay.election_port)
            })
    }
}

impl Plan {
    /// Returns all ports of all servers.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        self.members
            .iter()
            .flat_map(|member| {
                [member.client_port, member.quorum_port, member.election_port]
                    .into_iter()
                    .chain(member.secure_port)
                    .chain(member.proxy_port)
                    .chain(
                        member
                            .relays
                            .iter()
                            .flat_map(|relay| [relay.quorum_port, relay.election_port]),
                    )
            })
            .collect()
    }

    /// Returns the ports of the links between the servers; none if they are not relayed.
    pub(crate) fn links(&self) -> Vec<LinkPorts> {
        let members = self.members.iter();
        members
            .flat_map(|to| {
                to.relays.iter().map(|relay| LinkPorts {
                    from: relay.from,
                    to: to.id,
                    quorum_port: to.quorum_port,
                    election_port: to.election_port,
                    quorum_relay_port: relay.quorum_port,
                    election_relay_port: relay.election_port,
                })
            })
            .collect()
    }

    /// Returns the file with the plan of a detached ensemble.
    pub(crate) fn state_file(&self) -> PathBuf {
        self.directory.join(STATE_FILE)
    }

    pub(crate) fn server_directory(&self, id: u32) -> PathBuf {
        self.directory.join(format!("server-{id}"))
    }

    pub(crate) fn data_directory(&self, id: u32) -> PathBuf {
        self.data_base(id).join("data")
    }

    pub(crate) fn log_directory(&self, id: u32) -> PathBuf {
        self.data_base(id).join("txlog")
    }

    pub(crate) fn config_file(&self, id: u32) -> PathBuf {
        self.server_directory(id).join(format!("zoo-{id}.cfg"))
    }

    pub(crate) fn start_script(&self, id: u32) -> PathBuf {
        self.server_directory(id).join("start.sh")
    }

    pub(crate) fn server_log(&self, id: u32) -> PathBuf {
        self.server_directory(id).join("server.log")
    }

    pub(crate) fn pid_file(&self, id: u32) -> PathBuf {
        self.server_directory(id).join("server.pid")
    }

    /// Returns the file with the offset of the server's clock.
    pub(crate) fn clock_file(&self, id: u32) -> PathBuf {
        self.server_directory(id).join(CLOCK_FILE)
    }

    /// Returns the prefix of the argument that identifies this ensemble's processes.
    pub(crate) fn marker(&self) -> String {
        marker(&self.directory)
    }

    /// Returns the argument that identifies one server's process.
    pub(crate) fn server_marker(&self, id: u32) -> String {
        format!("{}server-{id}/", self.marker())
    }

    fn data_base(&self, id: u32) -> PathBuf {
        self.memory_directory
            .as_ref()
            .unwrap_or(&self.directory)
            .join(format!("server-{id}"))
    }

    /// Renders `zoo-N.cfg`.
    pub(crate) fn render_config(&self, member: &Member) -> String {
        let spec = &self.spec;
        let mut text = String::new();
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "{key}={value}").expect("writing to a string does not fail");
        };
        line("tickTime", &spec.tick_time.as_millis());
        line("initLimit", &spec.init_limit);
        line("syncLimit", &spec.sync_limit);
        let (data, log) = match self.containers {
            Some(_) => (CONTAINER_DATA.into(), CONTAINER_LOG.into()),
            None => (
                self.data_directory(member.id),
                self.log_directory(member.id),
            ),
        };
        line("dataDir", &property(&data.to_string_lossy()));
        line("dataLogDir", &property(&log.to_string_lossy()));
        if self.containers.is_some() {
            line("clientPort", &CLIENT_PORT);
        } else {
            line("clientPort", &member.client_port);
            line("clientPortAddress", &Ipv4Addr::LOCALHOST);
        }
        line("maxClientCnxns", &spec.max_client_connections);
        line("minSessionTimeout", &spec.min_session_timeout().as_millis());
        line("maxSessionTimeout", &spec.max_session_timeout.as_millis());
        line("4lw.commands.whitelist", &spec.four_letter_words.join(","));
        // Otherwise each server would open port 8080, and the second one would exit.
        line("admin.enableServer", &false);
        for (key, value) in self.secure_lines(member) {
            line(key, &property(&value));
        }
        if spec.read_only_mode {
            line("localSessionsEnabled", &true);
            line("localSessionsUpgradingEnabled", &true);
        }
        for (key, value) in &spec.properties {
            line(key, &property(value));
        }
        // A single server with a line for itself would log an error.
        if self.members.len() > 1 {
            for peer in &self.members {
                let address = if self.containers.is_some() {
                    format!("{}:2888:3888", self.host(peer.id))
                } else {
                    let local = Ipv4Addr::LOCALHOST;
                    let (quorum, election) = peer.peer_ports(member.id);
                    let servers = format!("{local}:{quorum}:{election}");
                    if self.distribution.version.starts_with("3.4.") {
                        servers
                    } else {
                        // Clients can tell the servers' own addresses from those of proxies by it.
                        format!("{servers};{local}:{}", peer.client_port)
                    }
                };
                line(&format!("server.{}", peer.id), &address);
            }
        }
        text
    }

    /// Renders `start.sh`, which starts one server in the foreground.
    pub(crate) fn render_start_script(&self, member: &Member) -> String {
        let id = member.id;
        let directory = self.server_directory(id);
        let classpath: Vec<_> = self
            .distribution
            .classpath
            .iter()
            .map(|jar| jar.to_string_lossy())
            .collect();
        let mut flags = self.jvm_flags();
        flags.extend(self.secure_flags());
        flags.push(self.server_marker(id));
        match self.distribution.logging {
            Logging::SlfSimple => flags.extend(
                [
                    "defaultLogLevel=info",
                    "showDateTime=true",
                    "dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
                ]
                .map(|setting| format!("-Dorg.slf4j.simpleLogger.{setting}")),
            ),
            Logging::Logback => {
                flags.push(format!(
                    "-Dlogback.configurationFile={}",
                    directory.join(LOGBACK_FILE).display()
                ));
            }
            Logging::Log4j1 => {
                flags.push(format!(
                    // A relative path, because a `#` or `%` in an absolute one would be interpreted.
                    "-Dlog4j.configuration=file:{LOG4J_FILE}"
                ));
            }
        }
        let flags: Vec<_> = flags.iter().map(|flag| shell_quote(flag)).collect();
        format!(
            "#!/bin/sh\n\
             # Starts server {id} of this ensemble in the foreground; Ctrl-C stops it. It logs to server.log.\n\
             set -eu\n\
             # No other user may read what it writes.\n\
             umask 077\n\
             cd {directory}\n\
             if [ -s server.pid ] && grep -qsF -e {marker} \"/proc/$(cat server.pid)/cmdline\"; then\n\
             \x20   echo \"server {id} already runs as process $(cat server.pid)\" >&2\n\
             \x20   exit 1\n\
             fi\n\
             echo $$ > server.pid\n\
             # In the C locale Java cannot open a file whose name is not ASCII.\n\
             export LC_ALL=C.UTF-8\n\
             {clock}exec {java} \\\n    {flags} \\\n    -cp {classpath} \\\n    {main} {config} >> server.log 2>&1\n",
            directory = shell_quote(&directory.to_string_lossy()),
            marker = shell_quote(&self.server_marker(id)),
            clock = self.clock_exports(id),
            java = shell_quote(&self.distribution.java.to_string_lossy()),
            flags = flags.join(" \\\n    "),
            classpath = shell_quote(&classpath.join(":")),
            main = MAIN_CLASS,
            config = shell_quote(&self.config_file(id).to_string_lossy()),
        )
    }

    /// Returns the JVM flags: those of the spec or those for a quick start, and the settings that are only flags.
    fn jvm_flags(&self) -> Vec<String> {
        let quick = || {
            let class_data = self.class_data.iter();
            let class_data =
                class_data.map(|file| format!("-XX:SharedArchiveFile={}", file.display()));
            QUICK_JVM_FLAGS
                .map(str::to_owned)
                .into_iter()
                .chain(class_data)
                .collect()
        };
        let mut flags = self.spec.jvm_flags.clone().unwrap_or_else(quick);
        // Not every version reads these two from zoo.cfg.
        flags.push(format!(
            "-Dznode.container.checkIntervalMs={}",
            self.spec.container_check_interval.as_millis()
        ));
        flags.push(format!(
            "-Dzookeeper.extendedTypesEnabled={}",
            self.spec.extended_types
        ));
        if let Some(bytes) = self.spec.max_buffer {
            // It is a setting of the JVM in every version.
            flags.push(format!("-Djute.maxbuffer={bytes}"));
            if self.spec.jvm_flags.is_none() {
                // Of the flags for a quick start, the heap is for small values. The last one counts.
                flags.push(format!("-Xmx{}m", 128 + (bytes >> 20) * 64));
            }
        }
        if self.spec.read_only_mode {
            // No version reads it from zoo.cfg.
            flags.push("-Dreadonlymode.enabled=true".to_owned());
        }
        flags
    }

    /// Returns the name of a server's container, which is its host name for the other servers.
    pub(crate) fn host(&self, id: u32) -> String {
        format!("{}-{id}", self.host_prefix())
    }

    /// Returns the name of the containers' network.
    pub(crate) fn host_prefix(&self) -> String {
        self.containers.clone().unwrap_or_default()
    }

    /// Returns the environment of a server's container; every image passes it to Java.
    #[cfg(feature = "containers")]
    pub(crate) fn container_environment(&self) -> [(&'static str, String); 1] {
        [("JAVA_TOOL_OPTIONS", self.jvm_flags().join(" "))]
    }

    /// Returns the lines of the start script that make a server's clock movable.
    fn clock_exports(&self, id: u32) -> String {
        self.clock_library
            .as_ref()
            .map_or_else(String::new, |library| {
                library.exports(&self.clock_file(id).to_string_lossy(), shell_quote)
            })
    }

    /// Returns the name and text of the logging configuration that this distribution needs.
    pub(crate) fn render_logging(&self) -> Option<(&'static str, &'static str)> {
        match self.distribution.logging {
            Logging::SlfSimple => None,
            Logging::Logback => Some((LOGBACK_FILE, LOGBACK)),
            Logging::Log4j1 => Some((LOG4J_FILE, LOG4J)),
        }
    }
}

/// Returns the prefix of the argument that identifies the processes of the ensemble in `directory`.
///
/// It ends with a slash, so that `/x/one` does not match `/x/one-more`.
pub(crate) fn marker(directory: &Path) -> String {
    format!("-Dzk.harness.ensemble={}/", directory.display())
}

/// Quotes a text for the shell.
fn shell_quote(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+%@".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Escapes a value for a Java properties file: Latin-1, with backslash escapes, leading spaces skipped.
fn property(text: &str) -> String {
    let mut value = String::new();
    for (index, unit) in text.encode_utf16().enumerate() {
        match u8::try_from(unit).map(char::from) {
            Ok('\\') => value.push_str("\\\\"),
            Ok(' ') if index == 0 => value.push_str("\\ "),
            Ok(plain) if plain.is_ascii() && !plain.is_ascii_control() => value.push(plain),
            _ => write!(value, "\\u{unit:04x}").expect("writing to a string does not fail"),
        }
    }
    value
}

/// The name of the state file in an ensemble's directory.
pub(crate) const STATE_FILE: &str = "ensemble.json";

pub(crate) const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// Flags for a quick start of a small server: no second compiler tier, a simple collector, shared class data.
pub(crate) const QUICK_JVM_FLAGS: [&str; 6] = [
    "-Xshare:auto",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xss512k",
    "-Xmx128m",
];

/// The client port inside a container.
pub(crate) const CLIENT_PORT: u16 = 2181;
/// The directory of snapshots and the server's id in the official image.
const CONTAINER_DATA: &str = "/data";
const CONTAINER_LOG: &str = "/datalog";

const LOGBACK_FILE: &str = "logback.xml";
const LOGBACK: &str = r#"<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="CONSOLE"/></root>
</configuration>
"#;
const LOG4J_FILE: &str = "log4j.properties";
const LOG4J: &str = "log4j.rootLogger=INFO, CONSOLE\n\
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender\n\
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout\n\
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n\n";

#[cfg(test)]
mod tests;
