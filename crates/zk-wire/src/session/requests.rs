//! Requests on their way to the server: submitted, taken back, written.
//!
//! Pure: no I/O and no clock.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use super::pending::{Frame, Role};
use super::{Phase, Session, SessionEnd, SubmitError, Ticket};
use crate::chroot;
use crate::proto::{Release, Request};

impl Session {
    /// Submits a request. It is sent after all that were submitted before, on this connection or a later one.
    ///
    /// # Errors
    ///
    /// If it is not accepted, see [`SubmitError`]. It has no outcome then.
    pub fn submit(&mut self, request: &Request) -> Result<Ticket, SubmitError> {
        self.check_accepts()?;
        if let Some((needs, assumed)) = self.lacks(request) {
            return Err(SubmitError::Unsupported { needs, assumed });
        }
        let ticket = Ticket(self.next_ticket);
        let outer = chroot::outer(&self.config.chroot, request);
        let outer = outer.ok_or(SubmitError::NoName)?;
        let frame = Frame::new(&outer, self.next_xid, Role::Caller(ticket));
        let (len, limit) = (frame.payload_len(), self.config.max_request);
        if len > limit {
            return Err(SubmitError::TooLong { len, limit });
        }
        let (requests, bytes) = (self.queue.len(), self.queued_bytes);
        let is_too_much = bytes + len > self.config.max_queued_bytes && requests > 0;
        if requests >= self.config.max_queued || is_too_much {
            return Err(SubmitError::Busy { requests, bytes });
        }
        self.next_ticket += 1;
        self.enqueue(frame);
        Ok(ticket)
    }

    /// Returns which release a request needs, if the servers are taken to run an older one.
    fn lacks(&self, request: &Request) -> Option<(Release, Release)> {
        let needed = request.first_release().zip(self.config.assumed_release);
        needed.filter(|(needs, assumed)| assumed < needs)
    }

    /// Fails if the session is over or being closed.
    pub(super) const fn check_accepts(&self) -> Result<(), SubmitError> {
        match self.phase {
            Phase::Over(end) => Err(SubmitError::Over(end)),
            _ if self.is_closing => Err(SubmitError::Over(SessionEnd::Closed)),
            _ => Ok(()),
        }
    }

    /// Takes back a request that was not sent yet; returns `false` if it may have been.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let at = position_of(&self.queue, ticket);
        let cancelled = at.and_then(|at| self.queue.remove(at));
        self.queued_bytes -= cancelled.as_ref().map_or(0, Frame::payload_len);
        cancelled.is_some()
    }

    /// Forgets the watch that a request has set, so that it fires no more, and removes it from the server if possible.
    pub fn forget_watch(&mut self, ticket: Ticket) {
        if let Some(frame) = self.frame_mut(ticket) {
            // The server has not set it yet.
            frame.is_watch_dropped = true;
            return;
        }
        let Some(removal) = self.watches.forget(ticket) else {
            return;
        };
        let Request::RemoveWatches { path, .. } = &removal else {
            return;
        };
        // A request that sets a watch there again would set it before this removes it.
        let is_needed = |frame: &Frame| frame.watched_path() == Some(path);
        let mut frames = self.queue.iter().chain(&self.outgoing).chain(&self.sent);
        if self.is_closing || frames.any(is_needed) || self.lacks(&removal).is_some() {
            return;
        }
        if let Phase::Up { .. } = self.phase {
            let frame = Frame::new(&removal, self.next_xid, Role::Internal);
            self.enqueue(frame);
        }
    }

    /// Returns whether the watch that a request has set is still there.
    pub fn has_watch(&self, ticket: Ticket) -> bool {
        self.watches.has(ticket)
    }

    /// Returns what is to be written now, in order.
    pub fn transmit(&mut self) -> impl Iterator<Item = &[u8]> {
        self.admit();
        let mut skipped = self.written;
        let frames = self.outgoing.iter();
        frames.map(move |frame| &frame.bytes[std::mem::take(&mut skipped)..])
    }

    /// Records that this many bytes of [`transmit`](Self::transmit) are written.
    pub fn transmitted(&mut self, bytes: usize, now: Duration) {
        if bytes > 0 {
            self.last_sent = now;
        }
        self.written += bytes;
        while let Some(first) = self.outgoing.front() {
            let len = first.bytes.len();
            if self.written < len {
                break;
            }
            self.written -= len;
            let sent = self.outgoing.pop_front();
            // The handshake's reply has no number, and is not waited for here.
            self.sent.extend(sent.filter(|frame| !frame.is_handshake()));
        }
    }

    /// Returns a request without a reply.
    fn frame_mut(&mut self, ticket: Ticket) -> Option<&mut Frame> {
        let queues = [&mut self.queue, &mut self.outgoing, &mut self.sent];
        queues.into_iter().find_map(|frames| {
            let at = position_of(frames, ticket)?;
            frames.get_mut(at)
        })
    }

    pub(super) fn enqueue(&mut self, frame: Frame) {
        self.next_xid = self.next_xid.next();
        self.queued_bytes += frame.payload_len();
        self.queue.push_back(frame);
    }

    /// Moves queued requests to the connection, as far as it may have more of them.
    fn admit(&mut self) {
        let Phase::Up { .. } = &self.phase else {
            return;
        };
        if self.authentication.is_exchanging() || self.moves_to.is_some() {
            return;
        }
        while self.outgoing.len() + self.sent.len() < self.config.max_in_flight {
            let Some(frame) = self.queue.pop_front() else {
                return;
            };
            self.queued_bytes -= frame.payload_len();
            self.outgoing.push_back(frame);
        }
    }
}

/// Returns the place of a request. Tickets grow in each queue; between them are requests without one.
fn position_of(frames: &VecDeque<Frame>, ticket: Ticket) -> Option<usize> {
    let (mut low, mut high) = (0, frames.len());
    while low < high {
        let middle = low.midpoint(high);
        let mut with_ticket = (middle..high).map_while(|at| Some((at, frames.get(at)?.ticket())));
        let Some((at, found)) = with_ticket.find_map(|(at, found)| Some((at, found?))) else {
            high = middle;
            continue;
        };
        match found.cmp(&ticket) {
            Ordering::Equal => return Some(at),
            Ordering::Less => low = at + 1,
            Ordering::Greater => high = middle,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Xid;

    #[test]
    fn a_request_is_found_among_those_with_and_without_tickets() {
        // Each bit says whether the request at its place has a ticket.
        for having in 0..1_u32 << 9 {
            let is_having = |at: u32| having & (1 << at) != 0;
            let frames: VecDeque<Frame> = (0..9)
                .map(|at| {
                    let ticket = Ticket(u64::from(at) * 2);
                    let role = if is_having(at) {
                        Role::Caller(ticket)
                    } else {
                        Role::Internal
                    };
                    Frame::new(&Request::WhoAmI, Xid::FIRST, role)
                })
                .collect();
            for ticket in 0..20 {
                let found = position_of(&frames, Ticket(ticket));
                let expected = frames
                    .iter()
                    .position(|frame| frame.ticket() == Some(Ticket(ticket)));
                assert_eq!(found, expected, "{having:b} {ticket}");
            }
        }
    }
}
