//! Matchers for requests, by kind and by path.
//!
//! In a pattern `*` matches any text within a name, and `**` any text, including slashes.
//! A matcher is a function of a [`Request`]; a closure also works.
//!
//! Pure: no I/O and no clock.

use zk_core::NodePath;
use zk_core::transport::{Op, ReadOp, Request};

/// Matches every request.
pub fn anything() -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    |_| true
}

/// Matches creates of a path, without the sequence number of a sequential node.
pub fn creates(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Create(_)))
}

/// Matches deletes of a path.
pub fn deletes(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Delete { .. }))
}

/// Matches reads of the data of a path.
pub fn gets(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Get { .. }))
}

/// Matches writes of the data of a path.
pub fn sets(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| matches!(request, Request::Set { .. }))
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
    by(pattern, |request| matches!(request, Request::List { .. }))
}

/// Matches syncs.
pub fn syncs() -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    |request| matches!(request, Request::Sync { .. })
}

/// Matches transactions that touch a path.
pub fn transactions(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| {
        matches!(request, Request::Transaction(_))
    })
}

/// Matches requests for a persistent watch on a path.
pub fn watches(pattern: &str) -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    by(pattern, |request| {
        matches!(request, Request::AddWatch { .. })
    })
}

/// Matches all requests that change nodes, which a transaction of checks alone does not.
pub fn writes() -> impl Fn(&Request) -> bool + Send + Clone + 'static {
    let is_check = |op: &Op| matches!(op, Op::Check { .. });
    move |request| match request {
        Request::Transaction(parts) => !parts.iter().all(is_check),
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
            | Request::Delete { .. }
            | Request::Set { .. }
            | Request::SetAcl { .. }
            | Request::Transaction(_)
    )
}

/// Returns the paths in a request: one, or one per part of a transaction or of several reads.
pub fn paths(request: &Request) -> Vec<&NodePath> {
    match request {
        Request::Create(create) => vec![&create.path],
        Request::Delete { path, .. }
        | Request::Get { path, .. }
        | Request::Set { path, .. }
        | Request::Exists { path, .. }
        | Request::List { path, .. }
        | Request::Sync { path }
        | Request::GetAcl { path }
        | Request::SetAcl { path, .. }
        | Request::AddWatch { path, .. }
        | Request::CountBelow { path } => vec![path],
        Request::MultiRead(reads) => reads.iter().map(ReadOp::path).collect(),
        Request::WhoAmI | Request::Ephemerals { .. } | Request::GetConfig => Vec::new(),
        Request::Transaction(changes) => changes
            .iter()
            .map(|change| match change {
                Op::Create(create) => &create.path,
                Op::Check { path, .. } | Op::Set { path, .. } | Op::Delete { path, .. } => path,
            })
            .collect(),
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
        let get = Request::Get {
            path: path.clone(),
            watch: false,
        };
        assert!(gets("/a")(&get) && anything()(&get));
        assert!(!sets("/a")(&get) && !lists("/a")(&get) && !writes()(&get));
        let both = Request::Transaction(vec![
            Op::Check {
                path,
                version: None,
            },
            Op::Delete {
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
