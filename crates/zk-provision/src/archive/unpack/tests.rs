use super::*;

#[test]
fn top_directory_is_left_out() {
    let below = |path: &'static str| below_top(Path::new(path)).map(|path| path.to_str().unwrap());
    assert_eq!(below("top/lib/a.jar"), Some("lib/a.jar"));
    assert_eq!(below("./top/lib/a.jar"), Some("lib/a.jar"));
    assert_eq!(below("top"), Some(""));
    for escape in ["/top/a", "../a", "top/../../a", "top/.."] {
        assert_eq!(below(escape), None, "{escape}");
    }
}
