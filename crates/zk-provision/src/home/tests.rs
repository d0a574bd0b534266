use super::*;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| format!("{name}.jar")).collect()
}

const DEBIAN: [&str; 8] = [
    "zookeeper",
    "zookeeper-3.8.0",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    "netty-all",
];

#[test]
fn each_missing_jar_is_named() {
    for jar in ["zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java"] {
        let names: Vec<&str> = DEBIAN.into_iter().filter(|name| *name != jar).collect();
        assert_eq!(
            shared(&set(&names), None).unwrap_err(),
            format!("incomplete: {jar}.jar is missing")
        );
    }
}

#[test]
fn netty_needs_all_of_its_parts() {
    let mut names = set(&DEBIAN);
    names.extend(set(&["netty-handler", "netty-buffer"]));
    assert_eq!(
        shared(&names, None).unwrap_err(),
        "incomplete: netty-common.jar is missing"
    );
    names.extend(set(&["netty-common"]));
    shared(&names, None).unwrap();
}

#[test]
fn an_old_release_needs_other_jars() {
    let debian = ["zookeeper-3.4.13", "slf4j-api", "slf4j-simple", "log4j-1.2"];
    let jars = shared(&set(&debian), None).unwrap();
    assert_eq!(
        jars.names,
        [
            "slf4j-api.jar",
            "log4j-1.2.jar",
            "slf4j-simple.jar",
            "zookeeper-3.4.13.jar"
        ]
    );
    let archive = [
        "zookeeper-3.4.13",
        "slf4j-api",
        "slf4j-log4j12",
        "log4j-1.2",
    ];
    assert_eq!(release(&set(&archive)).unwrap().logging, Logging::Log4j1);
    for of in [
        shared(&set(&debian[..3]), None),
        release(&set(&debian[..3])),
    ] {
        assert_eq!(of.unwrap_err(), "incomplete: log4j-1.2.jar is missing");
    }
}

#[test]
fn version_is_that_of_the_link_or_of_the_only_jar() {
    let mut two = set(&DEBIAN);
    two.insert("zookeeper-3.9.3.jar".to_owned());
    assert_eq!(
        shared(&two, Some("zookeeper-3.9.3.jar"))
            .unwrap()
            .version
            .to_string(),
        "3.9.3"
    );
    assert_eq!(
        shared(&two, None).unwrap_err(),
        "it has jars of several versions (3.8.0, 3.9.3); keep those of one"
    );
    let mut none = set(&DEBIAN);
    none.remove("zookeeper-3.8.0.jar");
    assert_eq!(
        shared(&none, None).unwrap_err(),
        "the version is unknown without a jar named zookeeper-X.Y.Z.jar"
    );
}

#[test]
fn binding_is_the_best_complete_one() {
    let with = |bindings: &[&str]| {
        let mut names = set(&DEBIAN);
        names.remove("slf4j-simple.jar");
        names.extend(set(bindings));
        shared(&names, None).map(|jars| jars.logging).ok()
    };
    assert_eq!(
        with(&["slf4j-log4j12", "log4j-1.2", "slf4j-simple"]),
        Some(Logging::SlfSimple)
    );
    assert_eq!(with(&["slf4j-log4j12", "log4j-1.2"]), Some(Logging::Log4j1));
    assert_eq!(with(&["slf4j-reload4j", "reload4j"]), Some(Logging::Log4j1));
    assert_eq!(
        with(&["logback-classic", "logback-core"]),
        Some(Logging::Logback)
    );
    for incomplete in [
        &["slf4j-log4j12"][..],
        &["logback-classic"],
        &["slf4j-nop"],
        &[],
    ] {
        assert_eq!(with(incomplete), None, "{incomplete:?}");
    }
}

#[test]
fn release_gives_every_jar_with_its_own_first() {
    let names = set(&[
        "jackson-core-2.15.2",
        "logback-classic-1.2.13",
        "logback-core-1.2.13",
        "slf4j-api-1.7.30",
        "zookeeper-3.9.3",
        "zookeeper-jute-3.9.3",
        "zookeeper-prometheus-metrics-3.9.3",
    ]);
    let jars = release(&names).unwrap();
    assert_eq!(
        (jars.version.to_string().as_str(), jars.logging),
        ("3.9.3", Logging::Logback)
    );
    assert_eq!(jars.names.len(), names.len());
    assert_eq!(
        jars.names[..3],
        [
            "zookeeper-3.9.3.jar",
            "zookeeper-jute-3.9.3.jar",
            "slf4j-api-1.7.30.jar"
        ]
    );
}

#[test]
fn jar_names_are_not_confused() {
    assert!(is_jar_of("zookeeper.jar", "zookeeper"));
    assert!(is_jar_of("zookeeper-3.9.3.jar", "zookeeper"));
    for other in [
        "zookeeper-jute.jar",
        "zookeeper-jute-3.9.3.jar",
        "zookeeper.txt",
        "zookeeperx.jar",
    ] {
        assert!(!is_jar_of(other, "zookeeper"), "{other}");
    }
}
