//! Implements the transport of `zk-core` over the client.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;
use zk_core::transport::{
    Answer, Authenticating, Credentials, LinkReceiver, MultiOp, MultiResult, Reply, Request,
    Response, SessionEnd, Transport, TransportError,
};
use zk_core::{ErrorKind, NodePath, ParsePathError, SessionId};
use zookeeper_client as zk;

use crate::convert::{create_options, fault, from_acl, to_acl, to_stat};
use crate::header::{has_zxids, header};
use crate::link::{Followed, Follower};
use crate::lock;
use crate::watch::{watched, watching};
use crate::watch_quota::{Quota, WatchQuota};

/// One session of the client; made by [`Connect::transport`](crate::Connect::transport).
///
/// # Dropping
///
/// Ends the session in the background, as [`close`](Transport::close) does.
pub struct ClientTransport {
    /// Taken by [`close`](Transport::close). The session ends when the last clone of it is dropped.
    client: Mutex<Option<zk::Client>>,
    follower: Weak<Follower>,
    link: LinkReceiver,
    broken: Arc<Mutex<Option<Instant>>>,
    follow: AbortHandle,
    session_id: SessionId,
    session_timeout: Duration,
    requested: Instant,
    watch_quota: WatchQuota,
}

impl ClientTransport {
    /// Creates the transport of a session that was requested after `requested`.
    pub(crate) fn new(client: zk::Client, requested: Instant) -> Self {
        let Followed {
            follower,
            link,
            broken,
            task,
        } = Follower::start(client.state_watcher());
        Self {
            follower,
            link,
            broken,
            follow: task,
            session_id: SessionId::from_i64(client.session_id().0),
            session_timeout: client.session_timeout(),
            requested,
            watch_quota: WatchQuota::default(),
            client: Mutex::new(Some(client)),
        }
    }
}

impl Transport for ClientTransport {
    fn session_id(&self) -> SessionId {
        self.session_id
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    fn requested(&self) -> Option<Instant> {
        Some(self.requested)
    }

    fn link(&self) -> LinkReceiver {
        self.link.clone()
    }

    fn broken(&self) -> Option<Instant> {
        *lock(&self.broken)
    }

    fn add_auth(&self, credentials: Credentials) -> Authenticating {
        let client = lock(&self.client).clone();
        Box::pin(async move {
            let client = client.ok_or(TransportError::Ended(SessionEnd::Closed))?;
            let accepted = client.auth(&credentials.scheme, &credentials.data).await;
            accepted.map_err(|error| fault(&error))
        })
    }

    fn submit(&self, request: Request) -> Reply {
        let client = lock(&self.client).clone();
        let (link, quota) = (self.link(), self.watch_quota.clone());
        let follower = Weak::clone(&self.follower);
        let has_zxids = has_zxids(&request);
        Box::pin(async move {
            let Some(client) = client else {
                return Err(TransportError::NotSent(SessionEnd::Closed)).into();
            };
            // Without the follower the runtime of the session has ended, or the session.
            let breaks = follower.upgrade().map(|follower| follower.breaks());
            let result = answer(&client, request, link, &quota).await;
            // The caller sees each break that the client knows of.
            if let Some(follower) = follower.upgrade() {
                follower.catch_up();
            }
            let header = breaks.and_then(|breaks| header(&result, breaks, has_zxids));
            Answer { result, header }
        })
    }

    fn close(&self) {
        drop(lock(&self.client).take());
    }
}

impl Drop for ClientTransport {
    fn drop(&mut self) {
        self.follow.abort();
    }
}

impl fmt::Debug for ClientTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTransport")
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}

async fn answer(
    client: &zk::Client,
    request: Request,
    link: LinkReceiver,
    quota: &WatchQuota,
) -> Result<Response, TransportError> {
    match request {
        Request::Create(create) | Request::Create2(create) => {
            let acl = to_acl(&create.acl);
            let (stat, sequence) = client
                .create(
                    create.path.as_str(),
                    create.data.as_slice(),
                    &create_options(create.mode, &acl),
                )
                .await
                .map_err(|error| fault(&error))?;
            let path = if create.mode.is_sequential() {
                NodePath::parse(&format!("{}{sequence}", create.path))
                    .map_err(|error| invalid(&error))?
            } else {
                create.path
            };
            let stat = to_stat(&stat);
            Ok(Response::Created { path, stat })
        }
        Request::Multi(changes) => commit(client, &changes).await,
        request => {
            let quota = match &request {
                Request::GetData { path, watch: true }
                | Request::Exists { path, watch: true }
                | Request::GetChildren2 { path, watch: true }
                | Request::AddWatch { path, .. } => Some(quota.take(path)?),
                _ => None,
            };
            plain_answer(client, request, link, quota)
                .await
                .map_err(|error| fault(&error))
        }
    }
}

async fn plain_answer(
    client: &zk::Client,
    request: Request,
    link: LinkReceiver,
    quota: Option<Quota>,
) -> Result<Response, zk::Error> {
    Ok(match request {
        Request::Delete { path, version } => {
            client.delete(path.as_str(), version).await?;
            Response::Deleted
        }
        Request::GetData { path, watch } => {
            let (data, stat, watch) = if watch {
                let (data, stat, watcher) = client.get_and_watch_data(path.as_str()).await?;
                (data, stat, Some(watched(watcher, link, quota)))
            } else {
                let (data, stat) = client.get_data(path.as_str()).await?;
                (data, stat, None)
            };
            Response::Data {
                data: data.into(),
                stat: to_stat(&stat),
                watch,
            }
        }
        Request::SetData {
            path,
            data,
            version,
        } => Response::Set(to_stat(
            &client
                .set_data(path.as_str(), data.as_slice(), version)
                .await?,
        )),
        Request::Exists { path, watch } => {
            let (stat, watch) = if watch {
                let (stat, watcher) = client.check_and_watch_stat(path.as_str()).await?;
                (stat, Some(watched(watcher, link, quota)))
            } else {
                (client.check_stat(path.as_str()).await?, None)
            };
            Response::Stat {
                stat: stat.as_ref().map(to_stat),
                watch,
            }
        }
        Request::GetChildren2 { path, watch } => {
            let (names, stat, watch) = if watch {
                let (names, stat, watcher) = client.get_and_watch_children(path.as_str()).await?;
                (names, stat, Some(watched(watcher, link, quota)))
            } else {
                let (names, stat) = client.get_children(path.as_str()).await?;
                (names, stat, None)
            };
            Response::Children {
                names,
                stat: to_stat(&stat),
                watch,
            }
        }
        Request::Sync { path } => {
            client.sync(path.as_str()).await?;
            Response::Synced
        }
        Request::GetAcl { path } => {
            let (entries, stat) = client.get_acl(path.as_str()).await?;
            Response::Acl {
                acl: from_acl(&entries),
                stat: to_stat(&stat),
            }
        }
        Request::SetAcl { path, acl, version } => Response::Set(to_stat(
            &client
                .set_acl(path.as_str(), &to_acl(&acl), version)
                .await?,
        )),
        Request::AddWatch { path, recursive } => {
            let mode = if recursive {
                zk::AddWatchMode::PersistentRecursive
            } else {
                zk::AddWatchMode::Persistent
            };
            Response::Watching(watching(client.watch(path.as_str(), mode).await?, quota))
        }
        // What the client does not have.
        _ => return Err(zk::Error::Unimplemented),
    })
}

async fn commit(client: &zk::Client, changes: &[MultiOp]) -> Result<Response, TransportError> {
    let mut writer = client.new_multi_writer();
    for (index, change) in changes.iter().enumerate() {
        add_change(&mut writer, change).map_err(|error| match fault(&error) {
            TransportError::Refused(kind, _) => TransportError::RefusedAt { index, kind },
            other => other,
        })?;
    }
    match writer.commit().await {
        Ok(results) => results
            .into_iter()
            .map(|result| changed(result).map_err(|error| invalid(&error)))
            .collect::<Result<_, _>>()
            .map(Response::Committed),
        Err(zk::MultiWriteError::OperationFailed { index, source }) => Err(match fault(&source) {
            TransportError::Refused(kind, _) => TransportError::RefusedAt { index, kind },
            other => other,
        }),
        Err(zk::MultiWriteError::RequestFailed { source }) => Err(fault(&source)),
    }
}

/// Returns the error for a path in a reply that is none.
fn invalid(error: &ParsePathError) -> TransportError {
    TransportError::Unreadable {
        kind: ErrorKind::InvalidReply,
        why: error.to_string(),
    }
}

fn add_change(writer: &mut zk::MultiWriter<'_>, change: &MultiOp) -> Result<(), zk::Error> {
    match change {
        MultiOp::Check { path, version } => {
            writer.add_check_version(path.as_str(), version.unwrap_or(-1))
        }
        MultiOp::Create(create) | MultiOp::Create2(create) => writer.add_create(
            create.path.as_str(),
            create.data.as_slice(),
            &create_options(create.mode, &to_acl(&create.acl)),
        ),
        MultiOp::SetData {
            path,
            data,
            version,
        } => writer.add_set_data(path.as_str(), data.as_slice(), *version),
        MultiOp::Delete { path, version } => writer.add_delete(path.as_str(), *version),
    }
}

fn changed(result: zk::MultiWriteResult) -> Result<MultiResult, ParsePathError> {
    Ok(match result {
        zk::MultiWriteResult::Create { path, stat } => MultiResult::Created {
            path: NodePath::parse(&path)?,
            stat: (!stat.is_invalid()).then(|| to_stat(&stat)),
        },
        zk::MultiWriteResult::SetData { stat } => MultiResult::Set(to_stat(&stat)),
        zk::MultiWriteResult::Delete => MultiResult::Deleted,
        _ => MultiResult::Checked,
    })
}
