//! How the session proves on each connection who it is: with a SASL mechanism, then with credentials.
//!
//! Pure: no I/O and no clock.

use bytes::Bytes;

use super::pending::{Frame, Role};
use super::{Event, Host, Loss, Outcome, Phase, Server, Session, SessionEnd, SubmitError, Ticket};
use crate::proto::{Credentials, ErrorCode, Reply, Request, SaslToken, Xid};
use crate::sasl::{Exchange, Step};

/// What the session proves its identity with.
pub(super) struct Authentication {
    credentials: Vec<AddedCredentials>,
    /// Runs on a connection until the server has accepted the SASL mechanism. Nothing else is sent meanwhile.
    exchange: Option<Box<dyn Exchange>>,
    /// The first token of the exchange, until the session is granted.
    first_token: Option<Vec<u8>>,
    nonces: fastrand::Rng,
}

/// Credentials, and the caller that waits until a server has accepted them.
struct AddedCredentials {
    credentials: Credentials,
    waiting: Option<Ticket>,
}

impl Authentication {
    pub(super) fn new(credentials: Vec<Credentials>, seed: u64) -> Self {
        let credentials = credentials.into_iter().map(|credentials| AddedCredentials {
            credentials,
            waiting: None,
        });
        Self {
            credentials: credentials.collect(),
            exchange: None,
            first_token: None,
            // The hosts are shuffled with the seed itself.
            nonces: fastrand::Rng::with_seed(seed.rotate_left(32)),
        }
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
        credentials.filter_map(|added| added.waiting.take())
    }

    fn frame(&self, at: usize) -> Frame {
        let auth = Request::Auth(self.credentials[at].credentials.clone());
        Frame::new(&auth, Xid::AUTH, Role::Credentials(at))
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
        self.check_accepts()?;
        let at = self.authentication.credentials.len();
        let ticket = Ticket(self.next_ticket);
        self.authentication.credentials.push(AddedCredentials {
            credentials,
            waiting: Some(ticket),
        });
        let frame = self.authentication.frame(at);
        let (len, limit) = (frame.payload_len(), self.config.max_request);
        if len > limit {
            self.authentication.credentials.pop();
            return Err(SubmitError::TooLong { len, limit });
        }
        self.next_ticket += 1;
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
        let nonce = self.authentication.nonces.u128(..).to_be_bytes();
        let started = mechanism.start(host, nonce);
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
    pub(super) fn authenticate(&mut self, server: &Server) {
        match self.authentication.first_token.take() {
            Some(token) => self.send_token(token),
            None => self.send_credentials_and_watches(server),
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
                if let Phase::Up { server, .. } = &self.phase {
                    let server = server.clone();
                    self.send_credentials_and_watches(&server);
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
        at: usize,
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
        if let Some(ticket) = self.authentication.credentials[at].waiting.take() {
            self.events.push_back(Event::Answered(ticket, outcome));
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
        let credentials = 0..self.authentication.credentials.len();
        let frames = credentials.map(|at| self.authentication.frame(at));
        self.outgoing.extend(frames);
    }
}
