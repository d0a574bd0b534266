//! Implements the transport of `zk-core` for a simulated session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_core::transport::{
    Authenticating, Credentials, LinkReceiver, Release, Reply, Request, RoleReply, SessionEnd,
    Transport, TransportError,
};
use zk_core::{ErrorKind, SessionId};

use crate::access::Identity;
use crate::driver::Driver;
use crate::release::is_of_3_6;
use crate::world::Content;

/// The transport of one session of an [`Ensemble`](crate::Ensemble).
///
/// Most tests use a [`Session`](zk_core::Session) on top of it; this is for tests of the transport itself.
///
/// # Dropping
///
/// Closes the session, as [`close`](Transport::close) does.
#[derive(Debug)]
pub struct SimTransport {
    driver: Arc<Driver>,
    session: SessionId,
    timeout: Duration,
    requested: Instant,
    link: LinkReceiver,
}

impl SimTransport {
    pub(crate) fn new(
        driver: Arc<Driver>,
        session: SessionId,
        timeout: Duration,
        requested: Instant,
        link: LinkReceiver,
    ) -> Self {
        Self {
            driver,
            session,
            timeout,
            requested,
            link,
        }
    }

    fn send(&self, request: Request, deadline: Option<Instant>) -> Reply {
        if self.assumed_release().is_some() && is_of_3_6(&request) {
            let refused = TransportError::Refused(ErrorKind::Unsupported, None);
            return Box::pin(std::future::ready(Err(refused).into()));
        }
        let driver = Arc::clone(&self.driver);
        let session = self.session;
        Box::pin(async move {
            let (job, mut answer) = driver.submit(session, Content::Request(request));
            // An unanswered request must not keep the ensemble alive.
            let ensemble = Arc::downgrade(&driver);
            drop(driver);
            let closed = || Err(TransportError::Ended(SessionEnd::Closed)).into();
            let answered = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline.into(), &mut answer).await,
                None => Ok((&mut answer).await),
            };
            match answered {
                Ok(answer) => answer.unwrap_or_else(|_| closed()),
                Err(_) => match ensemble.upgrade() {
                    Some(driver) if driver.take_back(job) => Err(TransportError::TakenBack).into(),
                    _ => match answer.try_recv() {
                        Ok(answer) => answer,
                        Err(_) => Err(TransportError::Unanswered).into(),
                    },
                },
            }
        })
    }
}

impl Transport for SimTransport {
    fn session_id(&self) -> SessionId {
        self.session
    }

    fn session_timeout(&self) -> Duration {
        self.timeout
    }

    fn requested(&self) -> Option<Instant> {
        Some(self.requested)
    }

    fn link(&self) -> LinkReceiver {
        self.link.clone()
    }

    fn broken(&self) -> Option<Instant> {
        self.driver.broken(self.session)
    }

    fn assumed_release(&self) -> Option<Release> {
        let is_old = !self
            .driver
            .with(|world| world.settings().persistent_watches);
        is_old.then(|| Release::new(3, 5, 0))
    }

    fn draw(&self) -> Option<u64> {
        Some(self.driver.with(|world| world.random().u64(..)))
    }

    /// Adds a user of the scheme `digest`, at once; other schemes are refused.
    fn add_auth(&self, credentials: Credentials) -> Authenticating {
        let identified = identity(&credentials).map(|who| {
            self.driver
                .with(|world| world.add_identity(self.session, who));
        });
        Box::pin(std::future::ready(identified))
    }

    /// Adds a user of the scheme `digest`, at once; the others are gone when the connection ends.
    fn replace_auth(&self, credentials: Credentials) -> Authenticating {
        let identified = identity(&credentials).map(|who| {
            self.driver
                .with(|world| world.replace_identities(self.session, who));
        });
        Box::pin(std::future::ready(identified))
    }

    fn submit(&self, request: Request) -> Reply {
        self.send(request, None)
    }

    fn submit_by(&self, request: Request, deadline: Instant) -> Reply {
        self.send(request, Some(deadline))
    }

    fn server_role(&self) -> RoleReply {
        let role = self.driver.with(|world| world.role_of_server(self.session));
        Box::pin(std::future::ready(role))
    }

    fn close(&self) {
        drop(self.driver.submit(self.session, Content::Close));
    }
}

/// Returns who has these credentials.
fn identity(credentials: &Credentials) -> Result<Identity, TransportError> {
    let text = String::from_utf8_lossy(&credentials.data);
    let user = text.split_once(':');
    let user = user.filter(|_| credentials.scheme == "digest");
    let user = user.map(|(user, password)| Identity::digest(user, password));
    user.ok_or_else(|| {
        let why = "simulated servers know the scheme digest only".to_owned();
        TransportError::Refused(ErrorKind::Unsupported, Some(why))
    })
}

impl Drop for SimTransport {
    fn drop(&mut self) {
        self.close();
    }
}
