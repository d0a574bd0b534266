use super::*;

const ZOOKEEPER: Advice<'static> = Advice {
    missing: Missing::ZooKeeper,
    request: Request::Any,
    provisioning: Provisioning::WhenMissing,
    ignores_installed: false,
    mirror: "https://mirror/dist",
    pinned: Some(Version {
        major: 3,
        minor: 9,
        patch: 5,
    }),
};
const JAVA: Advice<'static> = Advice {
    missing: Missing::Java,
    ..ZOOKEEPER
};

fn on(id: &str) -> System {
    System::parse(&format!("ID={id}\n"))
}

#[test]
fn zookeeper_is_installed_where_the_package_is_current() {
    insta::assert_snapshot!(ZOOKEEPER.command(&on("macos")), @"brew install zookeeper");
    for elsewhere in ["fedora", "debian", "ubuntu"] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(ZOOKEEPER.command(&on(elsewhere)), @r#"curl -fL https://mirror/dist/zookeeper-3.9.5/apache-zookeeper-3.9.5-bin.tar.gz | tar -xz && export ZK_HARNESS_HOME="$PWD/apache-zookeeper-3.9.5-bin""#);
        }
    }
}

#[test]
fn wanted_version_is_fetched_by_hand() {
    let exact = Advice {
        request: Request::parse("3.8.1").unwrap(),
        pinned: None,
        ..ZOOKEEPER
    };
    insta::assert_snapshot!(exact.command(&on("debian")), @r#"curl -fL https://mirror/dist/zookeeper-3.8.1/apache-zookeeper-3.8.1-bin.tar.gz | tar -xz && export ZK_HARNESS_HOME="$PWD/apache-zookeeper-3.8.1-bin""#);
    let ignoring = Advice {
        ignores_installed: true,
        ..ZOOKEEPER
    };
    assert!(
        ignoring.command(&on("debian")).starts_with("curl "),
        "an installed package would be ignored"
    );
    let unknown = Advice {
        request: Request::parse("3.7").unwrap(),
        pinned: None,
        ..ZOOKEEPER
    };
    insta::assert_snapshot!(unknown.command(&on("debian")), @"export ZK_HARNESS_VERSION=3.9");
}

#[test]
fn provisioning_that_is_switched_off_is_switched_on() {
    for advice in [ZOOKEEPER, JAVA] {
        let never = Advice {
            provisioning: Provisioning::Never,
            ..advice
        };
        assert_eq!(
            never.command(&on("debian")),
            "export ZK_HARNESS_PROVISION=when-missing"
        );
    }
}

#[test]
fn java_is_installed_the_systems_way() {
    let commands: Vec<String> = [
        "macos", "ubuntu", "debian", "fedora", "rhel", "alpine", "arch", "suse", "other",
    ]
    .iter()
    .map(|id| JAVA.command(&on(id)))
    .collect();
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
    let ignoring = Advice {
        ignores_installed: true,
        ..JAVA
    };
    assert!(
        ignoring
            .command(&on("debian"))
            .ends_with("&& export ZK_HARNESS_PROVISION=when-missing")
    );
}
