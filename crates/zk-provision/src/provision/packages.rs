//! Puts packages into the cache, each into a separate directory.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::Provisioner;
use super::Work;
use super::cache;
use super::clear;
use super::waiting;
use crate::apt::Apt;
use crate::apt::Job;
use crate::apt::Suite;
use crate::cache::package_name;
use crate::error::FindError;
use crate::error::Tried;
use crate::packages::Package;

impl Provisioner<'_> {
    /// Provisions those that were not found yet.
    pub(crate) fn packages(
        &self,
        tag: &str,
        wanted: &mut [(Package, Option<PathBuf>)],
        tried: &mut Vec<Tried>,
    ) -> Result<(), FindError> {
        let locked = self
            .cache
            .lock(self.lock_timeout, &|| waiting(self.progress))?;
        for (package, found) in wanted.iter_mut().filter(|(_, found)| found.is_none()) {
            *found = self.cache.package(package, tag, &mut Vec::new());
        }
        if wanted.iter().all(|(_, found)| found.is_some()) {
            return Ok(());
        }
        let work = Work {
            locked: &locked,
            staging: locked.staging().map_err(cache("write to", &locked))?,
        };
        let lock = locked.descriptor().map_err(cache("lock", &locked))?;
        let job = Job {
            lock: &lock,
            progress: self.progress,
        };
        let apt = match Apt::detect(self.machine, job) {
            Ok(apt) => apt,
            Err(reason) => {
                tried.push(Tried::new("apt", reason));
                return Ok(());
            }
        };
        let what = format!("apt, suite {}", apt.codename);
        let suite = match apt.suite(&apt.codename, work.staging.dir.join("apt")) {
            Ok(suite) => suite,
            Err(reason) => {
                tried.push(Tried::new(what, reason));
                return Ok(());
            }
        };
        for (package, found) in wanted.iter_mut().filter(|(_, found)| found.is_none()) {
            match package_of_suite(&work, &suite, tag, package) {
                Ok(made) => *found = Some(made?),
                Err(reason) => tried.push(Tried::new(what.clone(), reason)),
            }
        }
        Ok(())
    }
}

fn package_of_suite(
    work: &Work<'_>,
    suite: &Suite<'_>,
    tag: &str,
    package: &Package,
) -> Result<Result<PathBuf, FindError>, String> {
    let tree = work.staging.dir.join("package");
    clear(&tree)?;
    let name = suite.unpack_package(package, &tree)?;
    let files = files(&tree).map_err(|error| format!("cannot list {}: {error}", tree.display()))?;
    let origin = format!("{name} of {}", suite.name);
    let dir = package_name(tag, name);
    let published = work.locked.publish(&tree, &dir, origin, &files);
    Ok(published.map_err(cache("write", work.locked)))
}

/// Lists all regular files of a tree, because any of a package's files may be essential.
fn files(tree: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![tree.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
