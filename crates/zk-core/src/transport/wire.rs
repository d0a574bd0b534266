//! The transport over the client of `zk_wire`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use zk_wire as wire;
use zk_wire::{
    Config, Credentials, Host, HostProvider, Release, SessionEnd, SessionId, TlsFailure,
};

use super::{
    Answer, Authenticating, Link, LinkGone, LinkReceiver, LinkSender, Phase, Reply, ReplyHeader,
    Request, Response, RoleReply, ServerRole, Transport, TransportError, WatchEvent,
    WatchNotification, Watched, Watching,
};
use crate::ensemble_config::TrackedServers;
use crate::error::ErrorKind;
use crate::lease_clock;

mod ensemble_tracker;
mod plain_create;

use ensemble_tracker::EnsembleTracker;

/// One session of `zk_wire`.
#[derive(Debug)]
pub(crate) struct WireTransport {
    client: wire::Client,
    assumed_release: Option<Release>,
    link: LinkReceiver,
    broken: Arc<Mutex<Option<Instant>>>,
    session_id: SessionId,
    max_request: usize,
    /// The smallest one that was granted, in milliseconds.
    session_timeout: Arc<AtomicU64>,
    /// The task of the ensemble tracker, if there is one.
    _tracking: JoinSet<()>,
}

/// How to connect.
pub(crate) struct ConnectOptions<'a> {
    /// Those of the connect string.
    pub(crate) hosts: &'a [Host],
    /// Returns others in their place.
    pub(crate) host_provider: Option<&'a Arc<dyn HostProvider>>,
    pub(crate) config: &'a Config,
    /// Those of the newest configuration of the ensemble, which the session is to follow.
    pub(crate) tracked_servers: Option<&'a TrackedServers>,
    /// Receives where and why the last encrypted connection failed.
    pub(crate) tls_failure: &'a Mutex<Option<(Host, TlsFailure)>>,
    /// Receives which server has not proved last that it knows the password, and why.
    pub(crate) unproved: &'a Mutex<Option<(Host, String)>>,
}

impl WireTransport {
    /// Tries the servers until one grants a session.
    pub(crate) async fn connect(options: &ConnectOptions<'_>) -> Result<Self, TransportError> {
        let tracked = options.tracked_servers;
        let tracker = tracked.map(|tracked| EnsembleTracker::new(options.hosts, tracked));
        let config = options.config.clone();
        let client = match (&tracker, options.host_provider) {
            (Some(tracker), _) => wire::Client::with_host_provider(tracker.clone(), config),
            (None, Some(provider)) => {
                wire::Client::with_host_provider(Arc::clone(provider), config)
            }
            (None, None) => wire::Client::new(options.hosts.to_vec(), config),
        };
        let mut states = client.states();
        let mut proofs_left = MOST_PROOFS * options.hosts.len();
        let decided = states.wait_for(|state| match state {
            wire::ConnectionState::Disconnected {
                why: Some(wire::Loss::Sasl { host, why }),
            } => {
                let failure = (host.clone(), why.to_string());
                let noted = options.unproved.lock();
                *noted.unwrap_or_else(PoisonError::into_inner) = Some(failure);
                // Each one shows the server what the password makes of a number that it chose.
                proofs_left = proofs_left.saturating_sub(1);
                proofs_left == 0
            }
            wire::ConnectionState::Disconnected {
                why: Some(wire::Loss::Tls { server, why }),
            } => {
                let failure = (server.host.clone(), why.clone());
                let noted = options.tls_failure.lock();
                *noted.unwrap_or_else(PoisonError::into_inner) = Some(failure);
                // It is the same with every server.
                matches!(why, TlsFailure::Configuration(_))
            }
            wire::ConnectionState::Disconnected { .. } => false,
            wire::ConnectionState::Connected { .. } | wire::ConnectionState::Over(_) => true,
        });
        let session_id = match decided.await.as_deref() {
            Ok(wire::ConnectionState::Connected { session_id, .. }) => *session_id,
            Ok(wire::ConnectionState::Over(end)) => return Err(ended(*end)),
            Ok(wire::ConnectionState::Disconnected {
                why: Some(wire::Loss::Tls { why, .. }),
            }) => {
                let problem = Some(why.to_string());
                return Err(TransportError::Refused(ErrorKind::InvalidArgument, problem));
            }
            Ok(wire::ConnectionState::Disconnected {
                why: Some(wire::Loss::Sasl { why, .. }),
            }) => {
                let problem = Some(why.to_string());
                return Err(TransportError::Refused(ErrorKind::AuthFailed, problem));
            }
            Ok(wire::ConnectionState::Disconnected { .. }) | Err(_) => {
                return Err(TransportError::Ended(SessionEnd::RuntimeEnded));
            }
        };
        let observed = Observed::default();
        observed.update(&client);
        let mut tracking = JoinSet::new();
        if let Some(tracker) = tracker {
            tracking.spawn(tracker.follow(client.clone()));
        }
        Ok(Self {
            link: follow(client.clone(), session_id, observed.clone()),
            broken: observed.broken,
            session_id: SessionId::from_i64(session_id),
            max_request: options.config.max_request,
            session_timeout: observed.session_timeout,
            assumed_release: options.config.assumed_release,
            _tracking: tracking,
            client,
        })
    }

    fn send(&self, request: Request, deadline: Option<tokio::time::Instant>) -> Reply {
        let link = self.link.clone();
        let client = self.client.clone();
        let session_id = self.session_id;
        let create2 = Release::new(3, 5, 0);
        let has_create2 = self
            .assumed_release
            .is_none_or(|release| release >= create2);
        Box::pin(async move {
            if !has_create2 && let Some(plain) = plain_create::plain(&request) {
                // Boxed because it is large, and not for servers since 3.5.
                let sent =
                    plain_create::send(&client, session_id, &request, &plain, link, deadline);
                return Box::pin(sent).await;
            }
            let answer = ask(&client, &request, deadline).await;
            Answer {
                header: header(&answer),
                result: response(&request, answer, link),
            }
        })
    }
}

/// Sends a request, and waits for the reply until the deadline, if there is one.
async fn ask(
    client: &wire::Client,
    request: &Request,
    deadline: Option<tokio::time::Instant>,
) -> Result<wire::Answer, wire::RequestError> {
    match deadline {
        Some(deadline) => client.request_by(request, deadline).await,
        None => client.request(request).await,
    }
}

/// How often each server, on average, is asked to prove that it knows the password.
const MOST_PROOFS: usize = 3;

/// What changes with each connection.
#[derive(Clone, Default)]
struct Observed {
    broken: Arc<Mutex<Option<Instant>>>,
    /// The smallest session timeout that was granted, in milliseconds.
    session_timeout: Arc<AtomicU64>,
}

impl Observed {
    fn update(&self, client: &wire::Client) {
        if let Some(smallest) = client.smallest_timeout() {
            // The protocol has it as a number of 32 bits.
            let millis = u64::try_from(smallest.as_millis()).unwrap_or(u64::MAX);
            self.session_timeout.store(millis, Ordering::SeqCst);
        }
    }
}

/// Returns the link that follows another one in a state of the client. Connections are numbered, so no break between
/// two states is missed.
///
/// The session is over if the client has another one now, as it may after a read-only connection: the session of a
/// read-only server is of that server alone.
fn next_link(first_session: i64, before: Link, state: &wire::ConnectionState) -> Link {
    let expired = Phase::Over(SessionEnd::Expired);
    let (phase, breaks) = match state {
        wire::ConnectionState::Connected {
            session_id,
            epoch,
            read_only,
            ..
        } => {
            let breaks = breaks_before(*epoch);
            let phase = match before.phase {
                _ if *session_id != first_session => expired,
                Phase::ReadOnly if breaks != before.breaks => expired,
                _ if *read_only => Phase::ReadOnly,
                _ => Phase::Up,
            };
            (phase, breaks)
        }
        wire::ConnectionState::Disconnected { .. } => {
            let is_connected = matches!(before.phase, Phase::Up | Phase::ReadOnly);
            let phase = if before.phase == Phase::ReadOnly {
                expired
            } else {
                Phase::Down
            };
            (phase, before.breaks + u64::from(is_connected))
        }
        wire::ConnectionState::Over(end) => (Phase::Over(*end), before.breaks),
    };
    Link { phase, breaks }
}

/// Returns how often the link had broken before a connection.
const fn breaks_before(epoch: u64) -> u64 {
    epoch.saturating_sub(1)
}

/// Forwards the client's states to a channel until the session is over or all receivers are dropped. Closes the
/// client's session if only this transport considers it over.
fn follow(client: wire::Client, session_id: i64, observed: Observed) -> LinkReceiver {
    let mut states = client.states();
    let down = Link {
        phase: Phase::Down,
        breaks: 0,
    };
    let link = LinkSender::new(next_link(session_id, down, &states.borrow_and_update()));
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
            let state = states.borrow_and_update().clone();
            let now = lease_clock::now();
            // If it is the state before and after the clock was read, it was the state at that moment.
            let is_state_of_now = states.has_changed().is_ok_and(|has_changed| !has_changed);
            if let wire::ConnectionState::Disconnected { .. } = state
                && is_state_of_now
            {
                let broken = observed.broken.lock();
                *broken.unwrap_or_else(PoisonError::into_inner) = Some(now);
            }
            observed.update(&client);
            link.send(next_link(session_id, link.now(), &state));
        }
        client.close().await;
    });
    receiver
}

impl Transport for WireTransport {
    fn session_id(&self) -> SessionId {
        self.session_id
    }

    fn session_timeout(&self) -> Duration {
        Duration::from_millis(self.session_timeout.load(Ordering::SeqCst))
    }

    fn link(&self) -> LinkReceiver {
        self.link.clone()
    }

    fn max_request(&self) -> usize {
        self.max_request
    }

    fn assumed_release(&self) -> Option<Release> {
        self.assumed_release
    }

    fn broken(&self) -> Option<Instant> {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_auth(&self, credentials: Credentials) -> Authenticating {
        let client = self.client.clone();
        Box::pin(async move {
            let accepted = client.add_auth(credentials).await;
            accepted.map_err(|error| fault(&error.kind))
        })
    }

    fn replace_auth(&self, credentials: Credentials) -> Authenticating {
        let client = self.client.clone();
        Box::pin(async move {
            let accepted = client.replace_auth(credentials).await;
            accepted.map_err(|error| fault(&error.kind))
        })
    }

    fn submit(&self, request: Request) -> Reply {
        self.send(request, None)
    }

    fn submit_by(&self, request: Request, deadline: Instant) -> Reply {
        self.send(request, Some(deadline.into()))
    }

    fn server_role(&self) -> RoleReply {
        let client = self.client.clone();
        Box::pin(async move {
            let (role, epoch) = client.server_role().await?;
            let role = match role {
                wire::ServerRole::Leader => ServerRole::Leader,
                wire::ServerRole::Follower | wire::ServerRole::Observer => ServerRole::Learner,
            };
            Some((role, breaks_before(epoch)))
        })
    }

    fn rebalance(&self) {
        self.client.rebalance();
    }

    fn close(&self) {
        // The first poll closes the session; the rest waits for the end.
        let _end: Option<SessionEnd> = self.client.close().now_or_never();
    }
}

fn header(answer: &Result<wire::Answer, wire::RequestError>) -> Option<ReplyHeader> {
    let (zxid, epoch) = match answer {
        Ok(answer) => (answer.zxid, answer.epoch),
        Err(error) => match error.kind {
            wire::RequestErrorKind::Refused { zxid, epoch, .. }
            | wire::RequestErrorKind::Unreadable { zxid, epoch, .. } => (zxid, epoch),
            _ => return None,
        },
    };
    let breaks = breaks_before(epoch);
    Some(ReplyHeader { zxid, breaks })
}

/// Converts the answer to a request.
fn response(
    request: &Request,
    answer: Result<wire::Answer, wire::RequestError>,
    link: LinkReceiver,
) -> Result<Response, TransportError> {
    let wrong = || TransportError::wrong_reply("not for this request");
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
        (_, wire::Reply::Created { path, stat }) => Ok(Response::Created {
            path,
            stat: stat.ok_or_else(wrong)?,
        }),
        (Request::Delete { .. }, _) => Ok(Response::Deleted),
        (Request::Sync { .. }, _) => Ok(Response::Synced),
        (_, wire::Reply::Data { data, stat }) => Ok(Response::Data {
            data,
            stat,
            watch: watch.map(|watch| watched(watch, link)),
        }),
        (Request::Exists { .. }, wire::Reply::Stat(stat)) => Ok(Response::Stat {
            stat: Some(stat),
            watch: watch.map(|watch| watched(watch, link)),
        }),
        (_, wire::Reply::Stat(stat)) => Ok(Response::Set(stat)),
        (_, wire::Reply::Children { names, stat }) => Ok(Response::Children {
            names,
            stat: stat.ok_or_else(wrong)?,
            watch: watch.map(|watch| watched(watch, link)),
        }),
        (_, wire::Reply::Acl { acl, stat }) => Ok(Response::Acl { acl, stat }),
        (_, wire::Reply::Multi(Ok(results))) => Ok(Response::Committed(results)),
        (_, wire::Reply::Multi(Err(refusal))) => Err(match refused(refusal.code) {
            TransportError::Refused(kind, _) => TransportError::RefusedAt {
                index: refusal.index,
                kind,
            },
            other => other,
        }),
        (Request::AddWatch { .. }, _) => {
            let watch = watch.ok_or_else(wrong)?;
            Ok(Response::Watching(watching(watch, epoch, link)))
        }
        (_, wire::Reply::MultiRead(results)) => {
            let results = results.into_iter().map(|result| result.map_err(refused));
            Ok(Response::Reads(results.collect()))
        }
        (_, wire::Reply::Identities(identities)) => Ok(Response::Identities(identities)),
        (_, wire::Reply::Paths(paths)) => Ok(Response::Paths(paths)),
        (_, wire::Reply::Count(count)) => {
            Ok(Response::Count(u32::try_from(count).map_err(|_| wrong())?))
        }
        _ => Err(wrong()),
    }
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
fn watching(watch: wire::Watch, epoch: u64, link: LinkReceiver) -> Watching {
    let open = Some((watch, link));
    Watching::new(futures_util::stream::unfold(open, move |open| async move {
        let (mut watch, mut link) = open?;
        let is_lost = |link: &Link| {
            link.breaks >= epoch || !matches!(link.phase, Phase::Up | Phase::ReadOnly)
        };
        let event = tokio::select! {
            // What came over the connection before it was lost is reported.
            biased;
            event = watch.next() => event.filter(|_| watch.epoch() == epoch),
            _ = link.wait_for(is_lost) => None,
        };
        // An event without a kind says that the watch was removed.
        let change = event.and_then(|event| {
            Some(WatchNotification::Changed {
                path: event.path,
                event: event_of(event.kind?),
                zxid: event.zxid,
            })
        });
        Some(match change {
            Some(change) => (change, Some((watch, link))),
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

const fn ended(end: SessionEnd) -> TransportError {
    TransportError::Ended(end)
}

fn fault(error: &wire::RequestErrorKind) -> TransportError {
    use wire::{Loss, RequestErrorKind as Kind, SubmitError};
    match error {
        Kind::Refused { code, .. } => refused(*code),
        Kind::Unknown {
            why: Loss::ServerFailed(code),
            ..
        } => TransportError::Server(code.to_string()),
        Kind::Unknown {
            why: Loss::Over(end),
            ..
        } => ended(*end),
        Kind::Submit(SubmitError::Over(end)) | Kind::NotSent(end) => TransportError::NotSent(*end),
        Kind::Unknown {
            why: Loss::MaybeTooOld { needs, why },
            ..
        } => TransportError::MaybeTooOld {
            needs: needs.to_string(),
            why: why.to_string(),
        },
        Kind::Unreadable {
            why: wire::proto::DecodeError::TooLong { len, limit },
            ..
        } => TransportError::Unreadable {
            kind: ErrorKind::TooLarge,
            why: format!(
                "it has {len} bytes, and the session accepts {limit}; a larger max_buffer raises that"
            ),
        },
        Kind::Unreadable { why, .. } => TransportError::invalid_reply(why.to_string()),
        Kind::TakenBack => TransportError::TakenBack,
        Kind::Unanswered => TransportError::Unanswered,
        Kind::Submit(SubmitError::TooLong { .. }) => {
            TransportError::Refused(ErrorKind::TooLarge, Some(error.to_string()))
        }
        Kind::Submit(SubmitError::Unsupported { needs, .. }) => {
            let why = format!("it needs ZooKeeper {needs}, and assume_release names an older one");
            TransportError::Refused(ErrorKind::Unsupported, Some(why))
        }
        Kind::Submit(_) => TransportError::Later(ErrorKind::Throttled),
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
        // The session is over.
        Code::SESSION_CLOSED_REQUIRE_SASL_AUTH => ErrorKind::AuthRequired,
        Code::INVALID_ACL => ErrorKind::InvalidAcl,
        Code::QUOTA_EXCEEDED => ErrorKind::QuotaExceeded,
        Code::NOT_READ_ONLY => ErrorKind::ReadOnlyServer,
        Code::UNIMPLEMENTED => {
            let why = "the server is too old for it; assume_release is for such servers".to_owned();
            return TransportError::Refused(ErrorKind::Unsupported, Some(why));
        }
        Code::RECONFIG_DISABLED => ErrorKind::Unsupported,
        Code::THROTTLED_OP => return TransportError::Later(ErrorKind::Throttled),
        Code::SESSION_MOVED => return TransportError::Later(ErrorKind::SessionMoved),
        Code::SESSION_EXPIRED => return TransportError::Ended(SessionEnd::Expired),
        Code::AUTH_FAILED => return TransportError::Ended(SessionEnd::AuthFailed),
        Code::BAD_ARGUMENTS | Code::MARSHALLING_ERROR | Code::NO_WATCHER => {
            let why = "the server refuses it".to_owned();
            return TransportError::Refused(ErrorKind::InvalidArgument, Some(why));
        }
        Code::EPHEMERAL_ON_LOCAL_SESSION => {
            let why = "a local session owns no ephemeral nodes".to_owned();
            return TransportError::Refused(ErrorKind::InvalidArgument, Some(why));
        }
        code if code.leaves_outcome_unknown() => return TransportError::Server(code.to_string()),
        code => {
            let why = format!("the server refuses it: {code}");
            return TransportError::Refused(ErrorKind::InvalidArgument, Some(why));
        }
    };
    TransportError::Refused(kind, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: i64 = 1;

    fn connected(session_id: i64, epoch: u64, read_only: bool) -> wire::ConnectionState {
        wire::ConnectionState::Connected {
            session_id,
            epoch,
            timeout: Duration::from_secs(40),
            read_only,
        }
    }

    /// Returns the phases and breaks after these states.
    fn links(states: &[wire::ConnectionState]) -> Vec<(Phase, u64)> {
        let mut link = Link {
            phase: Phase::Down,
            breaks: 0,
        };
        let mut next = |state| {
            link = next_link(OURS, link, state);
            (link.phase, link.breaks)
        };
        states.iter().map(&mut next).collect()
    }

    const EXPIRED: Phase = Phase::Over(SessionEnd::Expired);
    const LOST: wire::ConnectionState = wire::ConnectionState::Disconnected { why: None };

    #[test]
    fn each_break_is_counted_once() {
        let up = |epoch| connected(1, epoch, false);
        let seen = links(&[up(1), LOST, LOST, up(2), up(5), LOST]);
        let expected = [
            (Phase::Up, 0),
            (Phase::Down, 1),
            (Phase::Down, 1),
            (Phase::Up, 1),
            (Phase::Up, 4),
            (Phase::Down, 5),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_read_only_session_ends_with_its_connection() {
        let read_only = |id, epoch| connected(id, epoch, true);
        assert_eq!(
            links(&[read_only(1, 1), LOST]),
            [(Phase::ReadOnly, 0), (EXPIRED, 1)]
        );
        for next in [connected(2, 2, false), read_only(2, 2), read_only(1, 2)] {
            assert_eq!(links(&[read_only(1, 1), next])[1].0, EXPIRED);
        }
        assert_eq!(
            links(&[read_only(1, 1), read_only(1, 1)])[1],
            (Phase::ReadOnly, 0),
            "nothing has changed"
        );
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

    #[test]
    fn every_code_that_is_a_refusal_is_reported_as_one() {
        let outcome = |code| refused(wire::ErrorCode::new(code).unwrap());
        for (code, why) in [
            (-120, "a local session owns no ephemeral nodes"),
            (-13, "the server refuses it: NewConfigNoQuorum (-13)"),
            (-126, "the server refuses it: error -126"),
            (-999, "the server refuses it: error -999"),
        ] {
            let refusal = TransportError::Refused(ErrorKind::InvalidArgument, Some(why.to_owned()));
            assert_eq!(outcome(code), refusal);
        }
        for code in [-1, -4, -10, -99, -122] {
            assert!(matches!(outcome(code), TransportError::Server(_)), "{code}");
        }
    }

    #[test]
    fn only_what_was_sent_may_be_applied_when_the_session_ends() {
        let end = SessionEnd::Expired;
        let not_sent = TransportError::NotSent(SessionEnd::Expired);
        let submitted = wire::RequestErrorKind::Submit(wire::SubmitError::Over(end));
        assert_eq!(fault(&submitted), not_sent);
        let waiting = wire::RequestErrorKind::NotSent(end);
        assert_eq!(fault(&waiting), not_sent);
        let in_flight = wire::RequestErrorKind::Unknown {
            epoch: 1,
            why: wire::Loss::Over(end),
        };
        let ended = TransportError::Ended(SessionEnd::Expired);
        assert_eq!(fault(&in_flight), ended);
    }
}
