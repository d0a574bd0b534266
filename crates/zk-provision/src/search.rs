//! Configures the search for ZooKeeper and Java.

mod advice;
mod packages;
mod steps;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Distribution;
use super::Progress;
use super::Source;
#[cfg(feature = "download")]
use super::archive::PINNED;
#[cfg(feature = "download")]
use super::archive::Pin;
use super::error::FindError;
use super::error::Missing;
use super::error::SettingError;
use super::machine::Machine;
use super::settings;
use super::settings::Installed;
use super::settings::Provisioning;
use super::version::Request;
#[cfg(feature = "download")]
use super::version::Version;
use super::version::Wanted;

/// Looks for ZooKeeper and Java, and provisions what is missing.
///
/// # Defaults
///
/// | setting | default |
/// |---|---|
/// | [`home`](Self::home) | none: places of packages and releases are searched |
/// | [`version`](Self::version) | any that is installed, but no 3.9 before 3.9.4; otherwise 3.9 |
/// | [`cache_dir`](Self::cache_dir) | `$XDG_CACHE_HOME/zk-harness` or `~/.cache/zk-harness`; macOS: `~/Library/Caches/zk-harness` |
/// | [`java`](Self::java) | none: `$JAVA_HOME`, `PATH` and the usual directories are searched |
/// | [`use_installed`](Self::use_installed) | [`Installed::Use`] |
/// | [`provisioning`](Self::provisioning) | [`Provisioning::WhenMissing`] |
/// | [`mirror`](Self::mirror) | the Apache archive, which has every release |
/// | [`lock_timeout`](Self::lock_timeout) | 10 minutes |
#[derive(Clone)]
#[must_use]
pub struct Search {
    machine: Machine,
    home: Option<PathBuf>,
    request: Request,
    cache_dir: Option<PathBuf>,
    java: Option<PathBuf>,
    installed: Installed,
    provisioning: Provisioning,
    mirror: String,
    #[cfg(feature = "download")]
    pins: Vec<Pin>,
    lock_timeout: Duration,
    progress: Arc<dyn Fn(&Progress) + Send + Sync>,
    /// The first setter that was given a bad value; reported by `find`.
    wrong: Option<SettingError>,
}

impl Search {
    /// Starts with the defaults; of the environment only what describes the machine is used (`PATH`, `HOME`,
    /// `JAVA_HOME`, `ZOOKEEPER_HOME`, `HOMEBREW_PREFIX`, `XDG_CACHE_HOME`).
    pub fn new() -> Self {
        Self::on(Machine::new(std::env::vars_os()))
    }

    /// Starts with the defaults and the settings of the environment.
    ///
    /// | variable | sets |
    /// |---|---|
    /// | `ZK_HARNESS_HOME` | [`home`](Self::home); an existing directory |
    /// | `ZK_HARNESS_VERSION` | [`version`](Self::version) |
    /// | `ZK_HARNESS_CACHE` | [`cache_dir`](Self::cache_dir) |
    /// | `ZK_HARNESS_PROVISION` | [`provisioning`](Self::provisioning): `when-missing`, `never` or `always` |
    /// | `ZK_HARNESS_MIRROR` | [`mirror`](Self::mirror) |
    ///
    /// An empty variable counts as unset.
    ///
    /// # Errors
    ///
    /// A variable has a value that cannot be used; the error names it, the value and the rule.
    pub fn from_env() -> Result<Self, SettingError> {
        Self::from_vars(std::env::vars_os())
    }

    /// Like [`from_env`](Self::from_env), with the caller's variables.
    ///
    /// # Errors
    ///
    /// As for [`from_env`](Self::from_env).
    pub fn from_vars(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingError> {
        let machine = Machine::new(vars);
        let mut search = Self::on(machine.clone());
        if let Some(home) = machine.path_var(settings::HOME) {
            if !home.is_dir() {
                let rule = "an existing directory with ZooKeeper in it";
                return Err(SettingError::new(
                    settings::HOME,
                    home.display().to_string(),
                    rule,
                ));
            }
            search.home = Some(home);
        }
        if let Some(value) = machine.var(settings::VERSION) {
            search.request = settings::version(settings::VERSION, value)?;
        }
        if let Some(dir) = machine.path_var(settings::CACHE) {
            if dir.exists() && !dir.is_dir() {
                let rule = "a directory, or a path where one can be made";
                return Err(SettingError::new(
                    settings::CACHE,
                    dir.display().to_string(),
                    rule,
                ));
            }
            search.cache_dir = Some(dir);
        }
        if let Some(value) = machine.var(settings::PROVISION) {
            search.provisioning = settings::provisioning(settings::PROVISION, value)?;
        }
        if let Some(value) = machine.var(settings::MIRROR) {
            search.mirror = settings::mirror(settings::MIRROR, value)?;
        }
        Ok(search)
    }

    /// Uses the installation in this directory: an unpacked release, Homebrew's `libexec`, a directory of jars.
    ///
    /// Nothing else is then tried, whatever [`provisioning`](Self::provisioning) says. Default: none. A directory
    /// without a complete ZooKeeper, or with another version than the requested one, is an error of [`find`](Self::find).
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Requests a series (`3.9`) or an exact version (`3.9.6`).
    ///
    /// Default: any version that is installed, and 3.9 from the cache or when it has to be provisioned. Releases of 3.9
    /// before 3.9.4 are known to lose acknowledged writes, so only an exact version selects one of them, with a
    /// [`Distribution::warning`]. Another text is an error of [`find`](Self::find).
    pub fn version(mut self, version: impl Into<String>) -> Self {
        let version = OsString::from(version.into());
        match settings::version("the wanted version", &version) {
            Ok(request) => self.request = request,
            Err(error) => self.note(error),
        }
        self
    }

    /// Applies `--zookeeper VERSION|HOME`: [`version`](Self::version) or [`home`](Self::home).
    pub fn wanted(self, wanted: Wanted) -> Self {
        match wanted {
            Wanted::Version(version) => self.version(version),
            Wanted::Home(home) => self.home(home),
        }
    }

    /// Uses this directory as the cache; it is created when needed.
    ///
    /// Default: see the type. [`find`](Self::find) returns an error if it cannot be created or written.
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(dir.into());
        self
    }

    /// Uses this `java` program and no other, whatever [`provisioning`](Self::provisioning) says.
    ///
    /// Default: none. A program that is not Java 8 or newer is an error of [`find`](Self::find).
    pub fn java(mut self, java: impl Into<PathBuf>) -> Self {
        self.java = Some(java.into());
        self
    }

    /// Sets whether to use installed packages and an installed Java. Default: [`Installed::Use`].
    pub fn use_installed(mut self, installed: Installed) -> Self {
        self.installed = installed;
        self
    }

    /// Sets when the cache may be filled. Default: [`Provisioning::WhenMissing`].
    pub fn provisioning(mut self, provisioning: Provisioning) -> Self {
        self.provisioning = provisioning;
        self
    }

    /// Fetches release archives from this base URL (`<mirror>/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz`).
    ///
    /// Default: the Apache archive. Anything but an http or https URL is an error of [`find`](Self::find).
    pub fn mirror(mut self, mirror: impl Into<String>) -> Self {
        let mirror = OsString::from(mirror.into());
        match settings::mirror("the mirror", &mirror) {
            Ok(mirror) => self.mirror = mirror,
            Err(error) => self.note(error),
        }
        self
    }

    /// Pins the SHA-512 that the archive of an exact version must have, beside those that are built in.
    ///
    /// Default: the built-in ones only. A bad version or checksum is an error of [`find`](Self::find).
    #[cfg(feature = "download")]
    pub fn pin(mut self, version: &str, sha512: &str) -> Self {
        match (Version::parse(version), settings::sha512(sha512)) {
            (Some(version), Ok(sha512)) => {
                self.pins.retain(|pin| pin.version != version);
                self.pins.push(Pin { version, sha512 });
            }
            (None, _) => self.note(SettingError::new(
                "the pinned version",
                version,
                "exact, like 3.9.6",
            )),
            (_, Err(error)) => self.note(error),
        }
        self
    }

    /// Waits at most this long for another process that provisions into the same cache. Default: 10 minutes.
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// Looks for what is installed below this directory instead of `/`, for example in a mounted image.
    ///
    /// Default: `/`. The variables `ZOOKEEPER_HOME`, `JAVA_HOME` and `PATH` are used as they are.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.machine.root = root.into();
        self
    }

    /// Calls this function with the progress, several times a second, from the searching thread.
    ///
    /// Default: none.
    pub fn progress(mut self, progress: Arc<dyn Fn(&Progress) + Send + Sync>) -> Self {
        self.progress = progress;
        self
    }

    /// Finds ZooKeeper and Java, or provisions them.
    ///
    /// Blocks: for microseconds if everything is installed or cached, otherwise as long as the downloads take.
    ///
    /// # Errors
    ///
    /// [`FindError::Home`] and [`FindError::Java`] for an unusable explicit choice, [`FindError::Setting`] for
    /// a setter's bad value, [`FindError::Cache`] and [`FindError::Busy`] for a cache that cannot be used, otherwise
    /// [`FindError::NotFound`] with all that was tried.
    pub fn find(&self) -> Result<Distribution, FindError> {
        if let Some(error) = &self.wrong {
            return Err(error.clone().into());
        }
        let (mut for_zookeeper, mut for_java) = (Vec::new(), Vec::new());
        let mut zookeeper = self.explicit_home()?;
        let mut java = self.explicit_java()?;
        if zookeeper.is_none() {
            zookeeper = self.installed_zookeeper(&mut for_zookeeper);
        }
        if java.is_none() {
            java = self.installed_java(&mut for_java);
        }
        if zookeeper.is_none() || java.is_none() {
            let cache = self.cache()?;
            let tag = self.java_tag();
            if zookeeper.is_none() {
                zookeeper = cache
                    .zookeeper(self.request.or_default(), &mut for_zookeeper)
                    .map(|found| (found, Source::Cached));
            }
            if java.is_none() {
                java = cache.java(&tag, &mut for_java);
            }
            if zookeeper.is_none() || java.is_none() {
                self.provision(
                    &cache,
                    &tag,
                    &mut zookeeper,
                    &mut java,
                    &mut for_zookeeper,
                    &mut for_java,
                )?;
            }
        }
        let Some((found, source)) = zookeeper else {
            return Err(self.not_found(Missing::ZooKeeper, for_zookeeper).into());
        };
        let Some(java) = java else {
            return Err(self.not_found(Missing::Java, for_java).into());
        };
        tracing::debug!(version = %found.version, home = %found.home.display(), java = %java.display(), %source, "found");
        Ok(Distribution {
            version: found.version.to_string(),
            classpath: found.classpath,
            java,
            logging: found.logging,
            home: found.home,
            source,
        })
    }

    fn on(machine: Machine) -> Self {
        Self {
            machine,
            home: None,
            request: Request::Any,
            cache_dir: None,
            java: None,
            installed: Installed::default(),
            provisioning: Provisioning::default(),
            mirror: settings::DEFAULT_MIRROR.to_owned(),
            #[cfg(feature = "download")]
            pins: PINNED
                .iter()
                .filter_map(|(version, sha512)| {
                    Some(Pin {
                        version: Version::parse(version)?,
                        sha512: (*sha512).to_owned(),
                    })
                })
                .collect(),
            lock_timeout: Duration::from_secs(10 * 60),
            progress: Arc::new(|_| {}),
            wrong: None,
        }
    }

    fn note(&mut self, error: SettingError) {
        self.wrong.get_or_insert(error);
    }
}

impl Default for Search {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The machine's variables may hold secrets.
        f.debug_struct("Search")
            .field("home", &self.home)
            .field("request", &self.request)
            .field("cache_dir", &self.cache_dir)
            .field("java", &self.java)
            .field("installed", &self.installed)
            .field("provisioning", &self.provisioning)
            .field("mirror", &self.mirror)
            .field("lock_timeout", &self.lock_timeout)
            .finish_non_exhaustive()
    }
}
