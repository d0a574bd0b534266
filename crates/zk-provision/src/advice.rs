//! Chooses the command that fixes a failed search. Pure.

use crate::machine::System;
use crate::release;
use crate::search::Search;
use crate::settings::{Installed, Provisioning};
use crate::version::Request;
use crate::want::Want;

const WHEN_MISSING: &str = "export ZK_HARNESS_PROVISION=when-missing";

/// Returns a shell command; empty where none helps. `want` is what is missing.
pub(super) fn command(search: &Search, want: &Want, system: &System) -> String {
    let has_apt = system.is("debian") || system.is("ubuntu");
    match want {
        Want::Package(_) if !has_apt => String::new(),
        _ if search.provisioning == Provisioning::Never => WHEN_MISSING.to_owned(),
        Want::ZooKeeper(request) => zookeeper(search, *request, system),
        Want::Java if search.installed == Installed::Use => java(system).to_owned(),
        // Whatever is installed now is ignored as well.
        Want::Java | Want::Package(_) => String::new(),
    }
}

fn zookeeper(search: &Search, request: Request, system: &System) -> String {
    // Not on Debian and Ubuntu, some of whose releases package an unsuitable version.
    if request == Request::Any && !search.ignores_installed() && system.is("macos") {
        return "brew install zookeeper".to_owned();
    }
    let pinned = release::choose(request, &search.pins).map(|(version, _)| version);
    let version = match request {
        Request::Exact(version) => Some(version),
        _ => pinned.ok(),
    };
    let Some(version) = version else {
        // The requested series cannot be provisioned on any system.
        return format!("export ZK_HARNESS_VERSION={}", Request::PROVISIONED);
    };
    let url = release::url(&search.mirror, version);
    let stem = release::stem(version);
    let archive = format!("{stem}.tar.gz");
    let check = if system.is("macos") {
        "shasum -a 512 -c"
    } else {
        "sha512sum -c"
    };
    // A checksum of ours shows that the mirror has changed nothing; one from beside the archive, that it is complete.
    let fetch = match search.pins.get(&version) {
        Some(sha512) => {
            format!("curl -fLO {url} && echo \"{sha512}  {archive}\" | {check}")
        }
        None => format!("curl -fLO {url} -O {url}.sha512 && {check} {archive}.sha512"),
    };
    format!("{fetch} && tar -xzf {archive} && export ZK_HARNESS_HOME=\"$PWD/{stem}\"")
}

fn java(system: &System) -> &'static str {
    const DEBIAN: &str = "sudo apt-get install --no-install-recommends default-jre-headless";
    const COMMANDS: [(&str, &str); 8] = [
        ("macos", "brew install openjdk"),
        ("ubuntu", DEBIAN),
        ("debian", DEBIAN),
        ("fedora", "sudo dnf install java-latest-openjdk-headless"),
        ("rhel", "sudo dnf install java-17-openjdk-headless"),
        ("alpine", "sudo apk add openjdk17-jre-headless"),
        ("arch", "sudo pacman -S jre-openjdk-headless"),
        ("suse", "sudo zypper install java-17-openjdk-headless"),
    ];
    let known = COMMANDS.iter().find(|(id, _)| system.is(id));
    known.map_or("export JAVA_HOME=/path/to/a/java/runtime", |known| known.1)
}

#[cfg(test)]
mod tests;
