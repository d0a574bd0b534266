//! Performs the steps of a search in order.

use std::path::Path;
use std::path::PathBuf;
#[cfg(feature = "download")]
use std::sync::Arc;

use super::Search;
use super::advice::Advice;
#[cfg(feature = "download")]
use crate::Progress;
use crate::Source;
use crate::cache::Cache;
use crate::error::FindError;
use crate::error::Missing;
use crate::error::NotFound;
use crate::error::SettingError;
use crate::error::Tried;
use crate::home;
use crate::home::Found;
use crate::java;
use crate::places;
use crate::places::Place;
#[cfg(feature = "download")]
use crate::provision::Made;
#[cfg(feature = "download")]
use crate::provision::Parts;
#[cfg(feature = "download")]
use crate::provision::Provisioner;
#[cfg(feature = "download")]
use crate::provision::Tries;
use crate::settings;
use crate::settings::Installed;
use crate::settings::Provisioning;
use crate::version::Request;

impl Search {
    pub(super) fn explicit_home(&self) -> Result<Option<(Found, Source)>, FindError> {
        let Some(home) = &self.home else {
            return Ok(None);
        };
        // A home is named: that is as good as an exact version.
        let suitable = match self.request {
            Request::Any => home::inspect(home),
            _ => self.suitable(home),
        };
        match suitable {
            Ok(found) => Ok(Some((found, Source::Explicit))),
            Err(reason) => Err(FindError::Home {
                path: home.clone(),
                reason,
            }),
        }
    }

    pub(super) fn explicit_java(&self) -> Result<Option<PathBuf>, FindError> {
        let Some(java) = &self.java else {
            return Ok(None);
        };
        let checked = java::check(java)
            .and_then(|_| std::path::absolute(java).map_err(|error| error.to_string()));
        checked.map(Some).map_err(|reason| FindError::Java {
            path: java.clone(),
            reason,
        })
    }

    fn suitable(&self, home: &Path) -> Result<Found, String> {
        let found = home::inspect(home)?;
        match self.request.refusal(found.version) {
            None => Ok(found),
            Some(refusal) => Err(format!("it is {refusal}")),
        }
    }

    pub(super) fn ignores_installed(&self) -> bool {
        self.installed == Installed::Ignore || self.provisioning == Provisioning::Always
    }

    pub(super) fn installed_zookeeper(&self, tried: &mut Vec<Tried>) -> Option<(Found, Source)> {
        if self.ignores_installed() {
            tried.push(Tried::new("installed packages", "ignored, as asked for"));
            return None;
        }
        let mut absent = Vec::new();
        for place in places::all(&self.machine) {
            let homes = match place {
                Place::Unset { variable } => {
                    tried.push(Tried::new(format!("${variable}"), "not set"));
                    continue;
                }
                Place::Home { label, path } if !path.is_dir() => {
                    absent.push(label);
                    continue;
                }
                Place::Home { label, path } => vec![(label, path)],
                Place::Children { parent, prefix } => places::children(&parent, prefix)
                    .into_iter()
                    .map(|path| (path.display().to_string(), path))
                    .collect(),
            };
            for (label, path) in homes {
                match self.suitable(&path) {
                    Ok(found) => return Some((found, Source::Installed)),
                    Err(reason) => tried.push(Tried::new(label, reason)),
                }
            }
        }
        if !absent.is_empty() {
            tried.push(Tried::new(absent.join(", "), "no such directory"));
        }
        None
    }

    pub(super) fn installed_java(&self, tried: &mut Vec<Tried>) -> Option<PathBuf> {
        // It only runs the provisioned jars, and adds none to the class path.
        if self.installed == Installed::Ignore {
            tried.push(Tried::new("installed Java", "ignored, as asked for"));
            return None;
        }
        for (label, candidate) in java::candidates(&self.machine) {
            let outcome = match candidate {
                None if label.starts_with('$') => "not set".to_owned(),
                None => "none there".to_owned(),
                Some(java) => match java::check(&java) {
                    Ok(_) => return Some(java),
                    Err(reason) => reason,
                },
            };
            tried.push(Tried::new(label, outcome));
        }
        None
    }

    pub(super) fn cache(&self) -> Result<Cache, FindError> {
        let dir = self
            .cache_dir
            .clone()
            .or_else(|| self.default_cache())
            .ok_or_else(|| {
                let rule = "set where neither XDG_CACHE_HOME nor HOME names an absolute directory";
                SettingError::new(settings::CACHE, "", rule)
            })?;
        let absolute = std::path::absolute(&dir);
        Ok(Cache::new(absolute.map_err(|source| FindError::Cache {
            action: "resolve",
            path: dir,
            source,
        })?))
    }

    fn default_cache(&self) -> Option<PathBuf> {
        let absolute = |name: &str| {
            self.machine
                .path_var(name)
                .filter(|path| path.is_absolute())
        };
        let base = if cfg!(target_os = "macos") {
            absolute("HOME").map(|home| home.join("Library/Caches"))
        } else {
            absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        };
        base.map(|base| base.join("zk-harness"))
    }

    /// Names the systems that a Java runtime in the cache fits.
    pub(super) fn java_tag(&self) -> String {
        let codename = self
            .machine
            .system()
            .codename
            .unwrap_or_else(|| std::env::consts::OS.to_owned());
        format!("{codename}-{}", std::env::consts::ARCH)
    }

    #[cfg(feature = "download")]
    pub(super) fn provision(
        &self,
        cache: &Cache,
        java_tag: &str,
        zookeeper: &mut Option<(Found, Source)>,
        java: &mut Option<PathBuf>,
        for_zookeeper: &mut Vec<Tried>,
        for_java: &mut Vec<Tried>,
    ) -> Result<(), FindError> {
        if self.provisioning == Provisioning::Never {
            for tried in [for_zookeeper, for_java] {
                tried.push(Tried::new("provisioning", "switched off"));
            }
            return Ok(());
        }
        let parts = Parts {
            zookeeper: zookeeper.is_none().then_some(self.request),
            java: java.is_none(),
        };
        let progress = Arc::clone(&self.progress);
        let report = move |step: Progress| progress(&step);
        let provisioner = Provisioner {
            machine: &self.machine,
            cache,
            mirror: &self.mirror,
            pins: &self.pins,
            lock_timeout: self.lock_timeout,
            progress: &report,
        };
        let mut tries = Tries::default();
        let outcome = provisioner.provision(parts, java_tag, &mut tries)?;
        for_zookeeper.append(&mut tries.zookeeper);
        for_java.append(&mut tries.java);
        if zookeeper.is_none() {
            *zookeeper = outcome.zookeeper.map(|(found, made)| match made {
                Made::Here => (found, Source::Provisioned),
                Made::Elsewhere => (found, Source::Cached),
            });
        }
        if java.is_none() {
            *java = outcome.java;
        }
        Ok(())
    }

    #[cfg(not(feature = "download"))]
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature as with the feature"
    )]
    pub(super) fn provision(
        &self,
        _cache: &Cache,
        _java_tag: &str,
        _zookeeper: &mut Option<(Found, Source)>,
        _java: &mut Option<PathBuf>,
        for_zookeeper: &mut Vec<Tried>,
        for_java: &mut Vec<Tried>,
    ) -> Result<(), FindError> {
        let outcome = if self.provisioning == Provisioning::Never {
            "switched off"
        } else {
            "this build of zk-provision is without its `download` feature"
        };
        for tried in [for_zookeeper, for_java] {
            tried.push(Tried::new("provisioning", outcome));
        }
        Ok(())
    }

    pub(super) fn not_found(&self, missing: Missing, tried: Vec<Tried>) -> NotFound {
        let wanted = match (missing, self.request) {
            (Missing::Java, _) => format!("Java {} or newer", java::OLDEST),
            (_, Request::Any) => "ZooKeeper".to_owned(),
            (_, request) => format!("ZooKeeper {request}"),
        };
        #[cfg(feature = "download")]
        let pinned = crate::archive::choose(self.request, &self.pins)
            .ok()
            .map(|pin| pin.version);
        #[cfg(not(feature = "download"))]
        let pinned = None;
        let advice = Advice {
            missing,
            request: self.request,
            provisioning: self.provisioning,
            ignores_installed: match missing {
                Missing::Java => self.installed == Installed::Ignore,
                _ => self.ignores_installed(),
            },
            mirror: &self.mirror,
            pinned,
        };
        NotFound {
            missing,
            wanted,
            tried,
            fix: advice.command(&self.machine.system()),
        }
    }
}
