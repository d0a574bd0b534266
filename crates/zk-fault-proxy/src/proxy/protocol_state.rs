//! Decodes the frames of one connection in order, and matches replies to requests.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::event::EventKind;
use super::matching::Direction;
use crate::wire::Request;
use crate::wire::frame::Piece;
use crate::wire::handshake::{Connect, Connected};
use crate::wire::jute::Decoder;
use crate::wire::reply::{NOTIFICATION, ReplyHeader, notified_path};

/// The protocol state of a connection between a client and a server.
#[derive(Debug, Default)]
pub(super) struct ProtocolState {
    /// Of the client's and the server's stream.
    streams: [StreamState; 2],
    /// The session; `None` until the server has granted a new one.
    session: Option<i64>,
    /// Requests without a reply yet, in order.
    pending: VecDeque<Arc<Request>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StreamState {
    /// The first frame has not arrived yet.
    #[default]
    Handshake,
    Established,
    /// The stream does not consist of frames.
    NotZooKeeper,
}

impl ProtocolState {
    /// Returns what a piece is; `None` for more bytes of a long frame, or of a stream without frames.
    pub(super) fn read(&mut self, direction: Direction, piece: &Piece) -> Option<EventKind> {
        match piece {
            Piece::Raw(_) => None,
            Piece::Word(word) => {
                self.set_raw();
                let word = String::from_utf8_lossy(word).into_owned();
                Some(EventKind::FourLetterWord(word))
            }
            Piece::NoFrame(_) => {
                self.streams[direction as usize] = StreamState::NotZooKeeper;
                Some(EventKind::NotUnderstood { direction })
            }
            Piece::Frame(_) | Piece::LongFrame(_) => self.read_frame(direction, piece),
        }
    }

    /// Returns whether this direction has no frames any more.
    pub(super) fn is_raw(&self, direction: Direction) -> bool {
        self.streams[direction as usize] == StreamState::NotZooKeeper
    }

    /// Returns the session, which is known when its client resumes it or the server has granted it.
    pub(super) fn session(&self) -> Option<i64> {
        self.session
    }

    fn read_frame(&mut self, direction: Direction, piece: &Piece) -> Option<EventKind> {
        let payload = piece.payload();
        let decoded = match (direction, self.streams[direction as usize]) {
            (_, StreamState::NotZooKeeper) => return None,
            (Direction::Request, StreamState::Handshake) => self.connect(payload),
            (Direction::Reply, StreamState::Handshake) => self.connected(payload),
            (Direction::Request, StreamState::Established) => self.request(piece),
            (Direction::Reply, StreamState::Established) => self.reply(payload),
        };
        match (&decoded, self.streams[direction as usize]) {
            // A frame that cannot be decoded is not the end: the next one begins after its length.
            (_, StreamState::Established) => {}
            (Some(_), _) => self.streams[direction as usize] = StreamState::Established,
            // Without a handshake neither direction can be decoded.
            (None, _) => self.set_raw(),
        }
        Some(decoded.unwrap_or(EventKind::NotUnderstood { direction }))
    }

    fn connect(&mut self, payload: &[u8]) -> Option<EventKind> {
        let session = Connect::decode(payload).ok()?.session;
        self.session = (session != 0).then_some(session);
        let resumed = self.session.is_some();
        Some(EventKind::Connecting { resumed })
    }

    fn connected(&mut self, payload: &[u8]) -> Option<EventKind> {
        let granted = Connected::decode(payload).ok()?;
        let timeout = u64::try_from(granted.timeout).unwrap_or(0);
        if granted.session == 0 || timeout == 0 {
            return Some(EventKind::SessionRefused);
        }
        let resumed = self.session.replace(granted.session).is_some();
        let timeout = Duration::from_millis(timeout);
        Some(EventKind::Connected { timeout, resumed })
    }

    fn request(&mut self, piece: &Piece) -> Option<EventKind> {
        let request = match piece {
            Piece::LongFrame(_) => Request::decode_header(piece.payload()),
            _ => Request::decode(piece.payload()),
        };
        let request = Arc::new(request.ok()?);
        if self.pending.len() == MOST_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(Arc::clone(&request));
        Some(EventKind::Requested(request))
    }

    fn reply(&mut self, payload: &[u8]) -> Option<EventKind> {
        let mut from = Decoder::new(payload);
        let ReplyHeader { xid, code } = ReplyHeader::decode(&mut from).ok()?;
        if xid == NOTIFICATION {
            let path = notified_path(&mut from).ok()?.into();
            return Some(EventKind::Notified { path });
        }
        // Replies have the order of the requests, except those to auth and SASL, which bypass the server's queue.
        let at = self.pending.iter().position(|request| request.xid == xid)?;
        let request = self.pending.remove(at)?;
        Some(EventKind::Replied { request, code })
    }

    fn set_raw(&mut self) {
        self.streams = [StreamState::NotZooKeeper; 2];
    }
}

/// No client has so many requests in flight; without replies the list must not fill the memory.
const MOST_PENDING: usize = 100_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Op;
    use crate::wire::fixtures::*;
    use crate::wire::frame::wrap;
    use crate::wire::jute::Encoder;

    const UP: Direction = Direction::Request;
    const DOWN: Direction = Direction::Reply;
    const MALFORMED_REQUEST: Option<EventKind> = Some(EventKind::NotUnderstood { direction: UP });
    const MALFORMED_REPLY: Option<EventKind> = Some(EventKind::NotUnderstood { direction: DOWN });

    fn connected() -> ProtocolState {
        let mut protocol = ProtocolState::default();
        let resumed = false;
        assert_eq!(
            protocol.read(UP, &connect(0)),
            Some(EventKind::Connecting { resumed })
        );
        assert_eq!(protocol.session(), None);
        protocol.read(DOWN, &granted(5, 4000));
        protocol
    }

    #[test]
    fn the_handshake_has_session_and_timeout() {
        let mut protocol = ProtocolState::default();
        let resumed = true;
        assert_eq!(
            protocol.read(UP, &connect(5)),
            Some(EventKind::Connecting { resumed })
        );
        assert_eq!(protocol.session(), Some(5));
        let timeout = Duration::from_secs(4);
        assert_eq!(
            protocol.read(DOWN, &granted(5, 4000)),
            Some(EventKind::Connected { timeout, resumed })
        );
    }

    #[test]
    fn a_session_of_zero_is_a_refusal() {
        let mut protocol = ProtocolState::default();
        protocol.read(UP, &connect(0));
        assert_eq!(
            protocol.read(DOWN, &granted(0, 0)),
            Some(EventKind::SessionRefused)
        );
    }

    #[test]
    fn replies_out_of_order_are_matched_to_their_requests() {
        let mut protocol = connected();
        for (xid, op) in [(1, 1), (2, 2), (-4, 100), (-2, 11), (3, 4)] {
            assert!(matches!(
                protocol.read(UP, &request(xid, Op::from_code(op))),
                Some(EventKind::Requested(_))
            ));
        }
        for (xid, op) in [(-4, 100), (1, 1), (2, 2), (-2, 11), (3, 4)] {
            match protocol.read(DOWN, &reply(xid, -110)) {
                Some(EventKind::Replied {
                    request,
                    code: -110,
                }) => assert_eq!((request.xid, request.op), (xid, Op::from_code(op))),
                other => panic!("{other:?} for {xid}"),
            }
        }
        assert_eq!(protocol.read(DOWN, &reply(3, 0)), MALFORMED_REPLY);
    }

    #[test]
    fn each_of_two_pings_in_flight_gets_one_reply() {
        let mut protocol = connected();
        protocol.read(UP, &request(-2, Op::Ping));
        protocol.read(UP, &request(-2, Op::Ping));
        for _ in 0..2 {
            let message = protocol.read(DOWN, &reply(-2, 0));
            assert!(
                matches!(message, Some(EventKind::Replied { request, .. }) if request.op == Op::Ping)
            );
        }
        assert_eq!(protocol.read(DOWN, &reply(-2, 0)), MALFORMED_REPLY);
    }

    #[test]
    fn a_watch_notification_is_not_a_reply() {
        let mut protocol = connected();
        assert_eq!(
            protocol.read(DOWN, &notification()),
            Some(EventKind::Notified { path: "/a".into() })
        );
    }

    #[test]
    fn without_a_handshake_nothing_is_decoded() {
        let mut protocol = ProtocolState::default();
        assert_eq!(protocol.read(UP, &frame(b"hello")), MALFORMED_REQUEST);
        assert!(protocol.is_raw(UP) && protocol.is_raw(DOWN));
        assert_eq!(protocol.read(DOWN, &granted(5, 4000)), None);
    }

    #[test]
    fn frames_after_a_malformed_one_are_decoded() {
        let mut protocol = connected();
        assert_eq!(protocol.read(UP, &frame(b"x")), MALFORMED_REQUEST);
        assert!(!protocol.is_raw(UP));
        assert!(matches!(
            protocol.read(UP, &request(1, Op::Create)),
            Some(EventKind::Requested(_))
        ));
    }

    #[test]
    fn of_a_long_frame_only_the_header_is_decoded() {
        let mut protocol = connected();
        let head = Encoder::default().int(9).int(5).buffer(b"/a").finish();
        let piece = Piece::LongFrame(wrap(&head));
        match protocol.read(UP, &piece) {
            Some(EventKind::Requested(request)) => {
                assert_eq!((request.op, request.paths.len()), (Op::SetData, 0));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            protocol.read(DOWN, &reply(9, 0)),
            Some(EventKind::Replied { .. })
        ));
    }

    proptest! {
        #[test]
        fn no_frames_make_it_panic(frames in prop::collection::vec((any::<bool>(), any::<Vec<u8>>()), 0..8), has_handshake: bool) {
            let mut protocol = if has_handshake { connected() } else { ProtocolState::default() };
            for (up, payload) in frames {
                protocol.read(if up { UP } else { DOWN }, &frame(&payload));
            }
        }
    }
}
