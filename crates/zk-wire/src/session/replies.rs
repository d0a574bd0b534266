//! What the server sends: replies to requests, and notifications of watches.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};

use super::pending::{Frame, Role};
use super::{Event, Loss, Outcome, Phase, Session, SessionEnd, Ticket};
use crate::chroot;
use crate::proto::{
    DecodeError, ErrorCode, Incoming, Reply, WatchEvent, Xid, rest_of_frame, take_frame,
    take_header,
};

/// A reply that is not read because it is too long.
#[derive(Debug)]
pub(super) struct SkippedReply {
    /// How many of its bytes have not arrived.
    rest: usize,
    /// How long it is, and what was allowed.
    why: DecodeError,
    /// When the connection is given up if it still has not arrived as a whole.
    deadline: Duration,
}

impl Session {
    /// Returns the buffer to which received bytes are appended, before [`received`](Self::received). It has room for the
    /// rest of a frame that has begun to arrive, and for the frames of some small replies.
    pub fn buffer(&mut self) -> &mut BytesMut {
        let rest = rest_of_frame(&self.received, self.config.max_reply).min(MAX_RESERVED);
        if self.received.capacity() - self.received.len() < rest.max(LEAST_ROOM) {
            self.received.reserve(rest.max(ROOM));
        }
        // The memory of a long frame would be used again, and each small value would keep all of it.
        if self.received.is_empty() && self.received.capacity() > MAX_REUSED {
            self.received = BytesMut::with_capacity(ROOM);
        }
        &mut self.received
    }

    /// Handles what was appended to the [`buffer`](Self::buffer).
    pub fn received(&mut self, now: Duration) {
        self.last_received = now;
        // A long reply is a sign of life, too, also before it has arrived as a whole.
        if let Phase::Up { .. } = self.phase {
            self.last_message = now;
        }
        self.take_frames(now);
        self.move_if_idle(now);
    }

    /// Handles the frames that have arrived.
    fn take_frames(&mut self, now: Duration) {
        while self.wants_connection() {
            if self.skip(now) {
                return;
            }
            let is_up = matches!(self.phase, Phase::Up { .. });
            let handled = match take_frame(&mut self.received, self.config.max_reply) {
                Ok(None) => return,
                Ok(Some(payload)) => match &self.phase {
                    Phase::Handshake { server, .. } => self.connected(server.clone(), payload, now),
                    Phase::Up { .. } => self.message(payload),
                    Phase::Waiting { .. } | Phase::Dialing { .. } | Phase::Over(_) => Ok(()),
                },
                Err(DecodeError::TooLong { len, limit }) if is_up && len <= MAX_SKIPPED => {
                    match take_header(&mut self.received) {
                        None => return,
                        Some(header) => self.too_long(header, len, limit, now),
                    }
                }
                Err(error) => Err(Loss::Malformed(error)),
            };
            if let Err(loss) = handled {
                return self.connection_lost(&loss, now);
            }
            if let Phase::Up { .. } = self.phase {
                self.last_message = now;
            }
        }
    }

    /// Skips what has arrived of a reply that is too long; returns whether more of it is to come.
    fn skip(&mut self, now: Duration) -> bool {
        let Some(skipped) = &mut self.skipped else {
            return false;
        };
        let arrived = skipped.rest.min(self.received.len());
        self.received.advance(arrived);
        skipped.rest -= arrived;
        if skipped.rest == 0 {
            self.skipped = None;
            return false;
        }
        if now > skipped.deadline {
            let loss = Loss::Malformed(skipped.why.clone());
            self.connection_lost(&loss, now);
        }
        true
    }

    /// Handles the header of a reply that is too long: the request has its outcome, and the rest is skipped.
    fn too_long(
        &mut self,
        header: Bytes,
        len: usize,
        limit: usize,
        now: Duration,
    ) -> Result<(), Loss> {
        let why = DecodeError::TooLong { len, limit };
        self.skipped = Some(SkippedReply {
            rest: len - header.len(),
            why: why.clone(),
            deadline: now + LONGEST_SKIP,
        });
        match Incoming::decode(header) {
            Ok(Incoming::Reply { xid, zxid, body }) => {
                self.reply(xid, zxid, body.map(|_| Err(why)))
            }
            // Notifications are short.
            Ok(Incoming::Notification(_) | Incoming::Unnamed(_)) | Err(_) => {
                Err(Loss::Malformed(why))
            }
        }
    }

    fn message(&mut self, payload: Bytes) -> Result<(), Loss> {
        match Incoming::decode(payload).map_err(Loss::Malformed)? {
            Incoming::Notification(event) => {
                self.notify(&event);
                Ok(())
            }
            Incoming::Unnamed(_) => Ok(()),
            Incoming::Reply { xid, zxid, body } => self.reply(xid, zxid, body.map(Ok)),
        }
    }

    /// Handles a reply: why the request was refused, or its body, or why that cannot be read.
    fn reply(
        &mut self,
        xid: Xid,
        zxid: i64,
        body: Result<Result<Bytes, DecodeError>, ErrorCode>,
    ) -> Result<(), Loss> {
        // Replies come in the order of the requests, but those to pings and credentials may overtake. So may that to a
        // request which the server does not know, and to a write on a read-only one (`ReadOnlyRequestProcessor`).
        let is_early_refusal = matches!(
            body,
            Err(ErrorCode::UNIMPLEMENTED | ErrorCode::NOT_READ_ONLY)
        );
        let may_overtake = xid.get() < 0 || is_early_refusal;
        let at = self
            .sent
            .iter()
            .position(|frame| frame.xid == xid || (!may_overtake && frame.xid.get() > 0));
        let Some((at, frame)) = at.and_then(|at| Some((at, self.sent.get(at)?))) else {
            let (got, wanted) = (xid.get(), None);
            return Err(Loss::OutOfOrder { got, wanted });
        };
        if frame.xid != xid {
            let (got, wanted) = (xid.get(), Some(frame.xid.get()));
            return Err(Loss::OutOfOrder { got, wanted });
        }
        self.last_zxid = self.last_zxid.max(zxid);
        let decode = |body| chroot::inner(&self.config.chroot, Reply::decode(frame.shape, body)?);
        let reply = body.map(|body| body.and_then(decode));
        let Some(frame) = self.sent.remove(at) else {
            return Ok(());
        };
        let reply = match (reply, frame.role()) {
            (Ok(Ok(reply)), _) => Ok(reply),
            (Err(code), _) => Err(code),
            (Ok(Err(why)), Role::Caller(ticket)) => {
                self.unreadable(ticket, frame, zxid, why);
                return Ok(());
            }
            (Ok(Err(why)), _) => return Err(Loss::Malformed(why)),
        };
        // A server that does not know an operation of a transaction cannot decode it.
        if !matches!(
            reply,
            Err(ErrorCode::UNIMPLEMENTED | ErrorCode::MARSHALLING_ERROR)
        ) {
            self.shown_release = self.shown_release.max(frame.needs);
        }
        let needs_sasl = matches!(reply, Err(ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH));
        match frame.role() {
            Role::Sasl => return self.sasl_replied(reply),
            Role::Credentials(at) => return self.credentials_replied(at, zxid, reply),
            Role::Caller(ticket) => {
                let outcome = self.outcome(ticket, frame, zxid, reply);
                self.events.push_back(Event::Answered(ticket, outcome));
            }
            Role::Handshake | Role::Internal if frame.is_close() => match reply {
                Ok(_) => self.end(SessionEnd::Closed),
                Err(ErrorCode::SESSION_EXPIRED) => self.end(SessionEnd::Expired),
                Err(ErrorCode::AUTH_FAILED) => self.end(SessionEnd::AuthFailed),
                Err(_) if needs_sasl => self.end(SessionEnd::AuthRequired),
                // The next connection sends it again.
                Err(code) => {
                    self.outgoing.push_back(frame);
                    return Err(Loss::CloseRefused(code));
                }
            },
            Role::Handshake | Role::Internal => match reply {
                _ if needs_sasl => {}
                // The next connection sets the watches again.
                Err(code) if xid == Xid::SET_WATCHES => return Err(Loss::WatchesRefused(code)),
                _ => self.record_success(),
            },
        }
        // Every later connection would be refused, too.
        if needs_sasl && !matches!(self.phase, Phase::Over(_)) {
            self.end(SessionEnd::AuthRequired);
        }
        Ok(())
    }

    /// Ends a request whose reply cannot be read. The caller gets no watch, so one that was set is removed.
    fn unreadable(&mut self, ticket: Ticket, frame: Frame, zxid: i64, why: DecodeError) {
        let epoch = self.epoch;
        if let (Some(kind), Some(path)) = (frame.watch_kind(None), frame.into_watched_path()) {
            self.watches.add(ticket, path, kind);
            self.forget_watch(ticket);
        }
        let outcome = Outcome::Unreadable { why, zxid, epoch };
        self.events.push_back(Event::Answered(ticket, outcome));
    }

    /// Returns the outcome of an answered request, and adds the watch that it has set.
    fn outcome(
        &mut self,
        ticket: Ticket,
        frame: Frame,
        zxid: i64,
        reply: Result<Reply, ErrorCode>,
    ) -> Outcome {
        let epoch = self.epoch;
        let kind = frame.watch_kind(reply.as_ref().err().copied());
        let is_watch_dropped = frame.is_watch_dropped;
        if let (Some(kind), Some(path)) = (kind, frame.into_watched_path()) {
            self.watches.add(ticket, path, kind);
            if is_watch_dropped {
                self.forget_watch(ticket);
            }
        }
        match reply {
            Ok(reply) => Outcome::Done { reply, zxid, epoch },
            Err(code) if code.leaves_outcome_unknown() => {
                let why = Loss::ServerFailed(code);
                Outcome::Unknown { epoch, why }
            }
            Err(code) => Outcome::Refused { code, zxid, epoch },
        }
    }

    fn notify(&mut self, event: &WatchEvent) {
        let Some(kind) = event.kind else { return };
        for ticket in self.watches.fire(&event.path, kind) {
            self.events.push_back(Event::Fired {
                ticket,
                event: chroot::inner_event(&self.config.chroot, event),
                epoch: self.epoch,
            });
        }
    }
}

/// How much room the buffer for received bytes has at least. A read that does not fill it has emptied the socket, so that
/// no second read is needed to learn that.
const LEAST_ROOM: usize = 4 << 10;
/// How much room it gets: many replies are taken from it before it needs more.
const ROOM: usize = 8 << 10;
/// The longest buffer that is kept for reuse.
const MAX_REUSED: usize = 256 << 10;
/// The most room that is reserved at once, whatever length a frame announces.
const MAX_RESERVED: usize = 1 << 20;
/// The longest reply that is skipped, in bytes. One that is longer costs the connection.
const MAX_SKIPPED: usize = 256 << 20;
/// How long a reply may take to be skipped.
const LONGEST_SKIP: Duration = Duration::from_secs(60);
