//! How the session proves on each connection who it is: with a SASL mechanism, then with credentials.
//!
//! Pure: no I/O and no clock.

use bytes::Bytes;

use super::pending::{Frame, Role};
use super::{Event, Host, Loss, Outcome, Phase, Session, SessionEnd, SubmitError, Ticket};
use crate::proto::{Credentials, ErrorCode, Reply, Request, SaslToken, Xid};
use crate::sasl::{Exchange, Nonces, Step};

/// What the session proves its identity with.
pub(super) struct Authentication {
    /// In the order in which they are sent.
    credentials: Vec<AddedCredentials>,
    /// The number of the next credentials.
    next_number: usize,
    /// Runs on a connection until the server has accepted the SASL mechanism. Nothing else is sent meanwhile.
    exchange: Option<Box<dyn Exchange>>,
    /// The first token of the exchange, until the session is granted.
    first_token: Option<Vec<u8>>,
    nonces: Nonces,
}

/// Credentials, and the callers that wait until a server has accepted them.
struct AddedCredentials {
    number: usize,
    credentials: Credentials,
    waiting: Vec<Ticket>,
}

impl Authentication {
    pub(super) fn new(credentials: Vec<Credentials>, nonces: Nonces) -> Self {
        let mut authentication = Self {
            credentials: Vec::new(),
            next_number: 0,
            exchange: None,
            first_token: None,
            nonces,
        };
        for credentials in credentials {
            authentication.add(credentials, Vec::new());
        }
        authentication
    }

    fn add(&mut self, credentials: Credentials, waiting: Vec<Ticket>) -> Frame {
        let added = AddedCredentials {
            number: self.next_number,
            credentials,
            waiting,
        };
        self.next_number += 1;
        let frame = added.frame();
        self.credentials.push(added);
        frame
    }

    /// Removes all credentials of a scheme, and returns those that wait until they are accepted.
    fn remove(&mut self, scheme: &str) -> Vec<Ticket> {
        let is_removed = |added: &mut AddedCredentials| added.credentials.scheme == scheme;
        let removed = self.credentials.extract_if(.., is_removed);
        removed.flat_map(|added| added.waiting).collect()
    }

    /// Returns whether a SASL exchange runs.
    pub(super) const fn is_exchanging(&self) -> bool {
        self.exchange.is_some()
    }

    /// Forgets the exchange of a connection that is lost.
    pub(super) fn disconnected(&mut self) {
        self.exchange = None;
        self.first_token = None;
    }

    /// Returns those that wait until their credentials are accepted, and forgets them.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Ticket> {
        let credentials = self.credentials.iter_mut();
        credentials.flat_map(|added| std::mem::take(&mut added.waiting))
    }
}

impl AddedCredentials {
    fn frame(&self) -> Frame {
        let auth = Request::Auth(self.credentials.clone());
        Frame::new(&auth, Xid::AUTH, Role::Credentials(self.number))
    }
}

impl Session {
    /// Adds credentials: they are sent now and on every later connection. The ticket has an outcome once a server has
    /// accepted or refused them, on whichever connection; if it refuses them, the session is over.
    ///
    /// They may overtake requests that wait to be sent.
    ///
    /// # Errors
    ///
    /// If they are not accepted, see [`SubmitError`].
    pub fn add_auth(&mut self, credentials: Credentials) -> Result<Ticket, SubmitError> {
        self.authenticate_as(credentials, None)
    }

    /// Adds credentials as [`add_auth`](Self::add_auth) does, and sends those of the same scheme that were added before
    /// on no later connection. If no server has accepted those yet, they have the outcome of the new ones.
    ///
    /// The server may know the session by the replaced ones, too, until the connection ends.
    ///
    /// # Errors
    ///
    /// As [`add_auth`](Self::add_auth); nothing is replaced then.
    pub fn replace_auth(&mut self, credentials: Credentials) -> Result<Ticket, SubmitError> {
        let scheme = credentials.scheme.clone();
        self.authenticate_as(credentials, Some(&scheme))
    }

    fn authenticate_as(
        &mut self,
        credentials: Credentials,
        replaced: Option<&str>,
    ) -> Result<Ticket, SubmitError> {
        self.check_accepts()?;
        let request = Request::Auth(credentials.clone());
        let frame = Frame::new(&request, Xid::AUTH, Role::Internal);
        let (len, limit) = (frame.payload_len(), self.config.max_request);
        if len > limit {
            return Err(SubmitError::TooLong { len, limit });
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let mut waiting =
            replaced.map_or_else(Vec::new, |scheme| self.authentication.remove(scheme));
        waiting.push(ticket);
        let frame = self.authentication.add(credentials, waiting);
        // Otherwise they are sent after the next handshake, or after the exchange that runs.
        if matches!(self.phase, Phase::Up { .. }) && !self.authentication.is_exchanging() {
            self.outgoing.push_back(frame);
        }
        Ok(ticket)
    }

    /// Starts a SASL exchange for a new connection, if there is a mechanism.
    pub(super) fn start_sasl(&mut self, host: &Host) -> Result<(), Loss> {
        let Some(mechanism) = &self.config.sasl else {
            return Ok(());
        };
        let nonce = self.authentication.nonces.next();
        let started = nonce.and_then(|nonce| mechanism.start(host, nonce));
        let (exchange, token) = started.map_err(|why| Loss::Sasl {
            host: host.clone(),
            why,
        })?;
        self.authentication.exchange = Some(exchange);
        self.authentication.first_token = Some(token);
        Ok(())
    }

    /// Sends what follows on the handshake: the first token of the SASL exchange, or else the credentials and watches.
    ///
    /// Not earlier: a server that uses Netty may reply to tokens and credentials before it replies to the handshake, if a
    /// follower's leader confirms the session while the handshake is still being processed
    /// (`NettyServerCnxn.receiveMessage`, 3.9.6). The reply to a token would then look like an expired session.
    pub(super) fn authenticate(&mut self) {
        match self.authentication.first_token.take() {
            Some(token) => self.send_token(token),
            None => self.send_credentials_and_watches(),
        }
    }

    /// Handles the reply to a token.
    pub(super) fn sasl_replied(&mut self, reply: Result<Reply, ErrorCode>) -> Result<(), Loss> {
        let token = match reply {
            Ok(Reply::Token(SaslToken(token))) => token,
            // A frame with a token has a reply with one.
            Ok(_) => Bytes::new(),
            Err(ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH) => {
                self.end(SessionEnd::AuthFailed);
                return Ok(());
            }
            Err(code) => return Err(Loss::CredentialsNotChecked(code)),
        };
        let Some(exchange) = &mut self.authentication.exchange else {
            return Ok(());
        };
        let host = match &self.phase {
            Phase::Up { server, .. } | Phase::Handshake { server, .. } => server.host.clone(),
            _ => return Ok(()),
        };
        match exchange
            .step(&token)
            .map_err(|why| Loss::Sasl { host, why })?
        {
            Step::Send(token) => self.send_token(token),
            Step::Done => {
                self.authentication.exchange = None;
                if let Phase::Up { .. } = &self.phase {
                    self.send_credentials_and_watches();
                }
                self.report_connected();
                self.record_success();
            }
        }
        Ok(())
    }

    /// Handles the reply to credentials.
    pub(super) fn credentials_replied(
        &mut self,
        number: usize,
        zxid: i64,
        reply: Result<Reply, ErrorCode>,
    ) -> Result<(), Loss> {
        let epoch = self.epoch;
        let (outcome, is_refused) = match reply {
            Ok(reply) => (Outcome::Done { reply, zxid, epoch }, false),
            Err(code @ ErrorCode::AUTH_FAILED) => (Outcome::Refused { code, zxid, epoch }, true),
            // It says nothing of the credentials; the next connection sends them again.
            Err(code) => return Err(Loss::CredentialsNotChecked(code)),
        };
        let mut added = self.authentication.credentials.iter_mut();
        // There are none with this number if they were replaced.
        if let Some(added) = added.find(|added| added.number == number) {
            for ticket in std::mem::take(&mut added.waiting) {
                let outcome = outcome.clone();
                self.events.push_back(Event::Answered(ticket, outcome));
            }
        }
        if is_refused {
            self.end(SessionEnd::AuthFailed);
        } else {
            self.report_connected();
        }
        Ok(())
    }

    fn send_token(&mut self, token: Vec<u8>) {
        let token = Request::Sasl(SaslToken(token.into()));
        let frame = Frame::new(&token, self.next_xid, Role::Sasl);
        self.next_xid = self.next_xid.next();
        self.outgoing.push_back(frame);
    }

    pub(super) fn send_credentials(&mut self) {
        let credentials = self.authentication.credentials.iter();
        self.outgoing
            .extend(credentials.map(AddedCredentials::frame));
    }
}
