use std::path::PathBuf;

use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn what_looks_like_a_version_is_one_and_the_rest_is_a_directory() {
    for text in ["3.9", "3.9.3", "10.0.12"] {
        assert_eq!(text.parse(), Ok(Wanted::Version(text.to_owned())));
    }
    for text in [
        "/opt/zookeeper",
        "./3",
        "zookeeper-3.9.3",
        "v3.9",
        ".",
        "..",
        "3.9.3-bin",
        "+3.9",
        "3.9.x",
    ] {
        assert_eq!(
            text.parse(),
            Ok(Wanted::Home(PathBuf::from(text))),
            "{text}"
        );
    }
}

#[test]
fn neither_version_nor_directory_is_explained() {
    let said = |text: &str| text.parse::<Wanted>().unwrap_err().to_string();
    insta::assert_snapshot!(said(""), @r#""" is neither a ZooKeeper version (3.9 or 3.9.3) nor a directory (it is empty)"#);
    insta::assert_snapshot!(said("3"), @r#""3" is neither a ZooKeeper version (3.9 or 3.9.3) nor a directory (a directory of that name is ./3)"#);
    for text in ["3.9.3.1", "3.", ".9", "3..9", "99999999999.1"] {
        assert!(
            said(text).ends_with(&format!("(a directory of that name is ./{text})")),
            "{text}"
        );
    }
}

#[test]
fn request_accepts_its_series_or_its_version() {
    let cases = [
        (Request::Any, "3.4.13", true),
        (Request::Series(3, 9), "3.9.0", true),
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
    }
}

#[cfg(feature = "provision")]
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

#[cfg(feature = "provision")]
#[test]
fn any_version_stands_for_the_newest_series() {
    assert_eq!(Request::Any.or_default(), Request::Series(3, 9));
    assert_eq!(Request::Any.series(), (3, 9));
    assert_eq!(
        Request::Exact(version("3.8.4")).or_default().series(),
        (3, 8)
    );
}
