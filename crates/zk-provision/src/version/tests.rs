use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn request_accepts_its_series_or_its_version() {
    let cases = [
        (Request::Any, "3.4.13", true),
        (Request::Any, "3.8.0", true),
        (Request::Any, "3.9.2", false),
        (Request::Any, "3.9.3", false),
        (Request::Any, "3.9.4", true),
        (Request::Any, "3.10.0", true),
        (Request::Series(3, 9), "3.9.0", false),
        (Request::Series(3, 9), "3.9.3", false),
        (Request::Series(3, 9), "3.9.4", true),
        (Request::Series(3, 8), "3.8.0", true),
        (Request::Series(3, 9), "3.9.12", true),
        (Request::Series(3, 9), "3.8.9", false),
        (Request::Series(3, 1), "3.10.0", false),
        (Request::Exact(version("3.9.3")), "3.9.3", true),
        (Request::Exact(version("3.9.3")), "3.9.30", false),
    ];
    for (request, candidate, accepted) in cases {
        assert_eq!(
            request.accepts(version(candidate)),
            accepted,
            "{request} {candidate}"
        );
        assert_eq!(request.refusal(version(candidate)).is_none(), accepted);
    }
}

#[test]
fn refusal_says_what_is_there_and_what_is_wanted() {
    let said = |request: Request, there: &str| request.refusal(version(there)).unwrap();
    let superseded = "ZooKeeper 3.9.3, which can lose acknowledged writes; 3.9.4 or later is wanted \
                      (3.9.3 is taken only if it is asked for by its exact version)";
    assert_eq!(said(Request::Any, "3.9.3"), superseded);
    assert_eq!(said(Request::Series(3, 9), "3.9.3"), superseded);
    assert_eq!(
        said(Request::Series(3, 9), "3.8.0"),
        "ZooKeeper 3.8.0, but 3.9 is wanted"
    );
    assert_eq!(
        said(Request::Exact(version("3.9.6")), "3.9.3"),
        "ZooKeeper 3.9.3, but 3.9.6 is wanted"
    );
}

#[test]
fn releases_with_a_known_loss_are_recognised() {
    for (release, issue) in [
        ("3.8.0", Some("ZOOKEEPER-4394")),
        ("3.8.6", Some("ZOOKEEPER-4394")),
        ("3.9.2", Some("ZOOKEEPER-4394")),
        ("3.9.3", Some("ZOOKEEPER-4925")),
        ("3.9.4", None),
        ("3.9.10", None),
        ("3.10.0", None),
        ("4.0.0", None),
    ] {
        let loss = version(release).known_loss();
        assert_eq!(loss.is_some(), issue.is_some(), "{release}");
        assert!(
            loss.unwrap_or_default().contains(issue.unwrap_or_default()),
            "{release}"
        );
    }
}

#[cfg(feature = "download")]
#[test]
fn package_versions_lose_epoch_and_revision() {
    let cases = [
        ("3.8.0-11+deb12u2", Some("3.8.0")),
        ("1:3.9.3-1+deb13u1", Some("3.9.3")),
        ("3.9.3+dfsg-1", Some("3.9.3")),
        ("3.9.3~rc1-1", Some("3.9.3")),
        ("3.9-1", None),
        ("", None),
    ];
    for (package, upstream) in cases {
        assert_eq!(
            Version::of_package(package),
            upstream.map(version),
            "{package}"
        );
    }
}

#[test]
fn versions_are_ordered_by_number() {
    assert!(version("3.10.0") > version("3.9.12"));
    assert!(version("3.9.10") > version("3.9.9"));
}

#[cfg(feature = "download")]
#[test]
fn any_version_stands_for_the_newest_series() {
    assert_eq!(Request::Any.or_default(), Request::Series(3, 9));
    assert_eq!(Request::Any.series(), (3, 9));
    assert_eq!(
        Request::Exact(version("3.8.4")).or_default().series(),
        (3, 8)
    );
}
