//! Collects and checks the settings of an ensemble, and starts it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_provision::{Distribution, Search};

use super::{Ensemble, Keep, StartReport, files};
#[cfg(feature = "tls")]
use crate::certificates;
use crate::class_data::{self, MissingArchive};
use crate::config::{Member, Plan, QUICK_JVM_FLAGS, RelayPorts};
use crate::container::{self, ContainerImage};
use crate::error::Error;
use crate::movable_clock::ClockLibrary;
use crate::reaper::Reaper;
use crate::spec::{DataStore, SaslDigest, ServerSpec, Spec, SpecError, Warning};
use crate::unique_name::unique_name;
use crate::{ports, private_files};

/// A builder for an [`Ensemble`]; [`start`](Self::start) starts it.
///
/// Every setting of a [`Spec`] has a method here; [`start`](Self::start) returns an error for an invalid value.
///
/// ```no_run
/// # async fn demo() -> Result<(), zk_harness::Error> {
/// use std::time::Duration;
/// use zk_harness::{DataStore, Ensemble};
///
/// let ensemble = Ensemble::builder()
///     .servers(5)
///     .data(DataStore::Memory)
///     .min_session_timeout(Duration::from_millis(400))
///     .property("snapCount", "1000")
///     .start()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct EnsembleBuilder {
    spec: Spec,
    search: Option<Search>,
    keep: Keep,
    hold: Option<File>,
    containers: Option<ContainerImage>,
    proxied: bool,
    quorum_links: bool,
}

impl EnsembleBuilder {
    /// Replaces all settings by those of a [`Spec`].
    pub fn spec(mut self, spec: Spec) -> Self {
        self.spec = spec;
        self
    }

    /// Sets the number of servers: [`Spec::servers`].
    pub fn servers(mut self, servers: usize) -> Self {
        self.spec.servers = servers;
        self
    }

    /// Adds a server with its id and, optionally, ports: [`Spec::server`].
    pub fn server(mut self, server: ServerSpec) -> Self {
        self.spec.server.push(server);
        self
    }

    /// Sets [`Spec::tick_time`].
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.spec.tick_time = tick_time;
        self
    }

    /// Sets [`Spec::init_limit`], in ticks.
    pub fn init_limit(mut self, ticks: u32) -> Self {
        self.spec.init_limit = ticks;
        self
    }

    /// Sets [`Spec::sync_limit`], in ticks.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.spec.sync_limit = ticks;
        self
    }

    /// Sets [`Spec::min_session_timeout`].
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.spec.min_session_timeout = Some(timeout);
        self
    }

    /// Sets [`Spec::max_session_timeout`].
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.spec.max_session_timeout = timeout;
        self
    }

    /// Sets [`Spec::max_client_connections`].
    pub fn max_client_connections(mut self, connections: u32) -> Self {
        self.spec.max_client_connections = connections;
        self
    }

    /// Sets [`Spec::max_buffer`], in bytes.
    pub fn max_buffer(mut self, bytes: u32) -> Self {
        self.spec.max_buffer = Some(bytes);
        self
    }

    /// Sets [`Spec::container_check_interval`].
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.spec.container_check_interval = interval;
        self
    }

    /// Sets [`Spec::extended_types`].
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.spec.extended_types = enabled;
        self
    }

    /// Sets [`Spec::read_only_mode`].
    pub fn read_only_mode(mut self, enabled: bool) -> Self {
        self.spec.read_only_mode = enabled;
        self
    }

    /// Sets [`Spec::four_letter_words`].
    pub fn four_letter_words(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.spec.four_letter_words = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`Spec::data`].
    pub fn data(mut self, data: DataStore) -> Self {
        self.spec.data = data;
        self
    }

    /// Sets [`Spec::directory`].
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spec.directory = Some(directory.into());
        self
    }

    /// Sets [`Spec::zookeeper`].
    pub fn zookeeper(mut self, version_or_home: impl Into<String>) -> Self {
        self.spec.zookeeper = Some(version_or_home.into());
        self
    }

    /// Sets [`Spec::java`].
    pub fn java(mut self, java: impl Into<PathBuf>) -> Self {
        self.spec.java = Some(java.into());
        self
    }

    /// Sets [`Spec::jvm_flags`].
    pub fn jvm_flags(mut self, flags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.spec.jvm_flags = Some(flags.into_iter().map(Into::into).collect());
        self
    }

    /// Sets [`Spec::start_timeout`].
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.spec.start_timeout = timeout;
        self
    }

    /// Sets [`Spec::movable_clock`].
    pub fn movable_clock(mut self, movable: bool) -> Self {
        self.spec.movable_clock = movable;
        self
    }

    /// Sets [`Spec::tls`].
    pub fn tls(mut self, tls: bool) -> Self {
        self.spec.tls = tls;
        self
    }

    /// Sets the users of the SASL mechanism DIGEST-MD5: [`Spec::sasl_digest`].
    pub fn sasl_digest(mut self, users: SaslDigest) -> Self {
        self.spec.sasl_digest = Some(users);
        self
    }

    /// Sets the digest of the superuser, as [`superuser_digest`](crate::superuser_digest) returns it:
    /// [`Spec::superuser`].
    pub fn superuser(mut self, digest: impl Into<String>) -> Self {
        self.spec.superuser = Some(digest.into());
        self
    }

    /// Adds a line to every `zoo-N.cfg`: [`Spec::properties`].
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.spec.properties.insert(key.into(), value.into());
        self
    }

    /// Sets when the files are kept. Default [`Keep::OnPanic`].
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Sets where to search for ZooKeeper and Java. Default: [`Search::from_env`].
    ///
    /// [`Spec::zookeeper`] and [`Spec::java`] override its settings.
    pub fn search(mut self, search: Search) -> Self {
        self.search = Some(search);
        self
    }

    /// Runs the servers in containers instead of processes; see [`crate::container`].
    #[cfg(feature = "containers")]
    pub fn containers(mut self, image: ContainerImage) -> Self {
        self.containers = Some(image);
        self
    }

    /// Puts a [fault proxy](zk_fault_proxy::FaultProxy) in front of each server's client port. Default false.
    ///
    /// [`Ensemble::connect_string`] then returns the proxies' addresses. The proxies run in this process, so they are
    /// not part of a [`Spec`].
    pub fn proxied(mut self, proxied: bool) -> Self {
        self.proxied = proxied;
        self
    }

    /// Connects the servers to each other through [links](zk_fault_proxy::links) that can be delayed, blocked and cut. Default
    /// false.
    ///
    /// The links run in this process, so they are not part of a [`Spec`]. At most 32 servers can have them, and neither
    /// `reconfigEnabled` nor [`tls`](Self::tls) can be set.
    pub fn quorum_links(mut self, quorum_links: bool) -> Self {
        self.quorum_links = quorum_links;
        self
    }

    /// Lets the guard process keep `file` open until it is done, so that a lock on the file is not released earlier.
    pub fn hold(mut self, file: File) -> Self {
        self.hold = Some(file);
        self
    }

    /// Starts the servers and returns when all of them serve.
    ///
    /// # Errors
    ///
    /// [`Error::Spec`] for an invalid setting, [`Error::Find`] if there is no ZooKeeper or Java,
    /// [`Error::ServerExited`] or [`Error::NotServing`] if the servers do not start, [`Error::Io`] otherwise.
    /// Everything is removed then, except the files if [`Keep`] keeps them.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future kills what was started and removes the files.
    pub async fn start(mut self) -> Result<Ensemble, Error> {
        let started = Instant::now();
        let warnings = self.spec.validate()?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        if let Some(image) = &self.containers {
            refuse_in_containers(&self.spec)?;
            if let (Some(zookeeper), Some(name)) = (&self.spec.zookeeper, image.chosen()) {
                let rule = format!(
                    "the image {name} contains its own ZooKeeper; omit the version or the image"
                );
                return Err(SpecError::new("zookeeper", format!("{zookeeper:?}"), rule).into());
            }
            if self.proxied || self.quorum_links {
                let rule = "not supported with containers; omit fault proxies and links";
                return Err(SpecError::new("proxied", true, rule).into());
            }
        } else {
            check_ports(&self.spec)?;
            if self.quorum_links {
                check_links(&self.spec)?;
            }
        }
        let (distribution, clock) = self.find().await?;
        let find = started.elapsed();
        let warning = distribution.warning();
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        let chosen_by_us = self.proxied
            || self.quorum_links
            || self.spec.tls
            || self
                .spec
                .server_specs()
                .iter()
                .any(|server| server.ports().iter().any(|(_, p)| p.is_none()));
        let mut attempts = if chosen_by_us { PORT_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let preparing = Instant::now();
            let mut ensemble = self.set_up(&distribution, clock.as_ref(), &warnings)?;
            if let Err(error) = ensemble.start_proxies() {
                if attempts == 0 {
                    return Err(error);
                }
                tracing::info!(%error, "another program took a chosen port; retrying with others");
                ensemble.remove_for_retry(self.spec.directory.is_some())?;
                continue;
            }
            let prepare = preparing.elapsed();
            let starting = Instant::now();
            #[cfg(feature = "containers")]
            if let Some(image) = &self.containers {
                ensemble.start_containers(image.clone()).await?;
            }
            match ensemble.start_all().await {
                Ok([answered, elected, done]) => {
                    ensemble.report = StartReport {
                        find,
                        prepare,
                        processes: answered - starting,
                        election: elected - answered,
                        probe: done - elected,
                        total: done - started,
                        warning,
                    };
                    return Ok(ensemble);
                }
                // Another program took a port after we had checked it.
                Err(Error::ServerExited { tail, .. }) if attempts > 0 && is_port_clash(&tail) => {
                    tracing::info!("another program took a chosen port; retrying with others");
                    ensemble.remove_for_retry(self.spec.directory.is_some())?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Does the work that only the first start on a machine has to do: finds or downloads ZooKeeper and Java, and
    /// creates the class data that servers start from. No server keeps running.
    ///
    /// It is useful before concurrent tests. Class data is created for a ZooKeeper in the harness's cache and Java 13 or
    /// newer. This takes some seconds, once, and reduces the processor time of a server's start by a third.
    ///
    /// # Errors
    ///
    /// [`Error::Find`] if there is no ZooKeeper or Java; the errors of [`start`](Self::start) if the servers that create
    /// the class data do not start.
    ///
    /// # Cancel safety
    ///
    /// Safe: finished work is reused by the next call.
    pub async fn prepare(mut self) -> Result<Distribution, Error> {
        let (distribution, _) = self.find().await?;
        if let Some(archive) = class_data::missing(&distribution) {
            write_class_data(&archive, &distribution).await?;
        }
        Ok(distribution)
    }

    /// Finds ZooKeeper and Java, and the library for movable clocks if that is needed.
    async fn find(&mut self) -> Result<(Distribution, Option<ClockLibrary>), Error> {
        let search = self.complete_search()?;
        let movable_clock = self.spec.movable_clock;
        let find = move || {
            let distribution = search.find().map_err(Box::new)?;
            let clock = movable_clock.then(|| ClockLibrary::find(&search));
            Ok::<_, Error>((distribution, clock.transpose()?))
        };
        tokio::task::spawn_blocking(find)
            .await
            .map_err(|error| Error::io("find", Path::new("ZooKeeper"), error.into()))?
    }

    const fn in_containers(&self) -> bool {
        self.containers.is_some()
    }

    fn complete_search(&mut self) -> Result<Search, Error> {
        let mut search = match self.search.take() {
            Some(search) => search,
            None => Search::from_env().map_err(|error| Error::Find(Box::new(error.into())))?,
        };
        if let Some(zookeeper) = &self.spec.zookeeper {
            search = search.zookeeper(zookeeper).map_err(|error| {
                SpecError::new(
                    "zookeeper",
                    format!("{zookeeper:?}"),
                    format!("must be {}", error.rule),
                )
            })?;
        }
        if let Some(java) = &self.spec.java {
            search = search.java(java.clone());
        }
        Ok(search)
    }

    /// Prepares everything for the start of the first server.
    fn set_up(
        &self,
        distribution: &Distribution,
        clock: Option<&ClockLibrary>,
        warnings: &[Warning],
    ) -> Result<Ensemble, Error> {
        let directory = self.fresh_directory()?;
        let hold = self.hold.as_ref().map(File::try_clone).transpose();
        let hold = hold.map_err(|source| Error::io("keep the lock on", &directory, source))?;
        let mut guard = Reaper::spawn(&directory, hold)?;
        guard.remove_at_end(&directory)?;
        private_files::create_directory(&directory).map_err(unwritable)?;
        let memory_directory = match self.spec.data {
            DataStore::Memory => Some(memory_directory(&mut guard)?),
            DataStore::Disk => None,
        };
        let mut warnings = warnings.to_vec();
        let (members, port_file) = if self.in_containers() {
            (container_members(&self.spec), None)
        } else {
            let (members, port_file, warning) =
                members(&self.spec, self.proxied, self.quorum_links, &directory)?;
            guard.remove_at_end(&port_file)?;
            if let Some(warning) = warning {
                tracing::warn!("{warning}");
                warnings.push(warning);
            }
            (members, Some(port_file))
        };
        let plan = Arc::new(Plan {
            spec: self.spec.clone(),
            distribution: distribution.clone(),
            directory,
            memory_directory,
            port_file,
            containers: self.in_containers().then(container_name),
            class_data: (!self.in_containers())
                .then(|| class_data::find(distribution))
                .flatten(),
            clock_library: clock.cloned(),
            members,
        });
        // From here on dropping the value cleans up, even when this future is dropped.
        let ensemble = Ensemble::new(
            Arc::clone(&plan),
            Some(guard),
            self.keep,
            StartReport::default(),
            warnings,
        );
        files::write(&plan).map_err(unwritable)?;
        #[cfg(feature = "tls")]
        if plan.spec.tls {
            certificates::create(&plan).map_err(unwritable)?;
        }
        Ok(ensemble)
    }

    /// Returns the directory to use, which does not exist or is empty.
    fn fresh_directory(&self) -> Result<PathBuf, Error> {
        let Some(directory) = &self.spec.directory else {
            let parent = ports::temp_dir();
            if let Some(rule) = bad_path(&parent) {
                return Err(SpecError::new("TMPDIR", parent.display(), rule).into());
            }
            if !parent.is_dir() {
                let rule = "not a directory; correct TMPDIR, or set `directory`";
                return Err(SpecError::new("TMPDIR", parent.display(), rule).into());
            }
            return Ok(parent.join(unique_name("zk-ensemble-")));
        };
        let refused = |rule: String| SpecError::new("directory", directory.display(), rule);
        let absolute =
            std::path::absolute(directory).map_err(|error| refused(error.to_string()))?;
        if let Some(rule) = bad_path(&absolute) {
            return Err(refused(rule.into()).into());
        }
        match fs::read_dir(&absolute).map(|mut entries| entries.next().is_none()) {
            Ok(false) => Err(refused(
                "must be new or empty, because it is removed with the ensemble".into(),
            )
            .into()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(refused(format!(
                "must be a directory that can be read and written ({error})"
            ))
            .into()),
            _ => Ok(absolute),
        }
    }
}

/// Starts three servers and stops one of them, which then writes the archive: a server of a quorum loads more classes than
/// a standalone one.
async fn write_class_data(
    archive: &MissingArchive,
    distribution: &Distribution,
) -> Result<(), Error> {
    let search = Search::new()
        .home(&distribution.home)
        .java(&distribution.java);
    // Flags of the caller's own also keep `start` from using class data.
    let flags = QUICK_JVM_FLAGS.map(str::to_owned).into_iter();
    let ensemble = Ensemble::builder()
        .servers(3)
        .search(search)
        .jvm_flags(flags.chain([archive.flag()]))
        .start()
        .await?;
    ensemble.servers()[0].stop().await?;
    ensemble.down().await?;
    archive.publish(&distribution.java)
}

/// Returns the servers of an ensemble in containers, which use fixed ports, each at its own network address.
fn container_members(spec: &Spec) -> Vec<Member> {
    let member = |server: &ServerSpec| Member {
        id: server.id,
        client_port: 0,
        quorum_port: 0,
        election_port: 0,
        secure_port: None,
        proxy_port: None,
        relays: Vec::new(),
    };
    spec.server_specs().iter().map(member).collect()
}

/// Returns a new name for an ensemble's network and containers.
fn container_name() -> String {
    unique_name(container::PREFIX)
}

/// Refuses settings that containers do not support.
fn refuse_in_containers(spec: &Spec) -> Result<(), SpecError> {
    let rule = "not supported with containers; omit it";
    if spec.data == DataStore::Memory {
        let rule = "not supported with containers; set it to \"disk\"";
        return Err(SpecError::new("data", "memory", rule));
    }
    if spec.movable_clock {
        return Err(SpecError::new("movable_clock", true, rule));
    }
    if spec.tls {
        return Err(SpecError::new("tls", true, rule));
    }
    if spec.sasl_digest.is_some() {
        return Err(SpecError::new("sasl_digest", "{…}", rule));
    }
    for (index, server) in spec.server_specs().iter().enumerate() {
        for (name, port) in server.ports() {
            if let Some(port) = port {
                let field = format!("server[{index}].{name}");
                return Err(SpecError::new(field, port, rule));
            }
        }
    }
    Ok(())
}

/// Returns the rule that a directory's path breaks. Scripts and configurations contain the paths below it.
fn bad_path(path: &Path) -> Option<&'static str> {
    match path.to_str() {
        Some(text) if !text.contains(|c: char| c == '"' || c.is_control()) => None,
        _ => {
            Some("must be Unicode without double quotes, line breaks and other control characters")
        }
    }
}

/// Turns an I/O error in the ensemble's directory into an error about the setting.
fn unwritable(error: Error) -> Error {
    match error {
        Error::Io { path, source, .. } if path.starts_with(files::MEMORY) => SpecError::new(
            "data",
            "memory",
            format!(
                "the memory file system at {} has too little space ({source}); use \"disk\"",
                files::MEMORY
            ),
        )
        .into(),
        Error::Io { path, source, .. } => SpecError::new(
            "directory",
            path.display(),
            format!("must be a directory that can be created and written ({source})"),
        )
        .into(),
        other => other,
    }
}

fn memory_directory(guard: &mut Reaper) -> Result<PathBuf, Error> {
    let directory = files::memory_directory();
    guard.remove_at_end(&directory)?;
    let created = fs::DirBuilder::new().mode(0o700).create(&directory);
    created.map_err(|error| {
        SpecError::new(
            "data",
            "memory",
            format!(
                "there is no memory file system at {} ({error}); use \"disk\"",
                files::MEMORY
            ),
        )
    })?;
    Ok(directory)
}

/// Returns the servers with their ports, the file that reserves the ports, and a warning about that.
fn members(
    spec: &Spec,
    proxied: bool,
    quorum_links: bool,
    directory: &Path,
) -> Result<(Vec<Member>, PathBuf, Option<Warning>), Error> {
    let servers = spec.server_specs();
    let ports = || servers.iter().flat_map(ServerSpec::ports);
    let requested: BTreeSet<u16> = ports().filter_map(|(_, port)| port).collect();
    let missing = ports().filter(|(_, port)| port.is_none()).count();
    let proxies = if proxied { servers.len() } else { 0 };
    let secure = if spec.tls { servers.len() } else { 0 };
    let relays = if quorum_links {
        2 * servers.len() * (servers.len() - 1)
    } else {
        0
    };
    let count = missing + proxies + secure + relays;
    let reservation =
        ports::reserve(directory, count, &requested).map_err(|error| match error {
            ports::ReserveError::Failed(error) => error,
            ports::ReserveError::Taken { port, by } => {
                reserved_port_error(&servers, port, &by).into()
            }
        })?;
    let mut chosen = reservation.chosen.into_iter();
    let mut choose =
        |port: Option<u16>| port.unwrap_or_else(|| chosen.next().expect("one for each"));
    let relays_of = |to: u32, choose: &mut dyn FnMut(Option<u16>) -> u16| {
        let others = servers
            .iter()
            .filter(|other| quorum_links && other.id != to);
        others
            .map(|other| RelayPorts {
                from: other.id,
                quorum_port: choose(None),
                election_port: choose(None),
            })
            .collect()
    };
    let members = servers
        .iter()
        .map(|server| Member {
            id: server.id,
            client_port: choose(server.client_port),
            quorum_port: choose(server.quorum_port),
            election_port: choose(server.election_port),
            secure_port: spec.tls.then(|| choose(None)),
            proxy_port: proxied.then(|| choose(None)),
            relays: relays_of(server.id, &mut choose),
        })
        .collect();
    Ok((members, reservation.file, reservation.warning))
}

/// Refuses settings under which links cannot be relayed.
fn check_links(spec: &Spec) -> Result<(), SpecError> {
    let servers = spec.server_specs().len();
    if servers > MOST_LINKED {
        let rule = "must be at most 32, because the links need two ports for each pair of servers";
        return Err(SpecError::new("quorum_links", servers, rule));
    }
    if spec.tls {
        let rule = "not supported with quorum_links, because the links have to read what servers send; omit one of them";
        return Err(SpecError::new("tls", true, rule));
    }
    if let Some(value) = spec.properties.get("reconfigEnabled") {
        let rule = "not supported with quorum_links, because servers would announce their own ports; omit one of them";
        return Err(SpecError::new(
            "properties.reconfigEnabled",
            format!("{value:?}"),
            rule,
        ));
    }
    Ok(())
}

/// Returns the error for a configured port that another ensemble has reserved.
fn reserved_port_error(servers: &[ServerSpec], port: u16, by: &Path) -> SpecError {
    let field = servers
        .iter()
        .enumerate()
        .flat_map(|(index, server)| {
            let name = move |name| format!("server[{index}].{name}");
            server
                .ports()
                .map(|(field, requested)| (requested == Some(port)).then(|| name(field)))
        })
        .flatten()
        .next();
    SpecError::new(
        field.unwrap_or_else(|| "server".to_owned()),
        port,
        format!(
            "already reserved by the ensemble in {}, even if that does not run; choose another port",
            by.display()
        ),
    )
}

/// Refuses configured ports that are in use.
fn check_ports(spec: &Spec) -> Result<(), SpecError> {
    for (index, server) in spec.server.iter().enumerate() {
        for (name, port) in server.ports() {
            if let Some(port) = port
                && !ports::is_free(port)
            {
                return Err(SpecError::new(
                    format!("server[{index}].{name}"),
                    port,
                    "another program listens on this port of 127.0.0.1; choose another one",
                ));
            }
        }
    }
    Ok(())
}

fn is_port_clash(log: &str) -> bool {
    log.contains("Address already in use") || log.contains("BindException")
}

/// The links of 32 servers use 1984 ports.
const MOST_LINKED: usize = 32;

/// How often a start is attempted with new ports.
const PORT_ATTEMPTS: u32 = 3;
