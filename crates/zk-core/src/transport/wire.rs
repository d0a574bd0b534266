//! The transport over `zk_wire`: the only module that names it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use zk_wire as wire;

use super::CreateMode;
use super::CreateRequest;
use super::Link;
use super::LinkGone;
use super::LinkReceiver;
use super::LinkSender;
use super::Op;
use super::OpResult;
use super::Phase;
use super::Request;
use super::Response;
use super::SessionEnd;
use super::TransportError;
use super::WatchEvent;
use super::WatchNotification;
use super::Watched;
use super::Watching;
use super::client::to_time;
use super::client_session::Client;
use super::client_session::ClientSession;
use crate::acl::Acl;
use crate::acl::AclEntry;
use crate::acl::Permissions;
use crate::connect_string::ConnectString;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::stat::SessionId;
use crate::stat::Stat;

/// One session of `zk_wire`.
pub(crate) type WireTransport = ClientSession<WireClient>;

/// A client whose paths are below a chroot.
#[derive(Debug, Clone)]
pub(crate) struct WireClient {
    client: wire::Client,
    chroot: Chroot,
}

impl WireTransport {
    /// Tries the servers until one grants a session.
    pub(crate) async fn connect(
        servers: &ConnectString,
        session_timeout: Duration,
        digest: Option<&str>,
    ) -> Result<Self, TransportError> {
        let hosts = servers.servers().iter().map(|server| wire::Host {
            name: server.host().to_owned(),
            port: server.port(),
        });
        let mut config = wire::Config::new(session_timeout);
        if let Some(digest) = digest {
            let credentials = digest.as_bytes().to_vec().into();
            config.auth.push(wire::Credentials {
                scheme: "digest".to_owned(),
                data: credentials,
            });
        }
        let client = wire::Client::new(hosts.collect(), config);
        let mut states = client.states();
        let granted = |state: &wire::ConnectionState| match state {
            wire::ConnectionState::Disconnected { .. } => None,
            wire::ConnectionState::Over(end) => Some(Err(ended(*end))),
            wire::ConnectionState::Connected {
                session_id,
                timeout,
                ..
            } => Some(Ok((SessionId::new(*session_id), *timeout))),
        };
        let state = states.wait_for(|state| granted(state).is_some()).await;
        let (session_id, session_timeout) = match state.ok().as_deref().and_then(granted) {
            Some(granted) => granted?,
            None => return Err(TransportError::Ended(SessionEnd::RuntimeEnded)),
        };
        let broken = Arc::default();
        let chroot = Chroot(servers.chroot().clone());
        Ok(Self {
            link: follow(client.states(), session_timeout, Arc::clone(&broken)),
            broken,
            session_id,
            session_timeout,
            client: Mutex::new(Some(WireClient { client, chroot })),
        })
    }
}

/// Forwards the client's states to a channel until the session is over or all receivers are dropped.
fn follow(
    mut states: tokio::sync::watch::Receiver<wire::ConnectionState>,
    session_timeout: Duration,
    broken: Arc<Mutex<Option<Instant>>>,
) -> LinkReceiver {
    let mut epoch = 0;
    let first = next_link(&mut epoch, session_timeout, &states.borrow_and_update());
    let link = LinkSender::new(first);
    let receiver = link.subscribe();
    tokio::spawn(async move {
        while !matches!(link.now().phase, Phase::Over(_)) {
            let changed = tokio::select! {
                changed = states.changed() => changed,
                () = link.abandoned() => return,
            };
            if changed.is_err() {
                return;
            }
            // A state that is read after the clock is at least as new as the moment.
            let now = tokio::time::Instant::now().into_std();
            let state = states.borrow_and_update().clone();
            if let wire::ConnectionState::Disconnected { .. } = state {
                *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            }
            link.send(next_link(&mut epoch, session_timeout, &state));
        }
    });
    receiver
}

/// Returns the link in a state of the client. Connections are numbered, so no break between two states is missed.
///
/// A server with a smaller `maxSessionTimeout` shortens the timeout of a session that moves to it. What is proved with
/// the longer one does not hold any more, so the session is over then.
fn next_link(epoch: &mut u64, session_timeout: Duration, state: &wire::ConnectionState) -> Link {
    let (phase, breaks) = match state {
        wire::ConnectionState::Connected { timeout, .. } if *timeout < session_timeout => {
            (Phase::Over(SessionEnd::Expired), *epoch)
        }
        wire::ConnectionState::Connected { epoch: now, .. } => {
            *epoch = *now;
            (Phase::Up, now.saturating_sub(1))
        }
        wire::ConnectionState::Disconnected { .. } => (Phase::Down, *epoch),
        wire::ConnectionState::Over(end) => (Phase::Over(session_end(*end)), *epoch),
    };
    Link { phase, breaks }
}

impl Client for WireClient {
    async fn answer(
        self,
        request: Request,
        link: LinkReceiver,
    ) -> Result<Response, TransportError> {
        let answer = self.client.request(&self.chroot.request(&request)).await;
        response(&request, answer, self.chroot, link)
    }
}

/// The node that all paths are relative to.
#[derive(Debug, Clone)]
struct Chroot(NodePath);

impl Chroot {
    /// Returns a path as the servers know it.
    fn outer(&self, path: &NodePath) -> String {
        match (self.0.is_root(), path.is_root()) {
            (true, _) => path.as_str().to_owned(),
            (false, true) => self.0.as_str().to_owned(),
            (false, false) => format!("{}{path}", self.0),
        }
    }

    /// Returns a path of a server as the session knows it; `None` if it is not one below the chroot.
    fn inner(&self, path: &str) -> Option<NodePath> {
        let rest = if self.0.is_root() {
            path
        } else {
            path.strip_prefix(self.0.as_str())?
        };
        match rest {
            "" => Some(NodePath::root()),
            rest => NodePath::parse(rest).ok(),
        }
    }

    fn request(&self, request: &Request) -> wire::Request {
        match request {
            Request::Create(create) => wire::Request::Create2(self.node(create)),
            Request::Delete { path, version } => wire::Request::Delete {
                path: self.outer(path),
                version: *version,
            },
            Request::Get { path, watch } => wire::Request::GetData {
                path: self.outer(path),
                watch: *watch,
            },
            Request::Set {
                path,
                data,
                version,
            } => wire::Request::SetData {
                path: self.outer(path),
                data: data.as_slice().to_vec().into(),
                version: *version,
            },
            Request::Exists { path, watch } => wire::Request::Exists {
                path: self.outer(path),
                watch: *watch,
            },
            Request::List { path, watch } => wire::Request::GetChildren2 {
                path: self.outer(path),
                watch: *watch,
            },
            Request::Sync { path } => wire::Request::Sync {
                path: self.outer(path),
            },
            Request::GetAcl { path } => wire::Request::GetAcl {
                path: self.outer(path),
            },
            Request::SetAcl { path, acl, version } => wire::Request::SetAcl {
                path: self.outer(path),
                acl: to_acl(acl),
                version: *version,
            },
            Request::Transaction(ops) => {
                wire::Request::Multi(ops.iter().map(|op| self.op(op)).collect())
            }
            Request::AddWatch { path, recursive } => wire::Request::AddWatch {
                path: self.outer(path),
                recursive: *recursive,
            },
        }
    }

    fn op(&self, op: &Op) -> wire::MultiOp {
        match op {
            Op::Check { path, version } => wire::MultiOp::Check {
                path: self.outer(path),
                version: *version,
            },
            Op::Create(create) => wire::MultiOp::Create2(self.node(create)),
            Op::Set {
                path,
                data,
                version,
            } => wire::MultiOp::SetData {
                path: self.outer(path),
                data: data.as_slice().to_vec().into(),
                version: *version,
            },
            Op::Delete { path, version } => wire::MultiOp::Delete {
                path: self.outer(path),
                version: *version,
            },
        }
    }

    fn node(&self, create: &CreateRequest) -> wire::NewNode {
        use wire::CreateMode as Wire;
        wire::NewNode {
            path: self.outer(&create.path),
            data: create.data.as_slice().to_vec().into(),
            acl: to_acl(&create.acl),
            mode: match create.mode {
                CreateMode::Persistent { sequential, ttl } => match (sequential, ttl) {
                    (false, None) => Wire::Persistent,
                    (true, None) => Wire::PersistentSequential,
                    (false, Some(ttl)) => Wire::PersistentWithTtl(ttl),
                    (true, Some(ttl)) => Wire::PersistentSequentialWithTtl(ttl),
                },
                CreateMode::Ephemeral { sequential: false } => Wire::Ephemeral,
                CreateMode::Ephemeral { sequential: true } => Wire::EphemeralSequential,
                CreateMode::Container => Wire::Container,
            },
        }
    }
}

/// Converts the answer to a request.
fn response(
    request: &Request,
    answer: Result<wire::Answer, wire::RequestError>,
    paths: Chroot,
    link: LinkReceiver,
) -> Result<Response, TransportError> {
    let malformed = || TransportError::Lost("a reply of the wrong kind".to_owned());
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let failure = fault(&error.kind);
            // This is an answer, and the watch is set all the same.
            return match (request, failure) {
                (Request::Exists { .. }, TransportError::Refused(ErrorKind::NoNode, _)) => {
                    let watch = error.watch.map(|watch| watched(watch, link));
                    Ok(Response::Stat { stat: None, watch })
                }
                (_, failure) => Err(failure),
            };
        }
    };
    let (watch, epoch) = (answer.watch, answer.epoch);
    match (request, answer.reply) {
        (Request::Create(_), wire::Reply::Created { path, stat }) => Ok(Response::Created {
            path: paths.inner(&path).ok_or_else(malformed)?,
            stat: to_stat(&stat.ok_or_else(malformed)?),
        }),
        (Request::Delete { .. }, _) => Ok(Response::Deleted),
        (Request::Sync { .. }, _) => Ok(Response::Synced),
        (_, wire::Reply::Data { data, stat }) => Ok(Response::Data {
            data: data.to_vec(),
            stat: to_stat(&stat),
            watch: watch.map(|watch| watched(watch, link)),
        }),
        (Request::Exists { .. }, wire::Reply::Stat(stat)) => Ok(Response::Stat {
            stat: Some(to_stat(&stat)),
            watch: watch.map(|watch| watched(watch, link)),
        }),
        (_, wire::Reply::Stat(stat)) => Ok(Response::Set(to_stat(&stat))),
        (_, wire::Reply::Children { names, stat }) => Ok(Response::Children {
            names,
            stat: to_stat(&stat.ok_or_else(malformed)?),
            watch: watch.map(|watch| watched(watch, link)),
        }),
        (_, wire::Reply::Acl { acl, stat }) => Ok(Response::Acl {
            acl: from_acl(&acl),
            stat: to_stat(&stat),
        }),
        (_, wire::Reply::Multi(Ok(results))) => {
            let results = results.into_iter().map(|result| result_of(result, &paths));
            let results = results.collect::<Option<_>>().ok_or_else(malformed)?;
            Ok(Response::Committed(results))
        }
        (_, wire::Reply::Multi(Err(refusal))) => Err(match refused(refusal.code) {
            TransportError::Refused(kind, _) => TransportError::RefusedAt {
                index: refusal.index,
                kind,
            },
            other => other,
        }),
        (Request::AddWatch { .. }, _) => {
            let watch = watch.ok_or_else(malformed)?;
            Ok(Response::Watching(watching(watch, epoch, paths, link)))
        }
        _ => Err(malformed()),
    }
}

fn result_of(result: wire::MultiResult, paths: &Chroot) -> Option<OpResult> {
    Some(match result {
        wire::MultiResult::Created { path, stat } => OpResult::Created {
            path: paths.inner(&path)?,
            stat: stat.as_ref().map(to_stat),
        },
        wire::MultiResult::Deleted => OpResult::Deleted,
        wire::MultiResult::Set(stat) => OpResult::Set(to_stat(&stat)),
        wire::MultiResult::Checked => OpResult::Checked,
    })
}

/// Converts a one-shot watch.
fn watched(mut watch: wire::Watch, mut link: LinkReceiver) -> Watched {
    Box::pin(async move {
        while let Some(event) = watch.next().await {
            if let Some(kind) = event.kind {
                return event_of(kind);
            }
        }
        // The client ends its watches before its state tells the end. Wait for the state, so that a caller that receives
        // `SessionLost` sees a lost session.
        let over = link.wait_for(|link| matches!(link.phase, Phase::Over(_)));
        // A dropped link sender also means that the session is over.
        let _: Result<_, LinkGone> = over.await;
        WatchEvent::SessionLost
    })
}

/// Converts a persistent watch that was set over the connection `epoch` and ends with it: what happens until the next
/// one is not reported.
fn watching(watch: wire::Watch, epoch: u64, paths: Chroot, link: LinkReceiver) -> Watching {
    let open = Some((watch, paths, link));
    Watching::new(futures_util::stream::unfold(open, move |open| async move {
        let (mut watch, paths, mut link) = open?;
        let is_lost = |link: &Link| link.breaks >= epoch || link.phase != Phase::Up;
        let event = tokio::select! {
            // What came over the connection before it was lost is reported.
            biased;
            event = watch.next() => event.filter(|_| watch.epoch() == epoch),
            _ = link.wait_for(is_lost) => None,
        };
        let changed = event.and_then(|event| {
            Some(WatchNotification::Changed {
                path: paths.inner(&event.path)?,
                event: event_of(event.kind?),
                zxid: event.zxid,
            })
        });
        // A change that cannot be reported is like a lost link.
        Some(match changed {
            Some(changed) => (changed, Some((watch, paths, link))),
            None => (WatchNotification::LinkLost, None),
        })
    }))
}

const fn event_of(kind: wire::WatchEventKind) -> WatchEvent {
    match kind {
        wire::WatchEventKind::Created => WatchEvent::Created,
        wire::WatchEventKind::Deleted => WatchEvent::Deleted,
        wire::WatchEventKind::DataChanged => WatchEvent::DataChanged,
        wire::WatchEventKind::ChildrenChanged => WatchEvent::ChildrenChanged,
    }
}

const fn session_end(end: wire::SessionEnd) -> SessionEnd {
    match end {
        wire::SessionEnd::Closed => SessionEnd::Closed,
        wire::SessionEnd::Expired => SessionEnd::Expired,
        wire::SessionEnd::AuthFailed => SessionEnd::AuthFailed,
        wire::SessionEnd::RuntimeEnded => SessionEnd::RuntimeEnded,
    }
}

const fn ended(end: wire::SessionEnd) -> TransportError {
    TransportError::Ended(session_end(end))
}

fn fault(error: &wire::RequestErrorKind) -> TransportError {
    use wire::Loss;
    use wire::NotSent;
    use wire::RequestErrorKind as Kind;
    use wire::SubmitError;
    match error {
        Kind::Refused { code, .. } => refused(*code),
        Kind::Unknown {
            why: Loss::ServerFailed(code),
            ..
        } => TransportError::Server(code.to_string()),
        Kind::Submit(SubmitError::Over(end))
        | Kind::NotSent(NotSent::Over(end))
        | Kind::Unknown {
            why: Loss::Over(end),
            ..
        } => ended(*end),
        Kind::Submit(SubmitError::TooLong { .. }) => {
            TransportError::Refused(ErrorKind::TooLarge, Some(error.to_string()))
        }
        Kind::Submit(_) => TransportError::Later(ErrorKind::Throttled),
        Kind::NotSent(NotSent::Unsupported { .. }) => {
            TransportError::Refused(ErrorKind::Unsupported, Some(error.to_string()))
        }
        _ => TransportError::Lost(error.to_string()),
    }
}

fn refused(code: wire::ErrorCode) -> TransportError {
    use wire::ErrorCode as Code;
    let kind = match code {
        Code::NO_NODE => ErrorKind::NoNode,
        Code::NODE_EXISTS => ErrorKind::NodeExists,
        Code::BAD_VERSION => ErrorKind::BadVersion,
        Code::NOT_EMPTY => ErrorKind::NotEmpty,
        Code::NO_CHILDREN_FOR_EPHEMERALS => ErrorKind::ParentIsEphemeral,
        Code::NO_AUTH => ErrorKind::NoAuth,
        Code::INVALID_ACL => ErrorKind::InvalidAcl,
        Code::QUOTA_EXCEEDED => ErrorKind::QuotaExceeded,
        Code::NOT_READ_ONLY => ErrorKind::ReadOnlyServer,
        Code::UNIMPLEMENTED | Code::RECONFIG_DISABLED => ErrorKind::Unsupported,
        Code::THROTTLED_OP => return TransportError::Later(ErrorKind::Throttled),
        Code::SESSION_MOVED => return TransportError::Later(ErrorKind::SessionMoved),
        Code::SESSION_EXPIRED => return TransportError::Ended(SessionEnd::Expired),
        Code::AUTH_FAILED => return TransportError::Ended(SessionEnd::AuthFailed),
        Code::BAD_ARGUMENTS | Code::MARSHALLING_ERROR | Code::NO_WATCHER => {
            let why = "the server refuses it".to_owned();
            return TransportError::Refused(ErrorKind::InvalidArgument, Some(why));
        }
        // It may be a failure of the server, and not a refusal.
        _ => return TransportError::Server(code.to_string()),
    };
    TransportError::Refused(kind, None)
}

fn to_stat(stat: &wire::Stat) -> Stat {
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

fn to_acl(acl: &Acl) -> Vec<wire::AclEntry> {
    let entry = |entry: &AclEntry| wire::AclEntry {
        permissions: i32::from(entry.permissions().bits()),
        scheme: entry.scheme().to_owned(),
        id: entry.id().to_owned(),
    };
    acl.entries().iter().map(entry).collect()
}

fn from_acl(entries: &[wire::AclEntry]) -> Acl {
    Acl::new(entries.iter().map(|entry| {
        let permissions = Permissions::from_bits(entry.permissions);
        AclEntry::new(permissions, entry.scheme.as_str(), entry.id.as_str())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_when_a_server_shortens_its_timeout() {
        let granted = Duration::from_secs(40);
        let phase = |secs| {
            let state = wire::ConnectionState::Connected {
                session_id: 1,
                epoch: 2,
                timeout: Duration::from_secs(secs),
                read_only: false,
            };
            next_link(&mut 1, granted, &state).phase
        };
        assert_eq!(phase(39), Phase::Over(SessionEnd::Expired));
        assert_eq!([phase(40), phase(41)], [Phase::Up; 2]);
    }

    #[test]
    fn a_failure_of_the_server_is_no_refusal() {
        let failed = wire::RequestErrorKind::Unknown {
            epoch: 1,
            why: wire::Loss::ServerFailed(wire::ErrorCode::OPERATION_TIMEOUT),
        };
        let failure = "OperationTimeout (-7)".to_owned();
        assert_eq!(fault(&failed), TransportError::Server(failure));
        let refused = wire::RequestErrorKind::Refused {
            code: wire::ErrorCode::NODE_EXISTS,
            zxid: 1,
            epoch: 1,
        };
        let refusal = TransportError::Refused(ErrorKind::NodeExists, None);
        assert_eq!(fault(&refused), refusal);
    }
}
