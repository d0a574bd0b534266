//! The node that all paths of a session are relative to.
//!
//! Pure: no I/O and no clock.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::proto::{
    DecodeError, MultiOp, MultiRead, MultiResult, NewNode, Reply, Request, WatchEvent, WatchLists,
};

/// The node that all paths of a session are relative to; the root by default.
///
/// The servers are sent paths below it, and what they return is relative to it again. The node is not created.
///
/// ```
/// use zk_wire::Chroot;
///
/// let chroot: Chroot = "/app".parse()?;
/// assert_eq!(chroot.to_string(), "/app");
/// assert_eq!(Chroot::default().to_string(), "/");
/// # Ok::<(), zk_wire::ParseChrootError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chroot {
    /// Empty for the root; never ends in `/`.
    path: String,
}

/// A text is not the path of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the chroot {text:?} {rule}")]
pub struct ParseChrootError {
    text: String,
    rule: &'static str,
}

impl FromStr for Chroot {
    type Err = ParseChrootError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = if text == "/" { "" } else { text };
        let names = || path.split('/').skip(1);
        let rule = if text.is_empty() {
            "is empty; write / for the root"
        } else if !text.starts_with('/') {
            "does not begin with a '/'; write /name"
        } else if path.ends_with('/') {
            "ends in a '/'; leave that out"
        } else if names().any(str::is_empty) {
            "has two '/' in a row; write one"
        } else if names().any(|name| name == "." || name == "..") {
            "has a '.' or '..' for a name; write the whole path"
        } else if path.chars().any(char::is_control) {
            "has a control character, which servers refuse"
        } else {
            return Ok(Self {
                path: path.to_owned(),
            });
        };
        let text = text.to_owned();
        Err(ParseChrootError { text, rule })
    }
}

impl fmt::Display for Chroot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "/" } else { &self.path })
    }
}

impl Chroot {
    fn is_root(&self) -> bool {
        self.path.is_empty()
    }

    /// Returns a request with the paths that the servers know; the path that cannot be below the chroot if there is one.
    pub(crate) fn request<'a>(&self, request: &'a Request) -> Result<Cow<'a, Request>, String> {
        if self.is_root() {
            return Ok(Cow::Borrowed(request));
        }
        let mut request = request.clone();
        for (path, is_prefix) in paths(&mut request) {
            if !path.starts_with('/') {
                return Err(path.clone());
            }
            // The chroot itself has no slash at its end.
            if path == "/" && !is_prefix {
                path.clear();
            }
            path.insert_str(0, &self.path);
        }
        Ok(Cow::Owned(request))
    }

    /// Returns a reply with paths relative to the chroot.
    ///
    /// # Errors
    ///
    /// If the server has created a node elsewhere.
    pub(crate) fn reply(&self, mut reply: Reply) -> Result<Reply, DecodeError> {
        if self.is_root() {
            return Ok(reply);
        }
        match &mut reply {
            Reply::Created { path, .. } => *path = self.created(path)?,
            Reply::Multi(Ok(results)) => {
                for result in results {
                    if let MultiResult::Created { path, .. } = result {
                        *path = self.created(path)?;
                    }
                }
            }
            // The session has ephemeral nodes elsewhere if another client has used it without the chroot.
            Reply::Paths(paths) => {
                *paths = paths.iter().filter_map(|path| self.inner(path)).collect();
            }
            Reply::Empty
            | Reply::Stat(_)
            | Reply::Data { .. }
            | Reply::Acl { .. }
            | Reply::Children { .. }
            | Reply::Multi(Err(_))
            | Reply::MultiRead(_)
            | Reply::Count(_)
            | Reply::Identities(_)
            | Reply::Token(_) => {}
        }
        Ok(reply)
    }

    /// Returns an event with a path relative to the chroot.
    pub(crate) fn event(&self, event: &WatchEvent) -> WatchEvent {
        let mut event = event.clone();
        // Only the watch of the ensemble's configuration reports another one.
        if let Some(path) = self.inner(&event.path) {
            event.path = path;
        }
        event
    }

    /// Returns a path of the servers relative to the chroot; `None` if it is not below it.
    fn inner(&self, path: &str) -> Option<String> {
        match path.strip_prefix(&self.path)? {
            "" => Some("/".to_owned()),
            rest if rest.starts_with('/') => Some(rest.to_owned()),
            // Its name only begins like that of the chroot.
            _ => None,
        }
    }

    fn created(&self, path: &str) -> Result<String, DecodeError> {
        let what = "the path of a new node";
        self.inner(path).ok_or(DecodeError::OutsideChroot { what })
    }
}

/// Returns the paths in a request, and whether each is the beginning of paths rather than one itself.
fn paths(request: &mut Request) -> Vec<(&mut String, bool)> {
    match request {
        Request::Create(node) | Request::Create2(node) => vec![new_path(node)],
        Request::Delete { path, .. }
        | Request::Exists { path, .. }
        | Request::GetData { path, .. }
        | Request::SetData { path, .. }
        | Request::GetAcl { path }
        | Request::SetAcl { path, .. }
        | Request::GetChildren { path, .. }
        | Request::GetChildren2 { path, .. }
        | Request::Sync { path }
        | Request::CheckWatches { path, .. }
        | Request::RemoveWatches { path, .. }
        | Request::AddWatch { path, .. }
        | Request::GetAllChildrenNumber { path } => vec![(path, false)],
        Request::GetEphemerals { prefix } => vec![(prefix, true)],
        Request::Multi(ops) => ops.iter_mut().map(op_path).collect(),
        Request::MultiRead(reads) => reads.iter_mut().map(read_path).collect(),
        Request::SetWatches { lists, .. } => {
            let WatchLists {
                data,
                exist,
                child,
                persistent,
                recursive,
            } = lists;
            let lists = [data, exist, child, persistent, recursive].into_iter();
            lists.flatten().map(|path| (path, false)).collect()
        }
        // The configuration is that of the ensemble.
        Request::GetConfig { .. }
        | Request::Reconfig { .. }
        | Request::WhoAmI
        | Request::Auth(_)
        | Request::Sasl(_)
        | Request::Ping
        | Request::CloseSession => Vec::new(),
    }
}

fn op_path(op: &mut MultiOp) -> (&mut String, bool) {
    match op {
        MultiOp::Create(node) | MultiOp::Create2(node) => new_path(node),
        MultiOp::Delete { path, .. }
        | MultiOp::SetData { path, .. }
        | MultiOp::Check { path, .. } => (path, false),
    }
}

fn read_path(read: &mut MultiRead) -> (&mut String, bool) {
    match read {
        MultiRead::GetData { path } | MultiRead::GetChildren { path } => (path, false),
    }
}

/// The server adds a number to the path of a sequential node.
fn new_path(node: &mut NewNode) -> (&mut String, bool) {
    let is_prefix = node.mode.is_sequential();
    (&mut node.path, is_prefix)
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::*;
    use crate::proto::{CreateMode, Stat, Xid};

    fn app() -> Chroot {
        "/app".parse().unwrap()
    }

    fn node(path: &str, mode: CreateMode) -> NewNode {
        NewNode {
            path: path.to_owned(),
            data: Bytes::new(),
            acl: Vec::new(),
            mode,
        }
    }

    /// Every request that contains paths, with this one in each place.
    fn requests(path: &str) -> Vec<Request> {
        let path = || path.to_owned();
        let new = || node(&path(), CreateMode::Persistent);
        let (watch, version, recursive, kind) = (true, None, true, None);
        let (data, acl) = (Bytes::new(), Vec::new());
        vec![
            Request::Create(new()),
            Request::Create2(new()),
            Request::Delete {
                path: path(),
                version,
            },
            Request::Exists {
                path: path(),
                watch,
            },
            Request::GetData {
                path: path(),
                watch,
            },
            Request::SetData {
                path: path(),
                data: data.clone(),
                version,
            },
            Request::GetAcl { path: path() },
            Request::SetAcl {
                path: path(),
                acl,
                version,
            },
            Request::GetChildren {
                path: path(),
                watch,
            },
            Request::GetChildren2 {
                path: path(),
                watch,
            },
            Request::Sync { path: path() },
            Request::CheckWatches { path: path(), kind },
            Request::RemoveWatches { path: path(), kind },
            Request::AddWatch {
                path: path(),
                recursive,
            },
            Request::GetAllChildrenNumber { path: path() },
            Request::GetEphemerals { prefix: path() },
            Request::Multi(vec![
                MultiOp::Create(new()),
                MultiOp::Create2(new()),
                MultiOp::Delete {
                    path: path(),
                    version,
                },
                MultiOp::SetData {
                    path: path(),
                    data,
                    version,
                },
                MultiOp::Check {
                    path: path(),
                    version,
                },
            ]),
            Request::MultiRead(vec![
                MultiRead::GetData { path: path() },
                MultiRead::GetChildren { path: path() },
            ]),
            Request::SetWatches {
                last_zxid_seen: 0,
                lists: WatchLists {
                    data: vec![path()],
                    exist: vec![path()],
                    child: vec![path()],
                    persistent: vec![path()],
                    recursive: vec![path()],
                },
            },
        ]
    }

    #[test]
    fn every_path_of_every_request_is_prefixed() {
        let chroot = app();
        for (inner, outer) in requests("/a/b").iter().zip(requests("/app/a/b")) {
            assert_eq!(chroot.request(inner).as_deref(), Ok(&outer));
            assert_eq!(Chroot::default().request(inner).as_deref(), Ok(inner));
            // The table above has a path wherever the encoding has one.
            let mut bytes = BytesMut::new();
            outer.encode(Xid::FIRST, &mut bytes);
            let count = |wanted: &[u8]| {
                bytes
                    .windows(wanted.len())
                    .filter(|part| *part == wanted)
                    .count()
            };
            assert_eq!(count(b"/app/a/b"), count(b"/a/b"), "{outer:?}");
        }
    }

    #[test]
    fn the_configuration_of_the_ensemble_is_not_below_the_chroot() {
        let request = Request::GetConfig { watch: true };
        assert_eq!(app().request(&request).as_deref(), Ok(&request));
        let path = "/zookeeper/config";
        let event = WatchEvent {
            path: path.to_owned(),
            kind: None,
            zxid: None,
        };
        assert_eq!(app().event(&event).path, path);
    }

    #[test]
    fn a_path_without_a_slash_does_not_leave_the_chroot() {
        for request in requests("le") {
            assert_eq!(app().request(&request), Err("le".to_owned()), "{request:?}");
        }
        for request in requests("") {
            assert_eq!(app().request(&request), Err(String::new()), "{request:?}");
        }
    }

    #[test]
    fn the_root_is_the_chroot_and_names_begin_below_it() {
        let sync = |path: &str| Request::Sync {
            path: path.to_owned(),
        };
        assert_eq!(app().request(&sync("/")).as_deref(), Ok(&sync("/app")));
        let create = |path, mode| Request::Create(node(path, mode));
        let plain = app()
            .request(&create("/", CreateMode::Ephemeral))
            .unwrap()
            .into_owned();
        assert_eq!(plain, create("/app", CreateMode::Ephemeral));
        // The server would add its number to the name of the chroot.
        for mode in [
            CreateMode::PersistentSequential,
            CreateMode::EphemeralSequential,
        ] {
            let outer = app().request(&create("/", mode)).unwrap().into_owned();
            assert_eq!(outer, create("/app/", mode));
        }
    }

    #[test]
    fn paths_in_replies_are_relative_to_the_chroot() {
        let created = |path: &str| Reply::Created {
            path: path.to_owned(),
            stat: Some(Stat::default()),
        };
        assert_eq!(app().reply(created("/app/a")), Ok(created("/a")));
        assert_eq!(app().reply(created("/app")), Ok(created("/")));
        for outside in ["/apple", "/", "/other/app"] {
            let what = "the path of a new node";
            assert_eq!(
                app().reply(created(outside)),
                Err(DecodeError::OutsideChroot { what })
            );
            assert_eq!(
                Chroot::default().reply(created(outside)),
                Ok(created(outside))
            );
        }
        let multi = |path: &str| {
            Reply::Multi(Ok(vec![
                MultiResult::Deleted,
                MultiResult::Created {
                    path: path.to_owned(),
                    stat: None,
                },
            ]))
        };
        assert_eq!(app().reply(multi("/app/a")), Ok(multi("/a")));
        assert!(app().reply(multi("/apple")).is_err());
        let paths =
            |paths: &[&str]| Reply::Paths(paths.iter().map(|path| (*path).to_owned()).collect());
        let ephemerals = app().reply(paths(&["/app/a/e", "/apple", "/b"]));
        assert_eq!(ephemerals, Ok(paths(&["/a/e"])));
    }

    #[test]
    fn events_are_relative_to_the_chroot() {
        let event = |path: &str| WatchEvent {
            path: path.to_owned(),
            kind: None,
            zxid: None,
        };
        assert_eq!(app().event(&event("/app/a")), event("/a"));
        assert_eq!(app().event(&event("/app")), event("/"));
        assert_eq!(Chroot::default().event(&event("/app")), event("/app"));
    }

    #[test]
    fn a_chroot_that_is_no_path_is_refused_with_the_remedy() {
        for (text, expected) in [
            ("", "the chroot \"\" is empty; write / for the root"),
            (
                "app",
                "the chroot \"app\" does not begin with a '/'; write /name",
            ),
            (
                "/app/",
                "the chroot \"/app/\" ends in a '/'; leave that out",
            ),
            ("//", "the chroot \"//\" ends in a '/'; leave that out"),
            (
                "/a//b",
                "the chroot \"/a//b\" has two '/' in a row; write one",
            ),
            (
                "/a/../b",
                "the chroot \"/a/../b\" has a '.' or '..' for a name; write the whole path",
            ),
            (
                "/a\n",
                "the chroot \"/a\\n\" has a control character, which servers refuse",
            ),
        ] {
            let error = text.parse::<Chroot>().unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!("/".parse(), Ok(Chroot::default()));
        assert_eq!("/a/.b".parse::<Chroot>().unwrap().to_string(), "/a/.b");
    }
}
