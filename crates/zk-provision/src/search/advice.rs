//! Chooses the command that fixes a failed search. Pure.

use super::super::error::Missing;
use super::super::machine::System;
use super::super::packages::Package;
use super::super::settings::Provisioning;
use super::super::version::Request;
use super::super::version::Version;

const WHEN_MISSING: &str = "export ZK_HARNESS_PROVISION=when-missing";

/// The inputs of the advice, except the system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Advice<'a> {
    pub(super) missing: Missing,
    pub(super) request: Request,
    pub(super) provisioning: Provisioning,
    pub(super) ignores_installed: bool,
    pub(super) mirror: &'a str,
    pub(super) pinned: Option<Version>,
}

impl Advice<'_> {
    /// Returns a shell command.
    pub(super) fn command(&self, system: &System) -> String {
        if self.provisioning == Provisioning::Never {
            return WHEN_MISSING.to_owned();
        }
        if self.missing == Missing::Java {
            self.java(system)
        } else {
            self.zookeeper(system)
        }
    }

    fn java(&self, system: &System) -> String {
        let install = install_java(system);
        if self.ignores_installed {
            format!("{install} && {WHEN_MISSING}")
        } else {
            install
        }
    }

    fn zookeeper(&self, system: &System) -> String {
        // Except on Debian and Ubuntu, some of whose releases package an unsuitable version.
        if self.request == Request::Any && !self.ignores_installed && system.is("macos") {
            return "brew install zookeeper".to_owned();
        }
        let exact = match self.request {
            Request::Exact(version) => Some(version),
            _ => self.pinned,
        };
        let Some(version) = exact else {
            // The requested series cannot be provisioned on any system.
            return format!("export ZK_HARNESS_VERSION={}", Request::PROVISIONED);
        };
        let (mirror, stem) = (self.mirror, format!("apache-zookeeper-{version}-bin"));
        format!(
            "curl -fL {mirror}/zookeeper-{version}/{stem}.tar.gz | tar -xz && export ZK_HARNESS_HOME=\"$PWD/{stem}\""
        )
    }
}

/// The command for packages that were not found; empty where there are no such packages.
pub(super) fn packages(
    absent: &[&Package],
    provisioning: Provisioning,
    ignores_installed: bool,
    system: &System,
) -> String {
    if !(system.is("debian") || system.is("ubuntu")) {
        return String::new();
    }
    if provisioning == Provisioning::Never {
        return WHEN_MISSING.to_owned();
    }
    let names: Vec<&str> = absent
        .iter()
        .filter_map(|package| package.alternatives.last().map(String::as_str))
        .collect();
    let install = format!(
        "sudo apt-get install --no-install-recommends {}",
        names.join(" ")
    );
    if ignores_installed {
        format!("{install} && {WHEN_MISSING}")
    } else {
        install
    }
}

fn install_java(system: &System) -> String {
    const COMMANDS: [(&str, &str); 8] = [
        ("macos", "brew install openjdk"),
        (
            "ubuntu",
            "sudo apt-get install --no-install-recommends default-jre-headless",
        ),
        (
            "debian",
            "sudo apt-get install --no-install-recommends default-jre-headless",
        ),
        ("fedora", "sudo dnf install java-latest-openjdk-headless"),
        ("rhel", "sudo dnf install java-17-openjdk-headless"),
        ("alpine", "sudo apk add openjdk17-jre-headless"),
        ("arch", "sudo pacman -S jre-openjdk-headless"),
        ("suse", "sudo zypper install java-17-openjdk-headless"),
    ];
    COMMANDS
        .iter()
        .find(|(id, _)| system.is(id))
        .map_or(
            "export JAVA_HOME=/path/to/a/java/runtime",
            |(_, command)| command,
        )
        .to_owned()
}

#[cfg(test)]
mod tests;
