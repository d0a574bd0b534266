//! Carries out a search: takes what is explicit, installed or cached, and provisions the rest.

use std::io;
use std::path::PathBuf;

use crate::cache::Cache;
use crate::distribution::{Distribution, Source};
use crate::error::{FindError, NotFound, SettingError};
#[cfg(feature = "download")]
use crate::provision::provision;
use crate::search::Search;
use crate::settings::{self, Installed, Provisioning};
use crate::version::Request;
use crate::want::{Item, Package, Want, missing};
use crate::{advice, home, installed, java};

impl Search {
    /// Finds ZooKeeper and Java, or provisions them.
    ///
    /// Blocks: for milliseconds if everything is installed or cached, otherwise as long as the downloads take.
    ///
    /// # Errors
    ///
    /// [`FindError::Home`] and [`FindError::Java`] for an unusable explicit choice, [`FindError::Setting`] for
    /// a setter's bad value, [`FindError::Cache`] and [`FindError::Busy`] for a cache that cannot be used, otherwise
    /// [`FindError::NotFound`] with all that was tried.
    pub fn find(&self) -> Result<Distribution, FindError> {
        self.check_settings()?;
        let mut zookeeper = Item::new(Want::ZooKeeper(self.request));
        zookeeper.found = self.explicit_home()?;
        let mut java = Item::new(Want::Java);
        java.found = self.explicit_java()?;
        let items = self.resolve([zookeeper, java].into())?;
        let [(home, source), (java, _)] = &items[..] else {
            unreachable!("two were found")
        };
        let found = home::inspect(home).map_err(|reason| match source {
            Source::Explicit => FindError::Home {
                path: home.clone(),
                reason,
            },
            // Another process has replaced it since it was found.
            _ => FindError::Cache {
                action: "read",
                path: home.clone(),
                source: io::Error::other(reason),
            },
        })?;
        tracing::debug!(version = %found.version, home = %found.home.display(), java = %java.display(), ?source, "found");
        Ok(Distribution {
            version: found.version.to_string(),
            classpath: found.classpath,
            java: java.clone(),
            logging: found.logging,
            home: found.home,
            source: *source,
        })
    }

    /// Finds packages of Debian or Ubuntu, or provisions them: for example other clients to compare with.
    ///
    /// Returns a directory of the cache for each package, in the same order, with the package's files below it.
    /// The packages are those of the machine's own release. They are unpacked, not installed: none of their scripts
    /// runs, and *dependencies are not fetched*, so a caller names all packages that it needs.
    /// A name can have alternatives, `"libnew-java | libold-java"`, for a package that changed its name; the first
    /// that the release has is taken.
    /// The settings of the cache, [`provisioning`](Self::provisioning), [`lock_timeout`](Self::lock_timeout),
    /// [`progress`](Self::progress) and [`root`](Self::root) apply as for [`find`](Self::find). What the cache has is used without asking whether there is something newer.
    ///
    /// Blocks, as [`find`](Self::find) does.
    ///
    /// # Errors
    ///
    /// [`FindError::Setting`] for an invalid name and for a setter's bad value, [`FindError::Cache`] and
    /// [`FindError::Busy`] for a cache that cannot be used, otherwise [`FindError::NotFound`] with all that was tried;
    /// on a system that is neither Debian nor Ubuntu nor like them that is always so.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_provision::Search;
    ///
    /// let roots = Search::from_env()?.packages(["libcurator-recipes-java", "libguava-java"])?;
    /// let recipes = roots[0].join("usr/share/java/curator-recipes.jar");
    /// # Ok(())
    /// # }
    /// ```
    pub fn packages(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Vec<PathBuf>, FindError> {
        self.check_settings()?;
        let mut items = Vec::new();
        for name in names {
            let package = Package::parse(name.as_ref())?;
            items.push(Item::new(Want::Package(package)));
        }
        let found = self.resolve(items)?;
        Ok(found.into_iter().map(|(path, _)| path).collect())
    }

    /// Finds every item: installed, in the cache, or by provisioning it.
    fn resolve(&self, mut items: Vec<Item>) -> Result<Vec<(PathBuf, Source)>, FindError> {
        for item in missing(&mut items) {
            // An installed Java only runs the provisioned jars, and adds none to the class path.
            let ignored = match item.want {
                Want::ZooKeeper(_) => self.ignores_installed(),
                Want::Java => self.installed == Installed::Ignore,
                Want::Package(_) => false,
            };
            if ignored {
                item.tried("what is installed", "ignored, as asked for");
                continue;
            }
            item.found = installed::find(&self.machine, item).map(|path| (path, Source::Installed));
        }
        if missing(&mut items).next().is_some() {
            let cache = self.cache()?;
            for item in missing(&mut items) {
                item.found = cache.find(item).map(|path| (path, Source::Cached));
            }
            if missing(&mut items).next().is_some() {
                self.provision(&cache, &mut items)?;
            }
        }
        if missing(&mut items).next().is_some() {
            return Err(self.not_found(items).into());
        }
        Ok(items.into_iter().filter_map(|item| item.found).collect())
    }

    #[cfg_attr(
        not(feature = "download"),
        expect(clippy::unnecessary_wraps, reason = "as with the feature")
    )]
    fn provision(&self, cache: &Cache, items: &mut [Item]) -> Result<(), FindError> {
        #[cfg(feature = "download")]
        if self.provisioning != Provisioning::Never {
            return provision(self, cache, items);
        }
        let reason = match self.provisioning {
            Provisioning::Never => "switched off",
            _ => "this build of zk-provision is without its `download` feature",
        };
        tracing::debug!(?cache, reason, "not provisioning");
        for item in missing(items) {
            item.tried("provisioning", reason);
        }
        Ok(())
    }

    /// The error for what is missing: ZooKeeper, or Java, or packages.
    fn not_found(&self, mut items: Vec<Item>) -> NotFound {
        items.retain(|item| item.found.is_none());
        if matches!(
            items[..],
            [
                Item {
                    want: Want::ZooKeeper(_),
                    ..
                },
                ..
            ]
        ) {
            items.truncate(1);
        }
        let names: Vec<String> = items.iter().map(|item| item.want.to_string()).collect();
        let mut not_found = NotFound {
            wanted: names.join(", "),
            tried: Vec::new(),
            fix: advice::command(self, &items[0].want, &self.machine.system()),
        };
        for tried in items.into_iter().flat_map(|item| item.tried) {
            if !not_found.tried.contains(&tried) {
                not_found.tried.push(tried);
            }
        }
        not_found
    }

    fn explicit_home(&self) -> Result<Option<(PathBuf, Source)>, FindError> {
        let Some(home) = &self.home else {
            return Ok(None);
        };
        // A home is named: that is as good as an exact version.
        let suitable = match self.request {
            Request::Any => home::inspect(home).map(drop),
            request => installed::suitable(home, request),
        };
        match suitable {
            Ok(()) => Ok(Some((home.clone(), Source::Explicit))),
            Err(reason) => Err(FindError::Home {
                path: home.clone(),
                reason,
            }),
        }
    }

    fn explicit_java(&self) -> Result<Option<(PathBuf, Source)>, FindError> {
        let Some(java) = &self.java else {
            return Ok(None);
        };
        let checked = java::check(java)
            .and_then(|_| std::path::absolute(java).map_err(|error| error.to_string()));
        match checked {
            Ok(java) => Ok(Some((java, Source::Explicit))),
            Err(reason) => Err(FindError::Java {
                path: java.clone(),
                reason,
            }),
        }
    }

    fn cache(&self) -> Result<Cache, FindError> {
        let Some(dir) = self.cache_dir.clone().or_else(|| self.default_cache()) else {
            let rule = "set where neither XDG_CACHE_HOME nor HOME names an absolute directory";
            return Err(SettingError::new(settings::CACHE, "", rule).into());
        };
        let codename = self.machine.system().codename;
        let codename = codename.as_deref().unwrap_or(std::env::consts::OS);
        match std::path::absolute(&dir) {
            Ok(dir) => Ok(Cache {
                dir,
                system: format!("{codename}-{}", std::env::consts::ARCH),
            }),
            Err(source) => Err(FindError::Cache {
                action: "resolve",
                path: dir,
                source,
            }),
        }
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
}
