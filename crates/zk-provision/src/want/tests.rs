use super::*;

const STATUS: &str = "\
Package: libguava-java
Status: install ok installed
Version: 31.1-1

Package: libgone-java
Status: deinstall ok config-files
Version: 1

Package: libhalf-java
Status: install ok half-configured
Version: 1
";

fn package(text: &str) -> Package {
    Package::parse(text).unwrap()
}

#[test]
fn names_are_debians() {
    for good in [
        "ecj",
        "libguava-java",
        "g++",
        "libjackson2-core-java",
        "0ad",
    ] {
        assert_eq!(package(good).alternatives, [good]);
    }
    for bad in [
        "",
        "a",
        "-o",
        "--simulate",
        "lib guava",
        "../x",
        "a=1",
        "x/y",
        "Upper",
        "aa |",
    ] {
        let error = Package::parse(bad).unwrap_err().to_string();
        assert!(error.contains(&format!("{bad:?}")), "{error}");
    }
}

#[test]
fn alternatives_keep_their_order() {
    let package = package("libnew-java | libold-java");
    assert_eq!(package.alternatives, ["libnew-java", "libold-java"]);
    assert_eq!(package.to_string(), "libnew-java | libold-java");
}

#[test]
fn only_what_is_wholly_installed_counts() {
    for (text, installed) in [
        ("libguava-java", true),
        ("libnone-java | libguava-java", true),
        ("libgone-java", false),
        ("libhalf-java", false),
        ("libguava", false),
        ("libnone-java", false),
    ] {
        assert_eq!(package(text).is_installed(STATUS), installed, "{text}");
    }
    assert!(!package("libguava-java").is_installed(""));
}
