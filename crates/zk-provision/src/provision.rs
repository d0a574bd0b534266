//! Puts ZooKeeper, Java and packages into the cache.

use std::path::{Path, PathBuf};

use crate::apt::{Apt, Suite};
use crate::cache::{Cache, Locked, content};
use crate::distribution::{Progress, Source};
use crate::error::FindError;
use crate::search::Search;
use crate::version::Request;
use crate::want::{Item, Want, missing};
use crate::{archive, release};

/// Provisions what is missing under one lock, so that shared downloads happen once.
pub(super) fn provision(
    search: &Search,
    cache: &Cache,
    items: &mut [Item],
) -> Result<(), FindError> {
    let locked = cache.lock(search.lock_timeout, || {
        (search.progress)(&Progress {
            what: "waiting for another process that is provisioning".to_owned(),
            done: 0,
            total: None,
        });
    })?;
    for item in missing(items) {
        // That other process may have provisioned it.
        let mut again = Item::new(item.want.clone());
        item.found = cache.find(&mut again).map(|path| (path, Source::Cached));
    }
    if missing(items).next().is_none() {
        return Ok(());
    }
    let provisioner = Provisioner {
        search,
        cache,
        locked: &locked,
    };
    provisioner.with_apt(items);
    for item in missing(items) {
        if let Want::ZooKeeper(request) = item.want {
            provisioner.with_release(request.or_default(), item);
        }
    }
    Ok(())
}

struct Provisioner<'a> {
    search: &'a Search,
    cache: &'a Cache,
    locked: &'a Locked,
}

impl Provisioner<'_> {
    fn with_apt(&self, items: &mut [Item]) {
        let detected = self.locked.temporary().and_then(|state| {
            let progress = &*self.search.progress;
            Apt::detect(&self.search.machine, &self.locked.lock, progress, state)
        });
        let mut apt = match detected {
            Ok(apt) => apt,
            Err(reason) => {
                for item in missing(items) {
                    item.tried("apt", reason.clone());
                }
                return;
            }
        };
        for item in missing(items) {
            for name in apt.suites(&item.want) {
                let made = apt
                    .suite(&name)
                    .and_then(|suite| self.unpack(&suite, &item.want));
                match made {
                    Ok(path) => {
                        item.found = Some((path, Source::Provisioned));
                        break;
                    }
                    Err(reason) => item.tried(format!("apt, suite {name}"), reason),
                }
            }
        }
    }

    fn unpack(&self, suite: &Suite<'_>, want: &Want) -> Result<PathBuf, String> {
        let temporary = self.locked.temporary()?;
        let tree = temporary.path().join("tree");
        let system = &self.cache.system;
        let (package, name) = match want {
            Want::ZooKeeper(request) => {
                let version = suite.zookeeper()?;
                if let Some(refusal) = request.or_default().refusal(version) {
                    return Err(format!("it has {refusal}"));
                }
                let version = suite.unpack_zookeeper(&tree)?;
                ("libzookeeper-java", format!("zookeeper-{version}"))
            }
            Want::Java => {
                let feature = suite.unpack_java(&tree)?;
                ("default-jre-headless", format!("java-{feature}-{system}"))
            }
            Want::Package(package) => {
                let package = suite.unpack_package(package, &tree)?;
                (package, format!("package-{system}-{package}"))
            }
        };
        self.publish(want, &tree, &name, format!("{package} of {}", suite.name))
    }

    fn with_release(&self, request: Request, item: &mut Item) {
        let search = self.search;
        let (version, sha512) = match release::choose(request, &search.pins) {
            Ok(pinned) => pinned,
            Err(reason) => {
                item.tried(format!("release archive {}", search.mirror), reason);
                return;
            }
        };
        let url = release::url(&search.mirror, version);
        let made = self.locked.temporary().and_then(|temporary| {
            let (dir, progress) = (temporary.path(), &*search.progress);
            let home = archive::provision(version, sha512, &url, dir, progress)?;
            let name = format!("zookeeper-{version}");
            self.publish(&item.want, &home, &name, url.clone())
        });
        match made {
            Ok(path) => item.found = Some((path, Source::Provisioned)),
            Err(reason) => item.tried(url, reason),
        }
    }

    fn publish(
        &self,
        want: &Want,
        tree: &Path,
        name: &str,
        origin: String,
    ) -> Result<PathBuf, String> {
        let published = self.locked.publish(tree, name, origin);
        let dir = published
            .map_err(|error| format!("cannot write {}: {error}", self.cache.dir.display()))?;
        content(want, &dir)
    }
}
