//! Downloads and unpacks Debian and Ubuntu packages, without root and without installing them.
//!
//! apt-get does the work, with a separate state directory and sources file. Mirror and components are those of the
//! machine's configuration; apt checks signatures as always.

mod links;
mod parse;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use self::parse::{Family, Mirror};
use tempfile::TempDir;

use crate::cache::java_of;
use crate::distribution::Progress;
use crate::machine::Machine;
use crate::version::Version;
use crate::want::{Package, Want};
use crate::{home, java, run};

/// A solver needs ten seconds of a processor that others may use as well.
const LIMIT: Duration = Duration::from_secs(5 * 60);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The machine's apt.
pub(super) struct Apt<'a> {
    get: PathBuf,
    query: PathBuf,
    dpkg_deb: PathBuf,
    family: Family,
    keyring: Option<PathBuf>,
    /// The release the machine runs.
    codename: String,
    architecture: String,
    mirror: Mirror,
    acquire: String,
    /// Standard input of every program, which does not read it; see [`Locked`](crate::cache::Locked).
    lock: &'a File,
    progress: &'a dyn Fn(&Progress),
    state: TempDir,
    /// For each suite whose package lists were asked for: why they could not be fetched.
    updated: BTreeMap<String, Result<(), String>>,
}

/// The package lists of one suite.
pub(super) struct Suite<'a> {
    apt: &'a Apt<'a>,
    pub(super) name: String,
    dir: PathBuf,
}

impl<'a> Apt<'a> {
    /// Reads the configuration of the machine's apt; the error is the reason why it cannot be used.
    pub(super) fn detect(
        machine: &Machine,
        lock: &'a File,
        progress: &'a dyn Fn(&Progress),
        state: TempDir,
    ) -> Result<Self, String> {
        let system = machine.system();
        let family =
            Family::of(&system).ok_or("this system is neither Debian nor Ubuntu nor like them")?;
        let codename = system
            .codename
            .ok_or("os-release does not say which release this system is")?;
        let program = |name: &str| {
            machine
                .program(name)
                .ok_or_else(|| format!("there is no {name} on PATH"))
        };
        let ask = |name, args: &[&str]| {
            let mut command = Command::new(program(name)?);
            run(command.args(args), lock, LIMIT, || {})
        };
        // This also works on a machine whose package lists were deleted.
        let format = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)";
        let targets = ask(
            "apt-get",
            &[
                "indextargets",
                "--no-release-info",
                "--format",
                format,
                "Identifier: Packages",
            ],
        )?;
        let mirror = parse::mirror(&targets, &codename).ok_or_else(|| {
            format!("apt has no source configured for {codename}, so no mirror is known")
        })?;
        Ok(Self {
            get: program("apt-get")?,
            query: program("apt-cache")?,
            dpkg_deb: program("dpkg-deb")?,
            family,
            keyring: Some(machine.below_root(family.keyring())).filter(|path| path.is_file()),
            codename,
            architecture: ask("dpkg", &["--print-architecture"])?.trim().to_owned(),
            mirror,
            acquire: ask(
                "apt-config",
                &["dump", "--format", "%F \"%v\";%n", "Acquire"],
            )?,
            lock,
            progress,
            state,
            updated: BTreeMap::new(),
        })
    }

    /// Returns the suites that may have it, the one with the newest first.
    pub(super) fn suites(&self, want: &Want) -> Vec<String> {
        match want {
            Want::ZooKeeper(request) => self.family.suites(*request, &self.codename),
            // Of the machine's own release, because what is not Java has to fit its C library.
            Want::Java | Want::Package(_) => vec![self.codename.clone()],
        }
    }

    /// Fetches the package lists of a suite once: an attempt that failed is not repeated.
    pub(super) fn suite(&mut self, name: &str) -> Result<Suite<'_>, String> {
        if !self.updated.contains_key(name) {
            let updated = self.update(name);
            self.updated.insert(name.to_owned(), updated);
        }
        self.updated[name].clone()?;
        Ok(self.in_suite(name))
    }

    fn update(&self, name: &str) -> Result<(), String> {
        let suite = self.in_suite(name);
        suite
            .prepare()
            .map_err(|error| format!("cannot prepare {}: {error}", suite.dir.display()))?;
        let mut update = suite.command(&self.get);
        self.report(&format!("fetching the package lists of {name}"), 0, None);
        run(update.arg("update"), self.lock, LIMIT, || {}).map(drop)
    }

    fn in_suite(&self, name: &str) -> Suite<'_> {
        Suite {
            apt: self,
            name: name.to_owned(),
            dir: self.state.path().join(name),
        }
    }

    fn report(&self, what: &str, done: u64, total: Option<u64>) {
        (self.progress)(&Progress {
            what: what.to_owned(),
            done,
            total,
        });
    }
}

impl Suite<'_> {
    /// Returns the suite's version of ZooKeeper.
    pub(super) fn zookeeper(&self) -> Result<Version, String> {
        let candidate = self
            .candidate("libzookeeper-java")?
            .ok_or("it has no libzookeeper-java")?;
        Version::of_package(&candidate).ok_or_else(|| {
            format!("its libzookeeper-java is {candidate}, which is not of the form X.Y.Z")
        })
    }

    /// Unpacks ZooKeeper's jars, and those they need, into `tree`; returns the version.
    pub(super) fn unpack_zookeeper(&self, tree: &Path) -> Result<Version, String> {
        let mut simulate = self.command(&self.apt.get);
        let simulation = self.ask(simulate.args([
            "--simulate",
            "--no-install-recommends",
            "install",
            "libzookeeper-java",
            "libslf4j-java",
        ]))?;
        let jars = parse::installs(&simulation)
            .into_iter()
            .filter(|name| parse::is_jar_package(name));
        let (needed, rest): (Vec<&str>, Vec<&str>) =
            jars.partition(|name| parse::is_on_class_path(name));
        let all = self.dir.join("all");
        self.unpack(&needed, "ZooKeeper", &all)?;
        let found = home::inspect(&all).or_else(|reason| {
            // A package was split or renamed since: unpack all of them.
            tracing::info!(reason, ?rest, "unpacking the remaining packages as well");
            self.unpack(&rest, "ZooKeeper's dependencies", &all)?;
            home::inspect(&all)
        })?;
        // What else is in the packages is for building.
        let kept = || -> io::Result<()> {
            fs::create_dir_all(tree.join("usr/share"))?;
            for kept in ["usr/share/java", "usr/share/doc"] {
                if all.join(kept).exists() {
                    fs::rename(all.join(kept), tree.join(kept))?;
                }
            }
            Ok(())
        };
        kept().map_err(|error| format!("cannot write to {}: {error}", tree.display()))?;
        Ok(found.version)
    }

    /// Unpacks the suite's default Java runtime into `tree`; returns its feature release.
    pub(super) fn unpack_java(&self, tree: &Path) -> Result<u32, String> {
        let mut depends = self.command(&self.apt.query);
        let depends = self.ask(depends.args(["depends", "default-jre-headless"]))?;
        let (package, feature) = parse::runtime(&depends)
            .ok_or("its default-jre-headless depends on no openjdk-NN-jre-headless")?;
        self.unpack(&[package], &format!("Java {feature}"), tree)?;
        let program = java_of(tree).ok_or_else(|| format!("{package} has no bin/java"))?;
        java::ask(&program).map_err(|reason| format!("{package} does not run here: {reason}"))
    }

    /// Unpacks the first of a package's alternatives that the suite has into `tree`; returns its name.
    pub(super) fn unpack_package<'p>(
        &self,
        package: &'p Package,
        tree: &Path,
    ) -> Result<&'p str, String> {
        for name in &package.alternatives {
            if self.candidate(name)?.is_some() {
                self.unpack(&[name], name, tree)?;
                return Ok(name);
            }
        }
        Err(format!("it has no {package}"))
    }

    /// The version of a package that the suite has.
    fn candidate(&self, package: &str) -> Result<Option<String>, String> {
        let mut policy = self.command(&self.apt.query);
        let policy = self.ask(policy.args(["policy", package]))?;
        Ok(parse::candidate(&policy).map(str::to_owned))
    }

    fn unpack(&self, packages: &[&str], what: &str, tree: &Path) -> Result<(), String> {
        if packages.is_empty() {
            return Err("the solver names no package to unpack".to_owned());
        }
        let mut uris = self.command(&self.apt.get);
        let uris = self.ask(uris.args(["--print-uris", "download"]).args(packages))?;
        let total = parse::bytes_to_fetch(&uris);
        let io = |error: io::Error| format!("cannot write below {}: {error}", self.dir.display());
        let debs = tempfile::tempdir_in(&self.dir).map_err(io)?;
        let partial = self.dir.join("cache/archives/partial");
        fs::create_dir_all(tree).map_err(io)?;
        let what = format!("downloading {what} from {}", self.name);
        let report = || {
            let done = bytes_in(debs.path()) + bytes_in(&partial);
            self.apt.report(&what, done.min(total), Some(total));
        };
        let mut command = self.command(&self.apt.get);
        command
            .current_dir(debs.path())
            .arg("download")
            .args(packages);
        run(&mut command, self.apt.lock, DOWNLOAD_LIMIT, report)?;
        report();
        for deb in fs::read_dir(&debs).map_err(io)? {
            let mut extract = Command::new(&self.apt.dpkg_deb);
            extract.arg("--extract").arg(deb.map_err(io)?.path());
            self.ask(extract.arg(tree))?;
        }
        links::relink(tree)
            .map_err(|error| format!("cannot adapt links in {}: {error}", tree.display()))
    }

    fn prepare(&self) -> io::Result<()> {
        for below in ["state/lists/partial", "cache/archives/partial", "log"] {
            fs::create_dir_all(self.dir.join(below))?;
        }
        let apt = self.apt;
        fs::write(self.dir.join("state/status"), "")?;
        fs::write(
            self.dir.join("apt.conf"),
            parse::configuration(&apt.acquire),
        )?;
        let keyring = apt.keyring.as_deref();
        let line = parse::source_line(&apt.mirror, &self.name, &apt.architecture, keyring);
        fs::write(self.dir.join("sources.list"), line)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.dir.join("apt.conf"));
        let mut set = |name: &str, value: &Path| {
            let mut option = std::ffi::OsString::from(format!("{name}="));
            option.push(value);
            command.arg("-o").arg(option);
        };
        set("Dir::Etc::SourceList", &self.dir.join("sources.list"));
        for none in [
            "Dir::Etc::SourceParts",
            "Dir::Etc::Preferences",
            "Dir::Etc::PreferencesParts",
        ] {
            set(none, Path::new("/dev/null"));
        }
        set("Dir::State", &self.dir.join("state"));
        set("Dir::State::status", &self.dir.join("state/status"));
        set("Dir::Cache", &self.dir.join("cache"));
        set("Dir::Log", &self.dir.join("log"));
        command
    }

    fn ask(&self, command: &mut Command) -> Result<String, String> {
        run(command, self.apt.lock, LIMIT, || {})
    }
}

/// Returns the program's standard output.
fn run(
    command: &mut Command,
    lock: &File,
    limit: Duration,
    tick: impl FnMut(),
) -> Result<String, String> {
    let lock = lock
        .try_clone()
        .map_err(|error| format!("cannot pass on the lock: {error}"))?;
    command
        .env("LC_ALL", "C.UTF-8")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(lock);
    let output = run::output(command, limit, tick)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The bytes of the files directly in a directory; files that vanish meanwhile are ignored.
fn bytes_in(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}
