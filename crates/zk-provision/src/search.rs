//! Configures the search for ZooKeeper and Java.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::distribution::Progress;
use crate::error::SettingError;
use crate::machine::Machine;
use crate::release::{self, Pins};
use crate::settings::{self, Installed, Provisioning};
use crate::version::Request;
#[cfg(feature = "download")]
use crate::version::Version;

/// Looks for ZooKeeper and Java, and provisions what is missing.
///
/// # Defaults
///
/// | setting | default |
/// |---|---|
/// | [`home`](Self::home) | none: places of packages and releases are searched |
/// | [`version`](Self::version) | any that is installed, but no 3.9 before 3.9.4; otherwise 3.9 |
/// | the cache | `$ZK_HARNESS_CACHE` with [`from_env`](Self::from_env), otherwise `$XDG_CACHE_HOME/zk-harness` or `~/.cache/zk-harness`; macOS: `~/Library/Caches/zk-harness` |
/// | [`java`](Self::java) | none: `$JAVA_HOME`, `PATH` and the usual directories are searched |
/// | [`use_installed`](Self::use_installed) | [`Installed::Use`] |
/// | [`provisioning`](Self::provisioning) | [`Provisioning::WhenMissing`] |
/// | the mirror of release archives | `$ZK_HARNESS_MIRROR` with [`from_env`](Self::from_env), otherwise the Apache archive, which has every release |
/// | [`lock_timeout`](Self::lock_timeout) | 10 minutes |
#[derive(Clone)]
#[must_use]
pub struct Search {
    pub(super) machine: Machine,
    pub(super) home: Option<PathBuf>,
    pub(super) request: Request,
    pub(super) cache_dir: Option<PathBuf>,
    pub(super) java: Option<PathBuf>,
    pub(super) installed: Installed,
    pub(super) provisioning: Provisioning,
    pub(super) mirror: String,
    pub(super) pins: Pins,
    pub(super) lock_timeout: Duration,
    pub(super) progress: Arc<dyn Fn(&Progress) + Send + Sync>,
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
    /// | `ZK_HARNESS_CACHE` | the directory of the cache, which is created when needed |
    /// | `ZK_HARNESS_PROVISION` | [`provisioning`](Self::provisioning): `when-missing`, `never` or `always` |
    /// | `ZK_HARNESS_MIRROR` | the base URL of release archives (`<mirror>/zookeeper-3.9.6/apache-zookeeper-3.9.6-bin.tar.gz`) |
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
    /// [`Distribution::warning`](crate::Distribution::warning). Another text is an error of [`find`](Self::find).
    pub fn version(mut self, version: impl Into<String>) -> Self {
        let version = OsString::from(version.into());
        match settings::version("the wanted version", &version) {
            Ok(request) => self.request = request,
            Err(error) => self.note(error),
        }
        self
    }

    /// Applies `--zookeeper VERSION|HOME`: [`version`](Self::version) or [`home`](Self::home).
    ///
    /// What has only digits and dots is a version, everything else a directory; `./3` names a directory called `3`.
    ///
    /// # Errors
    ///
    /// The text is empty, or has only digits and dots but is no version.
    pub fn zookeeper(self, text: &str) -> Result<Self, SettingError> {
        const RULE: &str =
            "a version like 3.9 or 3.9.6, or a directory (./3 if its name looks like a version)";
        let is_digits_and_dots = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        if Request::parse(text).is_some() {
            Ok(self.version(text))
        } else if text.is_empty() || is_digits_and_dots && text.contains(|c| c != '.') {
            Err(SettingError::new("the wanted ZooKeeper", text, RULE))
        } else {
            Ok(self.home(text))
        }
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

    /// Pins the SHA-512 that the archive of an exact version must have, beside those that are built in.
    ///
    /// Default: the built-in ones only. A bad version or digest is an error of [`find`](Self::find).
    #[cfg(feature = "download")]
    pub fn pin(mut self, version: &str, sha512: &str) -> Self {
        match Version::parse(version) {
            Some(version) if is_sha512(sha512) => {
                self.pins.insert(version, sha512.to_ascii_lowercase());
            }
            Some(_) => self.note(SettingError::new(
                "the pinned SHA-512",
                sha512,
                "128 hexadecimal digits",
            )),
            None => self.note(SettingError::new(
                "the pinned version",
                version,
                "exact, like 3.9.6",
            )),
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

    /// Calls this function with the progress from the searching thread: when a step begins, and several times a second
    /// during a download.
    ///
    /// Default: none.
    pub fn progress(mut self, progress: Arc<dyn Fn(&Progress) + Send + Sync>) -> Self {
        self.progress = progress;
        self
    }

    pub(super) fn ignores_installed(&self) -> bool {
        self.installed == Installed::Ignore || self.provisioning == Provisioning::Always
    }

    /// Returns the error of the first setter that was given a bad value.
    pub(super) fn check_settings(&self) -> Result<(), SettingError> {
        self.wrong.clone().map_or(Ok(()), Err)
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
            pins: release::pins(),
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

#[cfg(feature = "download")]
fn is_sha512(digest: &str) -> bool {
    digest.len() == 128 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}
