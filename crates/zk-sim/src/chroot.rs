//! Translates the paths of a session with a chroot, in requests and in replies.
//!
//! Pure: no I/O and no clock.

use futures_util::StreamExt as _;
use zk_core::NodePath;
use zk_core::transport::{Op, OpResult, ReadOp, Request, Response, WatchNotification, Watching};

/// Returns the request as the server sees it: with the chroot.
pub(crate) fn to_server(chroot: &NodePath, mut request: Request) -> Request {
    if chroot.is_root() {
        return request;
    }
    match &mut request {
        Request::Create(create) => prepend(chroot, &mut create.path),
        Request::Delete { path, .. }
        | Request::Get { path, .. }
        | Request::Set { path, .. }
        | Request::Exists { path, .. }
        | Request::List { path, .. }
        | Request::Sync { path }
        | Request::GetAcl { path }
        | Request::SetAcl { path, .. }
        | Request::AddWatch { path, .. }
        | Request::CountBelow { path } => prepend(chroot, path),
        Request::MultiRead(reads) => {
            for read in reads {
                match read {
                    ReadOp::Data(path) | ReadOp::Children(path) => prepend(chroot, path),
                }
            }
        }
        Request::Ephemerals { prefix } => prefix.insert_str(0, chroot.as_str()),
        Request::WhoAmI | Request::GetConfig => {}
        Request::Transaction(changes) => {
            for change in changes {
                match change {
                    Op::Create(create) => prepend(chroot, &mut create.path),
                    Op::Check { path, .. } | Op::Set { path, .. } | Op::Delete { path, .. } => {
                        prepend(chroot, path);
                    }
                }
            }
        }
    }
    request
}

/// Returns the response as the session sees it: without the chroot.
pub(crate) fn to_session(chroot: &NodePath, response: Response) -> Response {
    if chroot.is_root() {
        return response;
    }
    match response {
        Response::Created { path, stat } => Response::Created {
            path: strip(chroot, &path),
            stat,
        },
        Response::Committed(changes) => Response::Committed(
            changes
                .into_iter()
                .map(|changed| match changed {
                    OpResult::Created { path, stat } => OpResult::Created {
                        path: strip(chroot, &path),
                        stat,
                    },
                    other => other,
                })
                .collect(),
        ),
        Response::Watching(watching) => {
            let chroot = chroot.clone();
            Response::Watching(Watching::new(watching.map(move |notice| match notice {
                WatchNotification::Changed { path, event, zxid } => WatchNotification::Changed {
                    path: strip(&chroot, &path),
                    event,
                    zxid,
                },
                WatchNotification::LinkLost => WatchNotification::LinkLost,
            })))
        }
        Response::Paths(paths) => {
            Response::Paths(paths.iter().map(|path| strip(chroot, path)).collect())
        }
        other => other,
    }
}

fn prepend(chroot: &NodePath, path: &mut NodePath) {
    *path = if path.is_root() {
        chroot.clone()
    } else {
        parse(&format!("{chroot}{path}"))
    };
}

fn strip(chroot: &NodePath, path: &NodePath) -> NodePath {
    match path.as_str().strip_prefix(chroot.as_str()) {
        Some("") | None => NodePath::root(),
        Some(rest) => parse(rest),
    }
}

fn parse(path: &str) -> NodePath {
    NodePath::parse(path)
        .expect("two joined paths are a path, and so is a suffix that begins with a slash")
}
