//! Decodes the frames of one connection in order, and matches replies to requests.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::matching::Direction;
use crate::wire::Request;
use crate::wire::frame::Piece;
use crate::wire::handshake::Connect;
use crate::wire::handshake::Connected;
use crate::wire::jute::DecodeError;
use crate::wire::jute::Decoder;
use crate::wire::reply::NOTIFICATION;
use crate::wire::reply::ReplyHeader;
use crate::wire::reply::notified_path;

/// The protocol state of a connection between a client and a server.
#[derive(Debug, Default)]
pub(super) struct ProtocolState {
    client: StreamState,
    server: StreamState,
    /// Whether the client resumes a session.
    resumes: bool,
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

/// A decoded piece of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Connect {
        session: Option<i64>,
    },
    Connected {
        session: i64,
        timeout: Duration,
        resumed: bool,
    },
    SessionRefused,
    Request(Arc<Request>),
    Reply {
        request: Arc<Request>,
        code: i32,
    },
    Notification(Arc<str>),
    Word(String),
    /// More bytes of a long frame, or of a stream without frames.
    Continuation,
    /// A frame that cannot be decoded, or the beginning of a stream without frames.
    Malformed,
}

impl ProtocolState {
    pub(super) fn read(&mut self, direction: Direction, piece: &Piece) -> Message {
        match piece {
            Piece::Raw(_) => Message::Continuation,
            Piece::Word(word) => {
                self.client = StreamState::NotZooKeeper;
                self.server = StreamState::NotZooKeeper;
                Message::Word(String::from_utf8_lossy(word).into_owned())
            }
            Piece::NoFrame(_) => self.lose(direction),
            Piece::Frame(_) | Piece::LongFrame(_) => self.read_frame(direction, piece),
        }
    }

    /// Returns whether this direction has no frames any more.
    pub(super) fn is_raw(&self, direction: Direction) -> bool {
        self.side(direction) == StreamState::NotZooKeeper
    }

    fn read_frame(&mut self, direction: Direction, piece: &Piece) -> Message {
        let payload = piece.payload();
        let message = match (direction, self.side(direction)) {
            (_, StreamState::NotZooKeeper) => return Message::Continuation,
            (Direction::Request, StreamState::Handshake) => self.connect(payload),
            (Direction::Reply, StreamState::Handshake) => self.connected(payload),
            (Direction::Request, StreamState::Established) => return self.request(piece),
            (Direction::Reply, StreamState::Established) => return self.reply(payload),
        };
        let Ok(message) = message else {
            // Without a handshake neither direction can be decoded.
            self.client = StreamState::NotZooKeeper;
            self.server = StreamState::NotZooKeeper;
            return Message::Malformed;
        };
        *self.side_mut(direction) = StreamState::Established;
        message
    }

    fn connect(&mut self, payload: &[u8]) -> Result<Message, DecodeError> {
        let connect = Connect::decode(payload)?;
        self.resumes = connect.session != 0;
        Ok(Message::Connect {
            session: self.resumes.then_some(connect.session),
        })
    }

    fn connected(&mut self, payload: &[u8]) -> Result<Message, DecodeError> {
        let granted = Connected::decode(payload)?;
        let timeout = u64::try_from(granted.timeout).unwrap_or(0);
        if granted.session == 0 || timeout == 0 {
            return Ok(Message::SessionRefused);
        }
        Ok(Message::Connected {
            session: granted.session,
            timeout: Duration::from_millis(timeout),
            resumed: self.resumes,
        })
    }

    /// A frame that cannot be decoded is not the end: the next one begins after its length.
    fn request(&mut self, piece: &Piece) -> Message {
        let request = match piece {
            Piece::LongFrame(_) => Request::decode_header(piece.payload()),
            _ => Request::decode(piece.payload()),
        };
        let Ok(request) = request else {
            return Message::Malformed;
        };
        let request = Arc::new(request);
        if self.pending.len() == MOST_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(Arc::clone(&request));
        Message::Request(request)
    }

    fn reply(&mut self, payload: &[u8]) -> Message {
        let mut from = Decoder::new(payload);
        let Ok(header) = ReplyHeader::decode(&mut from) else {
            return Message::Malformed;
        };
        if header.xid == NOTIFICATION {
            return notified_path(&mut from).map_or(Message::Malformed, |path| {
                Message::Notification(path.into())
            });
        }
        // Replies have the order of the requests, except those to auth and SASL, which bypass the server's queue.
        let found = self
            .pending
            .iter()
            .position(|request| request.xid == header.xid);
        let Some(request) = found.and_then(|at| self.pending.remove(at)) else {
            return Message::Malformed;
        };
        Message::Reply {
            request,
            code: header.code,
        }
    }

    fn lose(&mut self, direction: Direction) -> Message {
        *self.side_mut(direction) = StreamState::NotZooKeeper;
        Message::Malformed
    }

    fn side(&self, direction: Direction) -> StreamState {
        match direction {
            Direction::Request => self.client,
            Direction::Reply => self.server,
        }
    }

    fn side_mut(&mut self, direction: Direction) -> &mut StreamState {
        match direction {
            Direction::Request => &mut self.client,
            Direction::Reply => &mut self.server,
        }
    }
}

/// No client has so many requests in flight; without replies the list must not fill the memory.
const MOST_PENDING: usize = 100_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Op;
    use crate::wire::frame;
    use crate::wire::handshake;
    use crate::wire::jute::Encoder;

    const UP: Direction = Direction::Request;
    const DOWN: Direction = Direction::Reply;

    fn frame(payload: &[u8]) -> Piece {
        Piece::Frame(frame::wrap(payload))
    }

    fn granted(session: i64, timeout: i32) -> Piece {
        let payload = Encoder::default()
            .int(0)
            .int(timeout)
            .long(session)
            .buffer(&[7; 16])
            .finish();
        frame(&payload)
    }

    fn request(xid: i32, op: i32) -> Piece {
        frame(&Encoder::default().int(xid).int(op).buffer(b"/a").finish())
    }

    fn reply(xid: i32, code: i32) -> Piece {
        frame(&Encoder::default().int(xid).long(99).int(code).finish())
    }

    fn connected() -> ProtocolState {
        let mut protocol = ProtocolState::default();
        let connect = frame(&handshake::connect(Duration::from_secs(4)));
        assert_eq!(
            protocol.read(UP, &connect),
            Message::Connect { session: None }
        );
        protocol.read(DOWN, &granted(5, 4000));
        protocol
    }

    #[test]
    fn the_handshake_has_session_and_timeout() {
        let mut protocol = ProtocolState::default();
        let mut connect = handshake::connect(Duration::from_secs(4));
        connect[16..24].copy_from_slice(&5_i64.to_be_bytes());
        assert_eq!(
            protocol.read(UP, &frame(&connect)),
            Message::Connect { session: Some(5) }
        );
        assert_eq!(
            protocol.read(DOWN, &granted(5, 4000)),
            Message::Connected {
                session: 5,
                timeout: Duration::from_secs(4),
                resumed: true
            }
        );
    }

    #[test]
    fn a_session_of_zero_is_a_refusal() {
        let mut protocol = ProtocolState::default();
        protocol.read(UP, &frame(&handshake::connect(Duration::from_secs(4))));
        assert_eq!(protocol.read(DOWN, &granted(0, 0)), Message::SessionRefused);
    }

    #[test]
    fn replies_out_of_order_are_matched_to_their_requests() {
        let mut protocol = connected();
        for (xid, op) in [(1, 1), (2, 2), (-4, 100), (-2, 11), (3, 4)] {
            assert!(matches!(
                protocol.read(UP, &request(xid, op)),
                Message::Request(_)
            ));
        }
        for (xid, op) in [(-4, 100), (1, 1), (2, 2), (-2, 11), (3, 4)] {
            match protocol.read(DOWN, &reply(xid, -110)) {
                Message::Reply {
                    request,
                    code: -110,
                } => assert_eq!((request.xid, request.op), (xid, Op::from_code(op))),
                other => panic!("{other:?} for {xid}"),
            }
        }
        assert_eq!(protocol.read(DOWN, &reply(3, 0)), Message::Malformed);
    }

    #[test]
    fn each_of_two_pings_in_flight_gets_one_reply() {
        let mut protocol = connected();
        protocol.read(UP, &request(-2, 11));
        protocol.read(UP, &request(-2, 11));
        for _ in 0..2 {
            let message = protocol.read(DOWN, &reply(-2, 0));
            assert!(matches!(message, Message::Reply { request, .. } if request.op == Op::Ping));
        }
        assert_eq!(protocol.read(DOWN, &reply(-2, 0)), Message::Malformed);
    }

    #[test]
    fn a_watch_notification_is_not_a_reply() {
        let mut protocol = connected();
        let fired = Encoder::default()
            .int(-1)
            .long(-1)
            .int(0)
            .int(3)
            .int(3)
            .buffer(b"/a")
            .finish();
        assert_eq!(
            protocol.read(DOWN, &frame(&fired)),
            Message::Notification("/a".into())
        );
    }

    #[test]
    fn without_a_handshake_nothing_is_decoded() {
        let mut protocol = ProtocolState::default();
        assert_eq!(protocol.read(UP, &frame(b"hello")), Message::Malformed);
        assert!(protocol.is_raw(UP) && protocol.is_raw(DOWN));
        assert_eq!(
            protocol.read(DOWN, &granted(5, 4000)),
            Message::Continuation
        );
    }

    #[test]
    fn frames_after_a_malformed_one_are_decoded() {
        let mut protocol = connected();
        assert_eq!(protocol.read(UP, &frame(b"x")), Message::Malformed);
        assert!(!protocol.is_raw(UP));
        assert!(matches!(
            protocol.read(UP, &request(1, 1)),
            Message::Request(_)
        ));
    }

    #[test]
    fn of_a_long_frame_only_the_header_is_decoded() {
        let mut protocol = connected();
        let head = Encoder::default().int(9).int(5).buffer(b"/a").finish();
        let piece = Piece::LongFrame(frame::wrap(&head));
        match protocol.read(UP, &piece) {
            Message::Request(request) => {
                assert_eq!((request.op, request.paths.len()), (Op::SetData, 0));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            protocol.read(DOWN, &reply(9, 0)),
            Message::Reply { .. }
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
