//! One session of a client crate as a [`Transport`].

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use super::LinkReceiver;
use super::Reply;
use super::Request;
use super::Response;
use super::SessionEnd;
use super::Transport;
use super::TransportError;
use crate::stat::SessionId;

/// A handle of a session in a client crate. The session ends when the last clone is dropped.
pub(super) trait Client: Clone + fmt::Debug + Send + Sync + 'static {
    /// Sends a request at the first poll, and converts the reply.
    fn answer(
        self,
        request: Request,
        link: LinkReceiver,
    ) -> impl Future<Output = Result<Response, TransportError>> + Send;

    /// Starts to close the session, after the requests already sent.
    fn close_session(self);
}

/// One session of a client crate.
#[derive(Debug)]
pub(crate) struct ClientSession<C> {
    /// Taken by [`close`](Transport::close).
    pub(super) client: Mutex<Option<C>>,
    pub(super) link: LinkReceiver,
    pub(super) broken: Arc<Mutex<Option<Instant>>>,
    pub(super) session_id: SessionId,
    pub(super) session_timeout: Duration,
}

impl<C: Client> Transport for ClientSession<C> {
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

    fn submit(&self, request: Request) -> Reply {
        let client = self.client.lock();
        let client = client.unwrap_or_else(PoisonError::into_inner).clone();
        let link = self.link();
        Box::pin(async move {
            match client {
                None => Err(TransportError::Ended(SessionEnd::Closed)),
                Some(client) => client.answer(request, link).await,
            }
        })
    }

    fn close(&self) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = client.take() {
            client.close_session();
        }
    }
}
