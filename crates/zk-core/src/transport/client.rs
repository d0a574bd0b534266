//! The transport over the `zookeeper_client` crate: the only module that names it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zookeeper_client as zk;

use super::{
    Authenticating, Bytes, ConnectOptions, CreateMode, Link, LinkGone, LinkReceiver, LinkSender,
    Op, OpResult, Phase, ReadOp, ReadResult, Reply, Request, Response, SessionEnd, Transport,
    TransportError, WatchEvent, WatchNotification, Watched, Watching,
};
use crate::acl::{Acl, AclEntry, Permissions};
use crate::error::ErrorKind;
use crate::identity::Identity;
use crate::lease_clock;
use crate::path::{NodePath, ParsePathError};
use crate::stat::{SessionId, Stat, to_time};

mod watch_quota;

use watch_quota::{Quota, WatchQuota};

/// One session of the client crate, which ends when the last clone of the client is dropped.
pub(crate) struct ClientTransport {
    /// Taken by [`close`](Transport::close).
    client: Mutex<Option<zk::Client>>,
    link: LinkReceiver,
    broken: Arc<Mutex<Option<Instant>>>,
    session_id: SessionId,
    session_timeout: Duration,
    watch_quota: WatchQuota,
}

impl ClientTransport {
    /// Tries each server once and returns the first session.
    ///
    /// The client's errors hide the cause; `connect_diagnosis` finds it.
    pub(crate) async fn connect(options: &ConnectOptions<'_>) -> Result<Self, TransportError> {
        let servers = options.servers;
        let mut connector = zk::Client::connector()
            .with_session_timeout(options.session_timeout)
            .with_connection_timeout(link_timeout(options.session_timeout))
            .with_readonly(options.allow_read_only)
            .with_fail_eagerly();
        for credentials in options.auth {
            connector = connector.with_auth(&credentials.scheme, credentials.data.as_slice());
        }
        let address = servers.to_string();
        let connected = connector.connect(&address).await;
        let client = connected.map_err(|error| fault(&error))?;
        let broken = Arc::default();
        Ok(Self {
            link: follow(client.state_watcher(), Arc::clone(&broken)),
            broken,
            session_id: SessionId::new(client.session_id().0),
            session_timeout: client.session_timeout(),
            watch_quota: WatchQuota::new(servers.chroot()),
            client: Mutex::new(Some(client)),
        })
    }
}

/// Forwards the client's state to a channel until the session is over or all receivers are dropped.
fn follow(mut states: zk::StateWatcher, broken: Arc<Mutex<Option<Instant>>>) -> LinkReceiver {
    let link = LinkSender::new(Link {
        phase: phase(states.peek_state()),
        breaks: 0,
    });
    let receiver = link.subscribe();
    tokio::spawn(async move {
        loop {
            let before = link.now();
            if let Phase::Over(_) = before.phase {
                return;
            }
            let state = tokio::select! {
                state = states.changed() => state,
                () = link.abandoned() => return,
            };
            // The state may have changed since: only a state that is read after the clock is known to be at least as
            // new.
            let now = lease_clock::now();
            if states.peek_state() == zk::SessionState::Disconnected {
                *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            }
            link.send(next_link(before, state));
        }
    });
    receiver
}

/// Returns the link after the client reported a state.
///
/// The client reports only its newest state. If it reports the same state twice, the link broke and was restored
/// between.
fn next_link(before: Link, state: zk::SessionState) -> Link {
    let was_connected = matches!(before.phase, Phase::Up | Phase::ReadOnly);
    let breaks = before.breaks + u64::from(was_connected);
    match (before.phase, phase(state)) {
        // After a read-only connection, the client continues with another session.
        (Phase::ReadOnly, Phase::Up | Phase::Down | Phase::ReadOnly) => Link {
            phase: Phase::Over(SessionEnd::Expired),
            breaks,
        },
        (_, phase) => Link { phase, breaks },
    }
}

impl Transport for ClientTransport {
    fn session_id(&self) -> SessionId {
        self.session_id
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    fn link(&self) -> LinkReceiver {
        self.link.clone()
    }

    fn broken(&self) -> Option<Instant> {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_auth(&self, scheme: &str, data: Bytes) -> Authenticating {
        let client = self.client.lock();
        let client = client.unwrap_or_else(PoisonError::into_inner).clone();
        let scheme = scheme.to_owned();
        Box::pin(async move {
            let client = client.ok_or(TransportError::Ended(SessionEnd::Closed))?;
            let accepted = client.auth(&scheme, data.as_slice()).await;
            accepted.map_err(|error| fault(&error))
        })
    }

    fn submit(&self, request: Request) -> Reply {
        let client = self.client.lock();
        let client = client.unwrap_or_else(PoisonError::into_inner).clone();
        let (link, quota) = (self.link(), self.watch_quota.clone());
        Box::pin(async move {
            let result = match client {
                None => Err(TransportError::NotSent(SessionEnd::Closed)),
                Some(client) => answer(&client, request, link, &quota).await,
            };
            result.into()
        })
    }

    fn close(&self) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        drop(client.take());
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
        Request::Create(create) => {
            let acl = to_acl(&create.acl);
            let (stat, sequence) = client
                .create(
                    create.path.as_str(),
                    create.data.as_slice(),
                    &create_options(create.mode, &acl),
                )
                .await
                .map_err(|error| fault(&error))?;
            let path = if is_sequential(create.mode) {
                create.path.with_suffix(&sequence.to_string())
            } else {
                create.path
            };
            Ok(Response::Created {
                path,
                stat: to_stat(&stat),
            })
        }
        Request::Transaction(changes) => commit(client, &changes).await,
        Request::MultiRead(reads) => read_many(client, &reads).await,
        Request::Ephemerals { prefix } => {
            let paths = client.list_ephemerals(&prefix).await;
            let paths = paths.map_err(|error| fault(&error))?;
            let paths = paths.iter().map(|path| NodePath::parse(path));
            let paths = paths.collect::<Result<_, _>>();
            let malformed = |error: ParsePathError| TransportError::Lost(error.to_string());
            Ok(Response::Paths(paths.map_err(malformed)?))
        }
        request => {
            let quota = match &request {
                Request::Get { path, watch: true }
                | Request::Exists { path, watch: true }
                | Request::List { path, watch: true }
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
        Request::Get { path, watch } => {
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
        Request::Set {
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
        Request::List { path, watch } => {
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
        Request::WhoAmI => {
            let users = client.list_auth_users().await?.into_iter();
            let identities = users.map(|user| Identity::new(user.scheme(), user.user()));
            Response::Identities(identities.collect())
        }
        Request::CountBelow { path } => {
            let count = client.count_descendants_number(path.as_str()).await?;
            Response::Count(u32::try_from(count).unwrap_or(u32::MAX))
        }
        Request::GetConfig => {
            let (data, stat) = client.get_config().await?;
            Response::Data {
                data: data.into(),
                stat: to_stat(&stat),
                watch: None,
            }
        }
        Request::Create(_)
        | Request::Transaction(_)
        | Request::MultiRead(_)
        | Request::Ephemerals { .. } => unreachable!("answered by the caller"),
    })
}

async fn read_many(client: &zk::Client, reads: &[ReadOp]) -> Result<Response, TransportError> {
    let mut reader = client.new_multi_reader();
    for read in reads {
        let added = match read {
            ReadOp::Data(path) => reader.add_get_data(path.as_str()),
            ReadOp::Children(path) => reader.add_get_children(path.as_str()),
        };
        added.map_err(|error| fault(&error))?;
    }
    let results = reader.commit().await.map_err(|error| fault(&error))?;
    let result = |result| match result {
        zk::MultiReadResult::Data { data, stat } => Ok(ReadResult::Data {
            data: data.into(),
            stat: to_stat(&stat),
        }),
        zk::MultiReadResult::Children { children } => Ok(ReadResult::Children(children)),
        zk::MultiReadResult::Error { err } => Err(fault(&err)),
        // Whatever a later version adds was not requested.
        _ => Err(TransportError::wrong_reply(
            "of a read that was not requested",
        )),
    };
    Ok(Response::Reads(results.into_iter().map(result).collect()))
}

async fn commit(client: &zk::Client, changes: &[Op]) -> Result<Response, TransportError> {
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
            .map(|result| changed(result).map_err(|error| TransportError::Lost(error.to_string())))
            .collect::<Result<_, _>>()
            .map(Response::Committed),
        Err(zk::MultiWriteError::OperationFailed { index, source }) => Err(match fault(&source) {
            TransportError::Refused(kind, _) => TransportError::RefusedAt { index, kind },
            other => other,
        }),
        Err(zk::MultiWriteError::RequestFailed { source }) => Err(fault(&source)),
    }
}

fn add_change(writer: &mut zk::MultiWriter<'_>, change: &Op) -> Result<(), zk::Error> {
    match change {
        Op::Check { path, version } => {
            writer.add_check_version(path.as_str(), version.unwrap_or(-1))
        }
        Op::Create(create) => writer.add_create(
            create.path.as_str(),
            create.data.as_slice(),
            &create_options(create.mode, &to_acl(&create.acl)),
        ),
        Op::Set {
            path,
            data,
            version,
        } => writer.add_set_data(path.as_str(), data.as_slice(), *version),
        Op::Delete { path, version } => writer.add_delete(path.as_str(), *version),
    }
}

fn changed(result: zk::MultiWriteResult) -> Result<OpResult, ParsePathError> {
    Ok(match result {
        zk::MultiWriteResult::Create { path, stat } => OpResult::Created {
            path: NodePath::parse(&path)?,
            stat: (!stat.is_invalid()).then(|| to_stat(&stat)),
        },
        zk::MultiWriteResult::SetData { stat } => OpResult::Set(to_stat(&stat)),
        zk::MultiWriteResult::Delete => OpResult::Deleted,
        _ => OpResult::Checked,
    })
}

fn create_options(mode: CreateMode, acl: &[zk::Acl]) -> zk::CreateOptions<'_> {
    let (wire_mode, ttl) = match mode {
        CreateMode::Persistent {
            sequential: false,
            ttl,
        } => (zk::CreateMode::Persistent, ttl),
        CreateMode::Persistent {
            sequential: true,
            ttl,
        } => (zk::CreateMode::PersistentSequential, ttl),
        CreateMode::Ephemeral { sequential: false } => (zk::CreateMode::Ephemeral, None),
        CreateMode::Ephemeral { sequential: true } => (zk::CreateMode::EphemeralSequential, None),
        CreateMode::Container => (zk::CreateMode::Container, None),
    };
    let options = wire_mode.with_acls(zk::Acls::new(acl));
    match ttl {
        Some(ttl) => options.with_ttl(ttl),
        None => options,
    }
}

const fn is_sequential(mode: CreateMode) -> bool {
    matches!(
        mode,
        CreateMode::Persistent {
            sequential: true,
            ..
        } | CreateMode::Ephemeral { sequential: true }
    )
}

/// Converts a one-shot watcher of the client. It survives reconnects, because the client sets the watch again.
fn watched(watcher: zk::OneshotWatcher, mut link: LinkReceiver, quota: Option<Quota>) -> Watched {
    Box::pin(async move {
        let _quota = quota;
        match watcher.changed().await.event_type {
            zk::EventType::NodeCreated => WatchEvent::Created,
            zk::EventType::NodeDeleted => WatchEvent::Deleted,
            zk::EventType::NodeDataChanged => WatchEvent::DataChanged,
            zk::EventType::NodeChildrenChanged => WatchEvent::ChildrenChanged,
            zk::EventType::Session => {
                // The client notifies its watchers before it updates its state. Wait for the state, so that a caller
                // that receives `SessionLost` sees a lost session.
                let over = link.wait_for(|link| matches!(link.phase, Phase::Over(_)));
                // A dropped link sender also means that the session is over.
                let _: Result<_, LinkGone> = over.await;
                WatchEvent::SessionLost
            }
        }
    })
}

/// Converts a persistent watcher of the client. It ends with the link: the client does not set the watch again, but
/// would forward the events of another watch on the same node.
fn watching(watcher: zk::PersistentWatcher, quota: Option<Quota>) -> Watching {
    Watching::new(futures_util::stream::unfold(
        Some((watcher, quota)),
        |open| async move {
            let (mut watcher, quota) = open?;
            match notice(&watcher.changed().await) {
                WatchNotification::LinkLost => Some((WatchNotification::LinkLost, None)),
                notice @ WatchNotification::Changed { .. } => {
                    Some((notice, Some((watcher, quota))))
                }
            }
        },
    ))
}

fn notice(event: &zk::WatchedEvent) -> WatchNotification {
    let kind = match event.event_type {
        zk::EventType::NodeCreated => WatchEvent::Created,
        zk::EventType::NodeDeleted => WatchEvent::Deleted,
        zk::EventType::NodeDataChanged => WatchEvent::DataChanged,
        zk::EventType::NodeChildrenChanged => WatchEvent::ChildrenChanged,
        // The client reports a session event only when the connection breaks, or later.
        zk::EventType::Session => return WatchNotification::LinkLost,
    };
    match NodePath::parse(&event.path) {
        Ok(path) => WatchNotification::Changed {
            path,
            event: kind,
            zxid: (event.zxid >= 0).then_some(event.zxid),
        },
        // An invalid path: some change cannot be reported, as after a lost link.
        Err(_) => WatchNotification::LinkLost,
    }
}

fn phase(state: zk::SessionState) -> Phase {
    match state {
        zk::SessionState::SyncConnected => Phase::Up,
        zk::SessionState::ConnectedReadOnly => Phase::ReadOnly,
        zk::SessionState::Disconnected => Phase::Down,
        zk::SessionState::Expired => Phase::Over(SessionEnd::Expired),
        zk::SessionState::AuthFailed => Phase::Over(SessionEnd::AuthFailed),
        zk::SessionState::Closed => Phase::Over(SessionEnd::Closed),
    }
}

/// Returns how long the client waits for a silent server before it tries the next one: its own 2/5 of the session
/// timeout, and long enough for a reply if the server grants a longer timeout than requested.
///
/// The client divides this into eighths and pings after three of them without a request. With a lower value it would
/// ping more often, and all links to followers would break at each pause of the leader: a request that waits for the
/// leader delays the pings behind it.
fn link_timeout(session_timeout: Duration) -> Duration {
    (session_timeout * 2 / 5).max(SHORTEST_LINK_TIMEOUT)
}

const SHORTEST_LINK_TIMEOUT: Duration = Duration::from_secs(1);

fn fault(error: &zk::Error) -> TransportError {
    let refused = |kind| TransportError::Refused(kind, None);
    match error {
        zk::Error::NoNode => refused(ErrorKind::NoNode),
        zk::Error::NodeExists => refused(ErrorKind::NodeExists),
        zk::Error::BadVersion => refused(ErrorKind::BadVersion),
        zk::Error::NotEmpty => refused(ErrorKind::NotEmpty),
        zk::Error::NoChildrenForEphemerals => refused(ErrorKind::ParentIsEphemeral),
        zk::Error::NoAuth => refused(ErrorKind::NoAuth),
        zk::Error::InvalidAcl => refused(ErrorKind::InvalidAcl),
        zk::Error::QuotaExceeded => refused(ErrorKind::QuotaExceeded),
        zk::Error::NotReadOnly => refused(ErrorKind::ReadOnlyServer),
        zk::Error::Unimplemented | zk::Error::ReconfigDisabled => refused(ErrorKind::Unsupported),
        // The client's words for this answer of a server are "bad arguments: server error".
        zk::Error::BadArguments(why) if **why == "server error" => TransportError::Refused(
            ErrorKind::InvalidArgument,
            Some("the server refuses it".to_owned()),
        ),
        zk::Error::BadArguments(_) | zk::Error::MarshallingError | zk::Error::NoWatcher => {
            TransportError::Refused(ErrorKind::InvalidArgument, Some(error.to_string()))
        }
        zk::Error::Throttled => TransportError::Later(ErrorKind::Throttled),
        zk::Error::SessionMoved => TransportError::Later(ErrorKind::SessionMoved),
        zk::Error::UnexpectedErrorCode(_) => TransportError::Server(error.to_string()),
        zk::Error::SessionExpired => TransportError::Ended(SessionEnd::Expired),
        zk::Error::AuthFailed => TransportError::Ended(SessionEnd::AuthFailed),
        zk::Error::ClientClosed => TransportError::Ended(SessionEnd::Closed),
        // A broken connection has many faces: FIN is `ConnectionLoss`, RST and silence are `Custom`, and a reply that
        // makes no sense is one of the others. Whatever a later version adds is safest taken as one more of them.
        _ => TransportError::Lost(error.to_string()),
    }
}

fn to_stat(stat: &zk::Stat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        pzxid: stat.pzxid,
        ctime: to_time(stat.ctime),
        mtime: to_time(stat.mtime),
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: (stat.ephemeral_owner != 0).then(|| SessionId::new(stat.ephemeral_owner)),
        data_length: u32::try_from(stat.data_length).unwrap_or(0),
        num_children: u32::try_from(stat.num_children).unwrap_or(0),
    }
}

fn to_acl(acl: &Acl) -> Vec<zk::Acl> {
    let entry = |entry: &AclEntry| {
        let granted = PERMISSIONS
            .iter()
            .filter(|(ours, _)| entry.permissions().contains(*ours));
        let permissions = granted.fold(zk::Permission::NONE, |set, (_, theirs)| set | *theirs);
        zk::Acl::new(permissions, zk::AuthId::new(entry.scheme(), entry.id()))
    };
    acl.entries().iter().map(entry).collect()
}

fn from_acl(entries: &[zk::Acl]) -> Acl {
    Acl::new(entries.iter().map(|entry| {
        let granted = PERMISSIONS
            .iter()
            .filter(|(_, theirs)| entry.permission().has(*theirs));
        AclEntry::new(
            granted.fold(Permissions::NONE, |set, (ours, _)| set | *ours),
            entry.scheme(),
            entry.id(),
        )
    }))
}

const PERMISSIONS: [(Permissions, zk::Permission); 5] = [
    (Permissions::READ, zk::Permission::READ),
    (Permissions::WRITE, zk::Permission::WRITE),
    (Permissions::CREATE, zk::Permission::CREATE),
    (Permissions::DELETE, zk::Permission::DELETE),
    (Permissions::ADMIN, zk::Permission::ADMIN),
];

#[cfg(test)]
mod tests;
