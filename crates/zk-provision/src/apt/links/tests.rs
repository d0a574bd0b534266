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
