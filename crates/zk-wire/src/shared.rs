//! What the handles of a client and its driver share: the session, and the callers that wait for its events.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::driver::Stream;
use crate::host_provider::HostProvider;
use crate::proto::{ErrorCode, WatchEvent};
use crate::session::{Event, Host, Loss, Outcome, Server, Session, SessionEnd, Ticket};

/// The connection of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers decide by each of these")]
pub enum ConnectionState {
    /// There is none yet, or none any more.
    Disconnected {
        /// Why the last one was lost; `None` before the first one.
        why: Option<Loss>,
    },
    /// Requests are sent.
    Connected {
        /// The session id. It changes when a session that only read-only servers knew gets a writable one.
        session_id: i64,
        /// The number of the connection; each one has a higher number than those before.
        epoch: u64,
        /// The session timeout that is in force.
        timeout: Duration,
        /// Whether the server is cut off from the quorum: it answers reads, and refuses writes with
        /// [`NOT_READ_ONLY`](ErrorCode::NOT_READ_ONLY).
        read_only: bool,
    },
    /// The session is over.
    Over(SessionEnd),
}

/// What the handles and the driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Wakes the driver.
    pub(crate) wake_driver: Notify,
    /// The session's moments are durations since this.
    start: Instant,
}

pub(crate) struct Inner {
    pub(crate) session: Session,
    pub(crate) answers: HashMap<Ticket, oneshot::Sender<Outcome>>,
    pub(crate) watches: HashMap<Ticket, mpsc::UnboundedSender<(WatchEvent, u64)>>,
    /// A connection that was set aside and is the session's now, with its number, until the driver takes it.
    pub(crate) granted: Option<(u64, Stream)>,
    /// Returns the hosts whose addresses are looked up.
    pub(crate) provider: Arc<dyn HostProvider>,
    /// The hosts that are looked up next, instead of those of the provider.
    pub(crate) replaced_hosts: Option<Vec<Host>>,
    state: watch::Sender<ConnectionState>,
}

impl Shared {
    /// Returns what is shared of a session, and a receiver of its states.
    pub(crate) fn new(
        session: Session,
        provider: Arc<dyn HostProvider>,
    ) -> (Arc<Self>, watch::Receiver<ConnectionState>) {
        let (state, states) = watch::channel(ConnectionState::Disconnected { why: None });
        let shared = Self {
            inner: Mutex::new(Inner {
                session,
                answers: HashMap::new(),
                watches: HashMap::new(),
                granted: None,
                provider,
                replaced_hosts: None,
                state,
            }),
            wake_driver: Notify::new(),
            start: Instant::now(),
        };
        (Arc::new(shared), states)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present moment.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns a moment of the session as one of the clock.
    pub(crate) fn instant(&self, moment: Duration) -> Instant {
        self.start + moment
    }

    /// Ends the session because its task ends, and passes on what that means for each request.
    pub(crate) fn abandon(&self) {
        let mut inner = self.lock();
        inner.session.abandon(SessionEnd::RuntimeEnded);
        inner.dispatch();
    }

    pub(crate) fn close(&self) {
        self.lock().session.close();
        self.wake_driver.notify_one();
    }

    /// Closes the session. A session that never had a connection is abandoned instead, so that a saved one can be resumed
    /// again.
    pub(crate) fn last_handle_dropped(&self) {
        let mut inner = self.lock();
        if inner.session.epoch() == 0 && !inner.session.is_closing() {
            inner.session.abandon(SessionEnd::Closed);
        } else {
            inner.session.close();
        }
        drop(inner);
        self.wake_driver.notify_one();
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Returns whether the session is served by the connection of this number.
    pub(crate) fn is_served_by(&self, connection: u64) -> bool {
        self.session.wants_connection() && self.session.connection() == connection
    }

    /// Returns the server that the session is connected to, and the number of the connection.
    pub(crate) fn server(&self) -> Option<(Server, u64)> {
        let server = self.session.connected_to()?;
        Some((server.clone(), self.session.epoch()))
    }

    /// Passes the events of the session on.
    pub(crate) fn dispatch(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Answered(ticket, outcome) => {
                    let is_watch = matches!(
                        outcome,
                        Outcome::Done { .. }
                            | Outcome::Refused {
                                code: ErrorCode::NO_NODE,
                                ..
                            }
                    );
                    if !is_watch {
                        self.watches.remove(&ticket);
                    }
                    if let Some(answer) = self.answers.remove(&ticket) {
                        // The caller may be gone.
                        drop(answer.send(outcome));
                    }
                }
                Event::Fired {
                    ticket,
                    event,
                    epoch,
                } => self.fire(ticket, (event, epoch)),
                Event::Connected {
                    epoch,
                    timeout,
                    read_only,
                } => {
                    self.state.send_replace(ConnectionState::Connected {
                        session_id: self.session.id(),
                        epoch,
                        timeout,
                        read_only,
                    });
                }
                Event::Disconnected { why } => {
                    let why = Some(why);
                    self.state
                        .send_replace(ConnectionState::Disconnected { why });
                }
                Event::Over(end) => {
                    self.watches.clear();
                    self.state.send_replace(ConnectionState::Over(end));
                }
            }
        }
    }

    fn fire(&mut self, ticket: Ticket, event: (WatchEvent, u64)) {
        if self.session.has_watch(ticket) {
            if let Some(watch) = self.watches.get(&ticket) {
                drop(watch.send(event));
            }
        } else if let Some(watch) = self.watches.remove(&ticket) {
            drop(watch.send(event));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::config::{Config, SavedSession};

    #[test]
    fn a_session_that_was_not_resumed_yet_is_left_as_it_is() {
        let resumed = || {
            let mut config = Config::new(Duration::from_secs(10));
            config.resume = Some(SavedSession {
                id: 7,
                password: Bytes::from_static(&[7; 16]),
                last_zxid: 0,
            });
            let server = Server {
                host: Host {
                    name: "zk".to_owned(),
                    port: 2181,
                },
                address: ([127, 0, 0, 1], 2181).into(),
            };
            let hosts = Arc::new(vec![server.host.clone()]);
            let session = Session::with_servers(vec![server], config, Duration::ZERO);
            Shared::new(session, hosts)
        };
        let (shared, states) = resumed();
        shared.last_handle_dropped();
        let mut inner = shared.lock();
        inner.dispatch();
        let over = ConnectionState::Over(SessionEnd::Closed);
        assert_eq!(*states.borrow(), over);
        assert_eq!(inner.session.poll_dial(Duration::ZERO), None);
        drop(inner);

        // An explicit close resumes the session in order to close it.
        let (shared, _) = resumed();
        shared.close();
        // Also after its caller is gone.
        shared.last_handle_dropped();
        assert_ne!(shared.lock().session.poll_dial(Duration::ZERO), None);
    }
}
