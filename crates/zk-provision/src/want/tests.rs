use super::*;

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
