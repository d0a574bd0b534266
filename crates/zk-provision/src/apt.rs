//! Downloads and unpacks Debian and Ubuntu packages, without root and without installing them.
//!
//! apt-get does the work, with a separate state directory and sources file. Mirror and components are those of the
//! machine's configuration; apt checks signatures as always.

mod parse;

use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use self::parse::Family;
use self::parse::Mirror;
use super::Progress;
use super::home;
use super::home::Found;
use super::java;
use super::machine::Machine;
use super::packages::Package;
use super::run::Run;
use super::tree;
use super::version::Request;
use super::version::Version;

const QUESTION_LIMIT: Duration = Duration::from_secs(60);
const UPDATE_LIMIT: Duration = Duration::from_secs(5 * 60);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The machine's apt.
pub(super) struct Apt<'a> {
    get: PathBuf,
    query: PathBuf,
    dpkg_deb: PathBuf,
    family: Family,
    keyring: Option<PathBuf>,
    /// The release the machine runs.
    pub(super) codename: String,
    architecture: String,
    mirror: Mirror,
    acquire: String,
    job: Job<'a>,
}

/// The lock and the progress callback of a step.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) lock: &'a File,
    pub(super) progress: &'a dyn Fn(Progress),
}

/// The package lists of one suite.
pub(super) struct Suite<'a> {
    apt: &'a Apt<'a>,
    pub(super) name: String,
    dir: PathBuf,
}

impl<'a> Apt<'a> {
    /// Reads the configuration of the machine's apt; the error is the reason why it cannot be used.
    pub(super) fn detect(machine: &Machine, job: Job<'a>) -> Result<Self, String> {
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
        let (get, query, dpkg_deb) = (
            program("apt-get")?,
            program("apt-cache")?,
            program("dpkg-deb")?,
        );
        let ask = |command: &mut Command| {
            Run {
                lock: job.lock,
                limit: QUESTION_LIMIT,
                tick: &mut || {},
            }
            .output(command)
        };
        let architecture = ask(Command::new(program("dpkg")?).arg("--print-architecture"))?
            .trim()
            .to_owned();
        // This also works on a machine whose package lists were deleted.
        let targets = ask(Command::new(&get).args([
            "indextargets",
            "--no-release-info",
            "--format",
            "$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
            "Identifier: Packages",
        ]))?;
        let mirror = parse::mirror(&targets, &codename).ok_or_else(|| {
            format!("apt has no source configured for {codename}, so no mirror is known")
        })?;
        let acquire = ask(Command::new(program("apt-config")?).args([
            "dump",
            "--format",
            "%F \"%v\";%n",
            "Acquire",
        ]))?;
        let keyring = Some(machine.below_root(family.keyring())).filter(|path| path.is_file());
        Ok(Self {
            get,
            query,
            dpkg_deb,
            family,
            keyring,
            codename,
            architecture,
            mirror,
            acquire,
            job,
        })
    }

    /// Returns the suites that may have the version, the one with the newest first.
    pub(super) fn suites(&self, request: Request) -> Vec<String> {
        self.family.suites(request, &self.codename)
    }

    /// Fetches the package lists of a suite into `dir`.
    pub(super) fn suite(&'a self, name: &str, dir: PathBuf) -> Result<Suite<'a>, String> {
        let written = || -> io::Result<()> {
            for below in ["state/lists/partial", "cache/archives/partial", "log"] {
                fs::create_dir_all(dir.join(below))?;
            }
            fs::write(dir.join("state/status"), "")?;
            fs::write(dir.join("apt.conf"), parse::configuration(&self.acquire))?;
            let line = parse::source_line(
                &self.mirror,
                name,
                &self.architecture,
                self.keyring.as_deref(),
            );
            fs::write(dir.join("sources.list"), line)
        };
        written().map_err(|error| format!("cannot prepare {}: {error}", dir.display()))?;
        let suite = Suite {
            apt: self,
            name: name.to_owned(),
            dir,
        };
        let lists = suite.dir.join("state/lists");
        let partial = lists.join("partial");
        let what = format!("fetching the package lists of {name}");
        suite.run(
            suite.command(&self.get).arg("update"),
            UPDATE_LIMIT,
            &what,
            &[&lists, &partial],
            None,
        )?;
        Ok(suite)
    }
}

impl Suite<'_> {
    /// Returns the suite's version of ZooKeeper.
    pub(super) fn zookeeper(&self) -> Result<Version, String> {
        let policy = self.ask(
            self.command(&self.apt.query)
                .args(["policy", "libzookeeper-java"]),
        )?;
        let candidate = parse::candidate(&policy).ok_or("it has no libzookeeper-java")?;
        Version::of_package(candidate).ok_or_else(|| {
            format!("its libzookeeper-java is {candidate}, which is not of the form X.Y.Z")
        })
    }

    /// Unpacks ZooKeeper's jars, and those they need, into `tree`.
    pub(super) fn unpack_zookeeper(&self, tree: &Path) -> Result<Found, String> {
        let simulation = self.simulate(&["libzookeeper-java", "libslf4j-java"])?;
        let jars = parse::installs(&simulation)
            .into_iter()
            .filter(|name| parse::is_jar_package(name));
        let (needed, rest): (Vec<&str>, Vec<&str>) =
            jars.partition(|name| parse::is_on_class_path(name));
        self.unpack(&needed, "ZooKeeper", tree)?;
        let found = home::inspect(tree).or_else(|reason| {
            // A package was split or renamed since: unpack all of them.
            tracing::info!(reason, ?rest, "unpacking the remaining packages as well");
            self.unpack(&rest, "ZooKeeper's dependencies", tree)?;
            home::inspect(tree)
        })?;
        let kept = ["usr/share/java", "usr/share/doc"];
        tree::keep(tree, &kept)
            .map_err(|error| format!("cannot tidy {}: {error}", tree.display()))?;
        Ok(found)
    }

    /// Unpacks the suite's default Java runtime into `tree`; returns its feature release.
    pub(super) fn unpack_java(&self, tree: &Path) -> Result<u32, String> {
        let depends = self.ask(
            self.command(&self.apt.query)
                .args(["depends", "default-jre-headless"]),
        )?;
        let (package, feature) = parse::runtime(&depends)
            .ok_or("its default-jre-headless depends on no openjdk-NN-jre-headless")?;
        self.unpack(&[package], &format!("Java {feature}"), tree)?;
        tree::relink(tree)
            .map_err(|error| format!("cannot adapt links in {}: {error}", tree.display()))?;
        let program =
            super::cache::java_of(tree).ok_or_else(|| format!("{package} has no bin/java"))?;
        java::ask(&program).map_err(|reason| format!("{package} does not run here: {reason}"))
    }

    /// Unpacks the first of a package's alternatives that the suite has into `tree`; returns its name.
    pub(super) fn unpack_package<'p>(
        &self,
        package: &'p Package,
        tree: &Path,
    ) -> Result<&'p str, String> {
        for name in &package.alternatives {
            let policy = self.ask(self.command(&self.apt.query).args(["policy", name]))?;
            if parse::candidate(&policy).is_some() {
                self.unpack(&[name], name, tree)?;
                tree::relink(tree).map_err(|error| {
                    format!("cannot adapt links in {}: {error}", tree.display())
                })?;
                return Ok(name);
            }
        }
        Err(format!("it has no {package}"))
    }

    fn simulate(&self, packages: &[&str]) -> Result<String, String> {
        let mut command = self.command(&self.apt.get);
        self.ask(
            command
                .args(["--simulate", "--no-install-recommends", "install"])
                .args(packages),
        )
    }

    fn unpack(&self, packages: &[&str], what: &str, tree: &Path) -> Result<(), String> {
        if packages.is_empty() {
            return Err("the solver names no package to unpack".to_owned());
        }
        let uris = self.ask(
            self.command(&self.apt.get)
                .args(["--print-uris", "download"])
                .args(packages),
        )?;
        let debs = self.dir.join("debs");
        let io = |error: io::Error| format!("cannot write below {}: {error}", self.dir.display());
        fs::create_dir_all(&debs).map_err(io)?;
        fs::create_dir_all(tree).map_err(io)?;
        let what = format!("downloading {what} from {}", self.name);
        let mut command = self.command(&self.apt.get);
        let partial = self.dir.join("cache/archives/partial");
        self.run(
            command.current_dir(&debs).arg("download").args(packages),
            DOWNLOAD_LIMIT,
            &what,
            &[&debs, &partial],
            Some(parse::bytes_to_fetch(&uris)),
        )?;
        let mut files: Vec<PathBuf> = fs::read_dir(&debs)
            .and_then(|dir| dir.map(|entry| Ok(entry?.path())).collect())
            .map_err(io)?;
        files.sort();
        for file in files {
            self.ask(
                Command::new(&self.apt.dpkg_deb)
                    .arg("--extract")
                    .arg(&file)
                    .arg(tree),
            )?;
            fs::remove_file(&file).map_err(io)?;
        }
        Ok(())
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
        Run {
            lock: self.apt.job.lock,
            limit: QUESTION_LIMIT,
            tick: &mut || {},
        }
        .output(command)
    }

    fn run(
        &self,
        command: &mut Command,
        limit: Duration,
        what: &str,
        watched: &[&Path],
        total: Option<u64>,
    ) -> Result<String, String> {
        let mut most = 0;
        let mut report = |done: u64| {
            // apt removes a compressed list once it has unpacked it.
            most = most.max(done.min(total.unwrap_or(u64::MAX)));
            (self.apt.job.progress)(Progress {
                what: what.to_owned(),
                done: most,
                total,
            });
        };
        report(0);
        let mut tick = || report(tree::bytes_in(watched));
        let output = Run {
            lock: self.apt.job.lock,
            limit,
            tick: &mut tick,
        }
        .output(command)?;
        report(total.unwrap_or(0));
        Ok(output)
    }
}
