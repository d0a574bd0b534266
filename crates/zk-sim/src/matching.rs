//! Matchers for requests, by kind and by path.
//!
//! In a pattern `*` matches any text within a name, and `**` any text, including slashes.
//! A matcher is a function of a [`Request`]; a closure also works.
//!
//! Pure: no I/O and no clock.

use zk_core::NodePath;
use zk_core::transport::{MultiOp, MultiRead, Request};

/// Matches every request.
pub fn anything() -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    |_| true
}

/// Matches creates of a path, without the sequence number of a sequential node.
pub fn creates(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Create2(_)))
}

/// Matches deletes of a path.
pub fn deletes(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Delete { .. }))
}

/// Matches reads of the data of a path.
pub fn gets(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| {
        matches!(request, Request::GetData { .. })
    })
}

/// Matches writes of the data of a path.
pub fn sets(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| {
        matches!(request, Request::SetData { .. })
    })
}

/// Matches requests that read several nodes, one of which is at a path.
pub fn multi_reads(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::MultiRead(_)))
}

/// Matches checks whether a path exists.
pub fn exists(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Exists { .. }))
}

/// Matches lists of the children of a path.
pub fn lists(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| {
        matches!(request, Request::GetChildren2 { .. })
    })
}

/// Matches syncs.
pub fn syncs() -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    |request| matches!(request, Request::Sync { .. })
}

/// Matches transactions that touch a path.
pub fn transactions(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Multi(_)))
}

/// Matches requests for a persistent watch on a path.
pub fn watches(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| {
        matches!(request, Request::AddWatch { .. })
    })
}

/// Matches all requests that change nodes, which a transaction of checks alone does not.
pub fn writes() -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    let is_check = |op: &MultiOp| matches!(op, MultiOp::Check { .. });
    move |request| match request {
        Request::Multi(parts) => !parts.iter().all(is_check),
        _ => is_write(request),
    }
}

/// Matches the requests of another matcher that have a path like this.
pub fn with_path(
    pattern: &str,
    matcher: impl Fn(&Request) -> bool + Send + Clone + 'static,
) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    let pattern = pattern.to_owned();
    move |request| {
        matcher(request)
            && paths(request)
                .iter()
                .any(|path| fits(&pattern, path.as_str()))
    }
}

/// Returns whether a request changes nodes, which requires the leader.
pub(crate) fn is_write(request: &Request) -> bool {
    matches!(
        request,
        Request::Create(_)
            | Request::Create2(_)
            | Request::Delete { .. }
            | Request::SetData { .. }
            | Request::SetAcl { .. }
            | Request::Multi(_)
    )
}

/// Returns the paths in a request: one, or one per part of a transaction or of several reads.
pub fn paths(request: &Request) -> Vec<&NodePath> {
    match request {
        Request::Create(create) | Request::Create2(create) => vec![&create.path],
        Request::Delete { path, .. }
        | Request::GetData { path, .. }
        | Request::SetData { path, .. }
        | Request::Exists { path, .. }
        | Request::GetChildren2 { path, .. }
        | Request::Sync { path }
        | Request::GetAcl { path }
        | Request::SetAcl { path, .. }
        | Request::AddWatch { path, .. }
        | Request::GetAllChildrenNumber { path } => vec![path],
        Request::MultiRead(reads) => reads.iter().map(read_path).collect(),
        Request::Multi(changes) => changes
            .iter()
            .map(|change| match change {
                MultiOp::Create(create) | MultiOp::Create2(create) => &create.path,
                MultiOp::Check { path, .. }
                | MultiOp::SetData { path, .. }
                | MultiOp::Delete { path, .. } => path,
            })
            .collect(),
        _ => Vec::new(),
    }
}

const fn read_path(read: &MultiRead) -> &NodePath {
    match read {
        MultiRead::GetData { path } | MultiRead::GetChildren { path } => path,
    }
}

fn by(
    pattern: &str,
    is_kind: fn(&Request) -> bool,
) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    with_path(pattern, is_kind)
}

fn fits(pattern: &str, text: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix("**") {
        return ends(text).any(|at| fits(rest, &text[at..]));
    }
    if let Some(rest) = pattern.strip_prefix('*') {
        let name = text.find('/').unwrap_or(text.len());
        return ends(&text[..name]).any(|at| fits(rest, &text[at..]));
    }
    match (pattern.chars().next(), text.chars().next()) {
        (None, None) => true,
        (Some(wanted), Some(found)) if wanted == found => {
            fits(&pattern[wanted.len_utf8()..], &text[found.len_utf8()..])
        }
        _ => false,
    }
}

/// Returns the positions at which a text can be split, including its end.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices()
        .map(|(at, _)| at)
        .chain(std::iter::once(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_ends_at_a_slash_and_two_do_not() {
        for (pattern, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a*", "/ab", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", false),
            ("/**-lock-", "/a/_c_1-lock-", true),
            ("/*-lock-", "/a/_c_1-lock-", false),
            ("**", "/", true),
            ("/ä*", "/äö", true),
            ("", "/", false),
        ] {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_matcher_matches_its_kind_and_each_path_of_a_transaction() {
        let path = NodePath::parse("/a").unwrap();
        let get = Request::GetData {
            path: path.clone(),
            watch: false,
        };
        assert!(gets("/a")(&get) && anything()(&get));
        assert!(!sets("/a")(&get) && !lists("/a")(&get) && !writes()(&get));
        let both = Request::Multi(vec![
            MultiOp::Check {
                path,
                version: None,
            },
            MultiOp::Delete {
                path: NodePath::parse("/b").unwrap(),
                version: None,
            },
        ]);
        assert!(transactions("/b")(&both) && writes()(&both));
        assert!(with_path("/b", writes())(&both) && !with_path("/b", syncs())(&both));
        assert!(!with_path("/c", writes())(&both));
        assert!(!transactions("/c")(&both) && !deletes("/b")(&both));
    }
}
