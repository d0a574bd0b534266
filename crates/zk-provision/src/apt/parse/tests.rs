use super::*;

fn request(text: &str) -> Request {
    Request::parse(text).unwrap()
}

#[test]
fn suites_follow_the_table_and_include_the_machines_own() {
    let debian = |version: &str, own: &str| Family::Debian.suites(request(version), own);
    assert_eq!(debian("3.4", "bookworm"), ["bullseye", "bookworm"]);
    assert_eq!(debian("3.8", "bookworm"), ["bookworm"]);
    assert_eq!(debian("3.8", "trixie"), ["bookworm", "trixie"]);
    assert_eq!(debian("3.9", "bookworm"), ["sid", "trixie", "bookworm"]);
    assert_eq!(debian("3.9.3", "trixie"), ["sid", "trixie"]);
    assert_eq!(debian("3.7", "trixie"), ["trixie"]);
    let ubuntu = |version: &str, own: &str| Family::Ubuntu.suites(request(version), own);
    assert_eq!(ubuntu("3.9", "noble"), ["noble"]);
    assert_eq!(ubuntu("3.9", "plucky"), ["plucky", "noble"]);
    assert_eq!(ubuntu("3.8", "noble"), ["noble"]);
}

#[test]
fn family_is_that_of_the_nearest_relative() {
    let of = |text: &str| Family::of(&System::parse(text));
    assert_eq!(of("ID=debian"), Some(Family::Debian));
    assert_eq!(of("ID=ubuntu\nID_LIKE=debian"), Some(Family::Ubuntu));
    assert_eq!(
        of("ID=linuxmint\nID_LIKE=\"ubuntu debian\""),
        Some(Family::Ubuntu)
    );
    assert_eq!(of("ID=raspbian\nID_LIKE=debian"), Some(Family::Debian));
    assert_eq!(of("ID=fedora"), None);
}

#[test]
fn mirror_is_that_of_the_machines_release() {
    let targets = "http://a/debian-security/|bookworm-security|main\n\
                   cdrom:[Debian]/|bookworm|main\n\
                   http://a/debian/|bookworm|main\n\
                   http://a/debian/|bookworm|main\n\
                   http://a/debian/|bookworm|contrib\n\
                   http://b/other/|bookworm|extra\n\
                   http://c/node/|nodistro|main\n";
    let found = mirror(targets, "bookworm").unwrap();
    assert_eq!(found.uri, "http://a/debian/");
    assert_eq!(found.components, ["main", "contrib"]);
    assert_eq!(mirror(targets, "trixie"), None);
    assert_eq!(
        mirror("http://d/|stable|main\n", "trixie").unwrap().uri,
        "http://d/"
    );
    assert_eq!(mirror("garbage\n", "trixie"), None);
}

#[test]
fn source_line_names_the_keyring_if_there_is_one() {
    let mirror = Mirror {
        uri: "http://a/debian/".to_owned(),
        components: vec!["main".to_owned(), "extra".to_owned()],
    };
    assert_eq!(
        source_line(&mirror, "trixie", "amd64", Some(Path::new("/keys.gpg"))),
        "deb [arch=amd64 signed-by=/keys.gpg] http://a/debian/ trixie main extra\n"
    );
    assert_eq!(
        source_line(&mirror, "trixie", "arm64", None),
        "deb [arch=arm64] http://a/debian/ trixie main extra\n"
    );
}

#[test]
fn configuration_keeps_the_proxy_and_signature_checks() {
    let machine = "Acquire \"\";\n\
                   Acquire::http::Proxy \"http://proxy:3128\";\n\
                   Acquire::http::Timeout \"\";\n\
                   Acquire::AllowInsecureRepositories \"1\";\n\
                   Acquire::AllowWeakRepositories \"1\";\n\
                   Acquire::Languages:: \"de\";\n\
                   Acquire::IndexTargets::deb::DEP-11::MetaKey \"x\";\n";
    let text = configuration(machine);
    assert!(text.contains("Acquire::http::Proxy \"http://proxy:3128\";\n"));
    for absent in [
        "\"1\";\nAcquire::Allow",
        "Repositories \"1\"",
        "\"de\"",
        "DEP-11",
        "Timeout \"\"",
    ] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("Acquire::AllowInsecureRepositories \"false\";\n"));
    assert!(text.contains("APT::Get::AllowUnauthenticated \"false\";\n"));
}

#[test]
fn candidate_is_read_from_the_policy() {
    let policy =
        "libzookeeper-java:\n  Installed: (none)\n  Candidate: 3.9.3-1+deb13u1\n  Version table:\n";
    assert_eq!(candidate(policy), Some("3.9.3-1+deb13u1"));
    assert_eq!(candidate("x:\n  Candidate: (none)\n"), None);
    assert_eq!(candidate(""), None);
}

#[test]
fn packages_are_sorted_by_what_they_are_for() {
    let simulation = "NOTE: this is a simulation\n\
                      Inst libc6 (2.41 Debian:13/stable [amd64]) []\n\
                      Inst libzookeeper-java (3.9.3 Debian:13/stable [all])\n\
                      Inst libjackson2-core-java (2.14 Debian:13/stable [all])\n\
                      Inst libtomcat9-java (9 Debian:13/stable [all])\n\
                      Conf libc6 (2.41 Debian:13/stable [amd64])\n";
    let all = installs(simulation);
    assert_eq!(
        all,
        [
            "libc6",
            "libzookeeper-java",
            "libjackson2-core-java",
            "libtomcat9-java"
        ]
    );
    let jars: Vec<&str> = all
        .into_iter()
        .filter(|name| is_jar_package(name))
        .collect();
    assert_eq!(
        jars,
        [
            "libzookeeper-java",
            "libjackson2-core-java",
            "libtomcat9-java"
        ]
    );
    assert!(is_on_class_path(jars[0]) && is_on_class_path(jars[1]) && !is_on_class_path(jars[2]));
}

#[test]
fn runtime_is_the_default_ones_dependency() {
    let depends = "default-jre-headless\n  Depends: java-common\n |Depends: openjdk-21-jre-headless\n  Suggests: openjdk-8-jre\n";
    assert_eq!(runtime(depends), Some(("openjdk-21-jre-headless", 21)));
    assert_eq!(
        runtime("default-jre-headless\n  Suggests: openjdk-17-jre-headless\n"),
        None
    );
}

#[test]
fn bytes_to_fetch_are_summed() {
    let uris = "'http://a/x.deb' x.deb 100 SHA256:0\n'http://a/y.deb' y.deb 23 SHA256:1\n\n";
    assert_eq!(bytes_to_fetch(uris), 123);
    assert_eq!(bytes_to_fetch(""), 0);
}
