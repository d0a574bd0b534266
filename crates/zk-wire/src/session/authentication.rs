//! How the session proves on each connection who it is: with a SASL mechanism, then with credentials.
//!
//! Pure: no I/O and no clock.

use bytes::Bytes;

use super::Host;
use super::Loss;
use super::Phase;
use super::Session;
use super::SessionEnd;
use super::pending::Frame;
use super::pending::Role;
use crate::proto::Credentials;
use crate::proto::ErrorCode;
use crate::proto::Reply;
use crate::proto::Request;
use crate::proto::SaslToken;
use crate::proto::Xid;
use crate::sasl::Exchange;
use crate::sasl::Step;

/// What the session proves its identity with.
pub(super) struct Authentication {
    credentials: Vec<Credentials>,
    /// Runs on a connection until the server has accepted the SASL mechanism. Nothing else is sent meanwhile.
    exchange: Option<Box<dyn Exchange>>,
    nonces: fastrand::Rng,
}

impl Authentication {
    pub(super) fn new(credentials: Vec<Credentials>, seed: u64) -> Self {
        Self {
            credentials,
            exchange: None,
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
    }
}

impl Session {
    /// Begins what is sent after the handshake: a SASL exchange if there is a mechanism, or else what follows on one.
    pub(super) fn authenticate(&mut self, host: &Host) -> Result<(), Loss> {
        let Some(mechanism) = &self.config.sasl else {
            self.send_credentials_and_watches(host);
            return Ok(());
        };
        let nonce = self.authentication.nonces.u128(..).to_be_bytes();
        let started = mechanism.start(host, nonce);
        let (exchange, token) = started.map_err(Loss::Sasl)?;
        self.authentication.exchange = Some(exchange);
        self.send_token(token);
        Ok(())
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
        match exchange.step(&token).map_err(Loss::Sasl)? {
            Step::Send(token) => self.send_token(token),
            Step::Done => {
                self.authentication.exchange = None;
                if let Phase::Up { host, .. } = &self.phase {
                    let host = host.clone();
                    self.send_credentials_and_watches(&host);
                }
                self.report_connected();
                self.settle();
            }
        }
        Ok(())
    }

    /// Handles the reply to credentials.
    pub(super) fn credentials_replied(&mut self, refusal: Option<ErrorCode>) -> Result<(), Loss> {
        match refusal {
            None => self.report_connected(),
            Some(ErrorCode::AUTH_FAILED) => self.end(SessionEnd::AuthFailed),
            // It says nothing of the credentials; the next connection sends them again.
            Some(code) => return Err(Loss::CredentialsNotChecked(code)),
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
        let frames = credentials.map(|credentials| {
            let auth = Request::Auth(credentials.clone());
            Frame::new(&auth, Xid::AUTH, Role::Credentials)
        });
        self.outgoing.extend(frames);
    }
}
