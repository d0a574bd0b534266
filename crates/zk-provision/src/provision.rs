//! Puts ZooKeeper and Java into the cache.

mod packages;

use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use super::Progress;
use super::apt::Apt;
use super::apt::Job;
use super::apt::Suite;
use super::archive;
use super::archive::Pin;
use super::cache::Cache;
use super::cache::java_of;
use super::error::FindError;
use super::error::Tried;
use super::home;
use super::home::Found;
use super::machine::Machine;
use super::store::Locked;
use super::store::Staging;
use super::version::Request;

/// The settings of provisioning.
pub(super) struct Provisioner<'a> {
    pub(super) machine: &'a Machine,
    pub(super) cache: &'a Cache,
    pub(super) mirror: &'a str,
    pub(super) pins: &'a [Pin],
    pub(super) lock_timeout: Duration,
    pub(super) progress: &'a dyn Fn(Progress),
}

/// The result per part; a part that was not requested stays empty.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) zookeeper: Option<(Found, Made)>,
    pub(super) java: Option<PathBuf>,
}

/// Whether this process provisioned it, or another one meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Here,
    Elsewhere,
}

/// The parts that are missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    pub(super) zookeeper: Option<Request>,
    pub(super) java: bool,
}

impl Provisioner<'_> {
    /// Provisions the missing parts under one lock, so that shared downloads happen once.
    pub(super) fn provision(
        &self,
        parts: Parts,
        java_tag: &str,
        tried: &mut Tries,
    ) -> Result<Outcome, FindError> {
        let locked = self
            .cache
            .lock(self.lock_timeout, &|| waiting(self.progress))?;
        let mut outcome = Outcome::default();
        if let Some(request) = parts.zookeeper {
            outcome.zookeeper = self
                .cache
                .zookeeper(request.or_default(), &mut Vec::new())
                .map(|found| (found, Made::Elsewhere));
        }
        if parts.java {
            outcome.java = self.cache.java(java_tag, &mut Vec::new());
        }
        let zookeeper = parts
            .zookeeper
            .filter(|_| outcome.zookeeper.is_none())
            .map(Request::or_default);
        let java = parts.java && outcome.java.is_none();
        if zookeeper.is_none() && !java {
            return Ok(outcome);
        }
        let work = Work {
            locked: &locked,
            staging: locked.staging().map_err(cache("write to", &locked))?,
        };
        let lock = locked.descriptor().map_err(cache("lock", &locked))?;
        self.with_apt(
            &work,
            &lock,
            zookeeper,
            java.then_some(java_tag),
            &mut outcome,
            tried,
        )?;
        if let Some(request) = zookeeper.filter(|_| outcome.zookeeper.is_none()) {
            let made = self.unpack_release(&work, request, &mut tried.zookeeper)?;
            outcome.zookeeper = made.map(|found| (found, Made::Here));
        }
        Ok(outcome)
    }

    fn with_apt(
        &self,
        work: &Work<'_>,
        lock: &File,
        zookeeper: Option<Request>,
        java: Option<&str>,
        outcome: &mut Outcome,
        tried: &mut Tries,
    ) -> Result<(), FindError> {
        let apt = match Apt::detect(
            self.machine,
            Job {
                lock,
                progress: self.progress,
            },
        ) {
            Ok(apt) => apt,
            Err(reason) => {
                tried.both(
                    zookeeper.is_some(),
                    java.is_some(),
                    &Tried::new("apt", reason),
                );
                return Ok(());
            }
        };
        let mut suites: Vec<Suite<'_>> = Vec::new();
        if let Some(request) = zookeeper {
            for name in apt.suites(request) {
                match self.zookeeper_of_suite(work, &apt, &name, request, &mut suites) {
                    Ok(found) => {
                        outcome.zookeeper = Some((found?, Made::Here));
                        break;
                    }
                    Err(reason) => tried
                        .zookeeper
                        .push(Tried::new(format!("apt, suite {name}"), reason)),
                }
            }
        }
        if let Some(tag) = java {
            match self.java_of_suite(work, &apt, tag, &mut suites) {
                Ok(made) => outcome.java = Some(made?),
                Err(reason) => tried
                    .java
                    .push(Tried::new(format!("apt, suite {}", apt.codename), reason)),
            }
        }
        Ok(())
    }

    fn zookeeper_of_suite<'s>(
        &self,
        work: &Work<'_>,
        apt: &'s Apt<'s>,
        name: &str,
        request: Request,
        suites: &mut Vec<Suite<'s>>,
    ) -> Result<Result<Found, FindError>, String> {
        let suite = self.updated(work, apt, name, suites)?;
        let version = suite.zookeeper()?;
        if let Some(refusal) = request.refusal(version) {
            return Err(format!("it has {refusal}"));
        }
        let tree = work.staging.dir.join("zookeeper");
        clear(&tree)?;
        let found = suite.unpack_zookeeper(&tree)?;
        let origin = format!("libzookeeper-java of {name}");
        Ok(work.publish_zookeeper(&tree, &found, origin))
    }

    fn java_of_suite<'s>(
        &self,
        work: &Work<'_>,
        apt: &'s Apt<'s>,
        tag: &str,
        suites: &mut Vec<Suite<'s>>,
    ) -> Result<Result<PathBuf, FindError>, String> {
        // Of the machine's own release, because the runtime has to fit its C library.
        let suite = self.updated(work, apt, &apt.codename, suites)?;
        let tree = work.staging.dir.join("java");
        clear(&tree)?;
        let feature = suite.unpack_java(&tree)?;
        let java = java_of(&tree).ok_or("bin/java vanished")?;
        let home = java
            .parent()
            .and_then(Path::parent)
            .ok_or("bin/java has no home")?;
        let essential: Vec<PathBuf> = ["bin/java", "lib/modules", "lib/server/libjvm.so"]
            .iter()
            .map(|path| home.join(path))
            .collect();
        let name = format!("java-{feature}-{tag}");
        let origin = format!("default-jre-headless of {}", apt.codename);
        let published = work.locked.publish(&tree, &name, origin, &essential);
        Ok(published
            .map_err(cache("write", work.locked))
            .and_then(|dir| {
                java_of(&dir)
                    .ok_or_else(|| cache("read", work.locked)(io::ErrorKind::NotFound.into()))
            }))
    }

    /// Returns a suite with its package lists, fetched at most once.
    fn updated<'v, 's>(
        &self,
        work: &Work<'_>,
        apt: &'s Apt<'s>,
        name: &str,
        suites: &'v mut Vec<Suite<'s>>,
    ) -> Result<&'v Suite<'s>, String> {
        let known = suites.iter().position(|suite| suite.name == name);
        let at = if let Some(at) = known {
            at
        } else {
            tracing::debug!(suite = name, cache = ?self.cache, "fetching package lists");
            suites.push(apt.suite(name, work.staging.dir.join(format!("apt-{name}")))?);
            suites.len() - 1
        };
        Ok(&suites[at])
    }

    fn unpack_release(
        &self,
        work: &Work<'_>,
        request: Request,
        tried: &mut Vec<Tried>,
    ) -> Result<Option<Found>, FindError> {
        let pin = match archive::choose(request, self.pins) {
            Ok(pin) => pin,
            Err(reason) => {
                tried.push(Tried::new(
                    format!("release archive {}", self.mirror),
                    reason,
                ));
                return Ok(None);
            }
        };
        let url = archive::url(self.mirror, pin.version);
        let tree = work.staging.dir.join("release");
        let downloads = work.locked.downloads();
        match archive::provision(pin, &url, &downloads, &tree, self.progress) {
            Ok(found) => work.publish_zookeeper(&tree, &found, url).map(Some),
            Err(reason) => {
                tried.push(Tried::new(url, reason));
                Ok(None)
            }
        }
    }
}

/// The attempts per part.
#[derive(Debug, Default)]
pub(super) struct Tries {
    pub(super) zookeeper: Vec<Tried>,
    pub(super) java: Vec<Tried>,
}

impl Tries {
    fn both(&mut self, zookeeper: bool, java: bool, tried: &Tried) {
        if zookeeper {
            self.zookeeper.push(tried.clone());
        }
        if java {
            self.java.push(tried.clone());
        }
    }
}

/// The locked cache and this process's directory in it.
struct Work<'a> {
    locked: &'a Locked,
    staging: Staging,
}

impl Work<'_> {
    fn publish_zookeeper(
        &self,
        tree: &Path,
        found: &Found,
        origin: String,
    ) -> Result<Found, FindError> {
        let name = format!("zookeeper-{}", found.version);
        let dir = self
            .locked
            .publish(tree, &name, origin, &found.classpath)
            .map_err(cache("write", self.locked))?;
        home::inspect(&dir).map_err(|reason| cache("read", self.locked)(io::Error::other(reason)))
    }
}

fn waiting(progress: &dyn Fn(Progress)) {
    progress(Progress {
        what: "waiting for another process that is provisioning".to_owned(),
        done: 0,
        total: None,
    });
}

fn clear(tree: &Path) -> Result<(), String> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", tree.display()))
        }
        _ => Ok(()),
    }
}

fn cache(action: &'static str, locked: &Locked) -> impl FnOnce(io::Error) -> FindError {
    let path = locked.dir().to_owned();
    move |source| FindError::Cache {
        action,
        path,
        source,
    }
}
