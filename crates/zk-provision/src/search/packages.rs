//! Finds packages that a test needs in addition to ZooKeeper, or provisions them.

use std::fs;
use std::path::PathBuf;
#[cfg(feature = "download")]
use std::sync::Arc;

use super::Search;
use super::advice;
#[cfg(feature = "download")]
use crate::Progress;
use crate::cache::Cache;
use crate::error::FindError;
use crate::error::Missing;
use crate::error::NotFound;
use crate::error::Tried;
use crate::packages::Package;
#[cfg(feature = "download")]
use crate::provision::Provisioner;
use crate::settings::Provisioning;

/// The list of installed packages.
const STATUS: &str = "/var/lib/dpkg/status";

impl Search {
    /// Finds packages of Debian or Ubuntu, or provisions them: for example other clients to compare with.
    ///
    /// Returns a directory for each package, in the same order, with the package's files below it: `/` for one
    /// that is installed, otherwise a directory of the cache that belongs to this package.
    /// The packages are those of the machine's own release. They are unpacked, not installed: none of their scripts
    /// runs, and *dependencies are not fetched*, so a caller names all packages that it needs.
    /// A name can have alternatives, `"libnew-java | libold-java"`, for a package that changed its name; the first
    /// that the release has is taken.
    /// [`cache_dir`](Self::cache_dir), [`use_installed`](Self::use_installed), [`provisioning`](Self::provisioning),
    /// [`lock_timeout`](Self::lock_timeout), [`progress`](Self::progress) and [`root`](Self::root) apply as for
    /// [`find`](Self::find). What the cache has is used without asking whether there is something newer.
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
        if let Some(error) = &self.wrong {
            return Err(error.clone().into());
        }
        let mut wanted = Vec::new();
        for name in names {
            wanted.push((Package::parse(name.as_ref())?, None));
        }
        let mut tried = Vec::new();
        self.installed_packages(&mut wanted, &mut tried);
        if wanted.iter().any(|(_, found)| found.is_none()) {
            let cache = self.cache()?;
            let tag = self.java_tag();
            for (package, found) in wanted.iter_mut().filter(|(_, found)| found.is_none()) {
                *found = cache.package(package, &tag, &mut tried);
            }
            if wanted.iter().any(|(_, found)| found.is_none()) {
                self.provision_packages(&cache, &tag, &mut wanted, &mut tried)?;
            }
        }
        let absent: Vec<&Package> = wanted
            .iter()
            .filter(|(_, found)| found.is_none())
            .map(|(package, _)| package)
            .collect();
        if absent.is_empty() {
            return Ok(wanted.into_iter().filter_map(|(_, found)| found).collect());
        }
        let names: Vec<String> = absent.iter().map(ToString::to_string).collect();
        Err(NotFound {
            missing: Missing::Packages,
            wanted: format!("the packages {}", names.join(", ")),
            tried,
            fix: advice::packages(
                &absent,
                self.provisioning,
                self.ignores_installed(),
                &self.machine.system(),
            ),
        }
        .into())
    }

    fn installed_packages(
        &self,
        wanted: &mut [(Package, Option<PathBuf>)],
        tried: &mut Vec<Tried>,
    ) {
        if self.ignores_installed() {
            tried.push(Tried::new("installed packages", "ignored, as asked for"));
            return;
        }
        let path = self.machine.below_root(STATUS);
        let status = match fs::read_to_string(&path) {
            Ok(status) => status,
            Err(error) => {
                tried.push(Tried::new(path.display().to_string(), error.to_string()));
                return;
            }
        };
        for (package, found) in wanted {
            if package.is_installed(&status) {
                *found = Some(self.machine.root.clone());
            } else {
                tried.push(Tried::new(
                    "installed packages",
                    format!("{package} is not among them"),
                ));
            }
        }
    }

    #[cfg(feature = "download")]
    fn provision_packages(
        &self,
        cache: &Cache,
        tag: &str,
        wanted: &mut [(Package, Option<PathBuf>)],
        tried: &mut Vec<Tried>,
    ) -> Result<(), FindError> {
        if self.provisioning == Provisioning::Never {
            tried.push(Tried::new("provisioning", "switched off"));
            return Ok(());
        }
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
        provisioner.packages(tag, wanted, tried)
    }

    #[cfg(not(feature = "download"))]
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature as with the feature"
    )]
    fn provision_packages(
        &self,
        _cache: &Cache,
        _tag: &str,
        _wanted: &mut [(Package, Option<PathBuf>)],
        tried: &mut Vec<Tried>,
    ) -> Result<(), FindError> {
        let outcome = if self.provisioning == Provisioning::Never {
            "switched off"
        } else {
            "this build of zk-provision is without its `download` feature"
        };
        tried.push(Tried::new("provisioning", outcome));
        Ok(())
    }
}
