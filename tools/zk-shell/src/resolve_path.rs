//! Resolves the paths that people type, relative ones included.
//!
//! Pure: no I/O and no clock.

use zk_core::{NodePath, ParsePathError};

/// Returns the path that `argument` means.
///
/// Without a current node it must be written in full. With one it may be relative to it, have the components `.` and `..`, and
/// end with a slash, as in any shell; `..` of the root is the root.
pub(crate) fn resolve(
    current: Option<&NodePath>,
    argument: &str,
) -> Result<NodePath, ParsePathError> {
    let Some(current) = current else {
        return NodePath::parse(argument);
    };
    if argument.is_empty() {
        return NodePath::parse(argument);
    }
    let mut path = if argument.starts_with('/') {
        NodePath::root()
    } else {
        current.clone()
    };
    for name in argument.split('/') {
        path = match name {
            "" | "." => path,
            ".." => path.parent().unwrap_or_else(NodePath::root),
            name => path.join(name)?,
        };
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_as_in_any_shell() {
        let current = NodePath::parse("/a/b").unwrap();
        for (argument, expected) in [
            ("/", "/"),
            ("/x", "/x"),
            ("/x/", "/x"),
            ("//x//y/", "/x/y"),
            (".", "/a/b"),
            ("./", "/a/b"),
            ("c", "/a/b/c"),
            ("c/d/", "/a/b/c/d"),
            ("..", "/a"),
            ("../..", "/"),
            ("../../../..", "/"),
            ("../c/./d/../e", "/a/c/e"),
            ("/x/..", "/"),
            ("...", "/a/b/..."),
        ] {
            let resolved = resolve(Some(&current), argument).unwrap();
            assert_eq!(resolved.as_str(), expected, "{argument}");
        }
        assert_eq!(
            resolve(Some(&NodePath::root()), "a").unwrap().as_str(),
            "/a"
        );
        assert!(resolve(Some(&current), "").is_err());
        assert!(resolve(Some(&current), "a\u{7}b").is_err());
    }

    #[test]
    fn a_single_command_takes_full_paths_only() {
        for argument in ["a", ".", "/a/", "/a/..", "//a", ""] {
            assert!(resolve(None, argument).is_err(), "{argument}");
        }
        assert_eq!(resolve(None, "/a/b").unwrap().as_str(), "/a/b");
    }
}
