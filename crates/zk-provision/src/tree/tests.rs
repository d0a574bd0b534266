use super::*;

#[test]
fn relative_way_goes_up_to_what_is_shared() {
    for (from, to, way) in [
        ("a/b", "a/c", "../c"),
        ("", "etc/x", "etc/x"),
        ("usr/lib/jvm/j/conf", "etc/j/x", "../../../../../etc/j/x"),
        ("a", "a/b/c", "b/c"),
    ] {
        assert_eq!(
            relative(Path::new(from), Path::new(to)),
            Path::new(way),
            "{from} {to}"
        );
    }
}

#[test]
fn only_downloads_of_apt_count_as_progress() {
    for name in [
        "host_dists_trixie_InRelease",
        "host_main_Packages.xz",
        "libx-java_1%3a2_all.deb",
    ] {
        assert!(is_download(name), "{name}");
    }
    for name in [
        "host_main_Packages",
        "host_main_Packages.decomp",
        "lock",
        "pkgcache.bin",
    ] {
        assert!(!is_download(name), "{name}");
    }
}
