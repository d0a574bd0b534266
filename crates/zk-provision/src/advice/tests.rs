use super::*;
use crate::want::Package;

fn search() -> Search {
    let mirror = ("ZK_HARNESS_MIRROR".into(), "https://mirror/dist".into());
    Search::from_vars([mirror]).unwrap()
}

fn system(id: &str) -> System {
    System::parse(&format!("ID={id}\n"))
}

fn for_zookeeper(search: &Search, request: &str, id: &str) -> String {
    let request = Request::parse(request).unwrap_or(Request::Any);
    command(search, &Want::ZooKeeper(request), &system(id))
}

#[test]
fn zookeeper_is_installed_where_the_package_is_current() {
    let any = |id| for_zookeeper(&search(), "any", id);
    assert_eq!(any("macos"), "brew install zookeeper");
    for elsewhere in ["fedora", "debian", "ubuntu"] {
        let pins = release::pins();
        let (_, sha512) = release::choose(Request::Any, &pins).unwrap();
        assert_eq!(
            any(elsewhere),
            format!(
                "curl -fLO https://mirror/dist/zookeeper-3.9.5/apache-zookeeper-3.9.5-bin.tar.gz \
                 && echo \"{sha512}  apache-zookeeper-3.9.5-bin.tar.gz\" | sha512sum -c \
                 && tar -xzf apache-zookeeper-3.9.5-bin.tar.gz \
                 && export ZK_HARNESS_HOME=\"$PWD/apache-zookeeper-3.9.5-bin\""
            )
        );
    }
}

#[test]
fn wanted_version_is_fetched_by_hand() {
    insta::assert_snapshot!(for_zookeeper(&search(), "3.8.1", "debian"), @r#"curl -fLO https://mirror/dist/zookeeper-3.8.1/apache-zookeeper-3.8.1-bin.tar.gz -O https://mirror/dist/zookeeper-3.8.1/apache-zookeeper-3.8.1-bin.tar.gz.sha512 && sha512sum -c apache-zookeeper-3.8.1-bin.tar.gz.sha512 && tar -xzf apache-zookeeper-3.8.1-bin.tar.gz && export ZK_HARNESS_HOME="$PWD/apache-zookeeper-3.8.1-bin""#);
    let ignoring = search().provisioning(Provisioning::Always);
    assert!(
        for_zookeeper(&ignoring, "any", "macos").contains("| shasum -a 512 -c && tar "),
        "an installed package would be ignored"
    );
    assert_eq!(
        for_zookeeper(&search(), "3.7", "debian"),
        "export ZK_HARNESS_VERSION=3.9"
    );
}

#[test]
fn provisioning_that_is_switched_off_is_switched_on() {
    let never = search().provisioning(Provisioning::Never);
    for want in [Want::ZooKeeper(Request::Any), Want::Java] {
        assert_eq!(command(&never, &want, &system("debian")), WHEN_MISSING);
    }
}

#[test]
fn java_is_installed_the_systems_way() {
    let commands = [
        "macos", "ubuntu", "debian", "fedora", "rhel", "alpine", "arch", "suse", "other",
    ]
    .map(|id| command(&search(), &Want::Java, &system(id)));
    insta::assert_snapshot!(commands.join("\n"), @r"
    brew install openjdk
    sudo apt-get install --no-install-recommends default-jre-headless
    sudo apt-get install --no-install-recommends default-jre-headless
    sudo dnf install java-latest-openjdk-headless
    sudo dnf install java-17-openjdk-headless
    sudo apk add openjdk17-jre-headless
    sudo pacman -S jre-openjdk-headless
    sudo zypper install java-17-openjdk-headless
    export JAVA_HOME=/path/to/a/java/runtime
    ");
}

#[test]
fn what_is_ignored_is_not_advised() {
    let package = Want::Package(Package::parse("libnew-java | libold-java").unwrap());
    let ignore = search().use_installed(Installed::Ignore);
    for want in [package, Want::Java] {
        assert_eq!(command(&ignore, &want, &system("debian")), "");
    }
}
