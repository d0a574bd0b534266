//! What the frames of one connection say, read in order.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::frame_decoder::Piece;
use super::matching::Direction;
use crate::wire::Request;
use crate::wire::frame::ReplyHeader;
use crate::wire::jute::DecodeError;
use crate::wire::jute::Decoder;
use crate::wire::notified_path;
use crate::wire::record::Connect;
use crate::wire::record::Connected;

/// The state of a conversation between a client and a server.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    client: Side,
    server: Side,
    /// Whether the client asked to resume a session.
    resumes: bool,
    /// Requests without an answer yet, in order.
    pending: VecDeque<Arc<Request>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Side {
    /// The first frame is still to come.
    #[default]
    Greeting,
    Talking,
    /// It does not speak the protocol.
    Unintelligible,
}

/// What a piece of the stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Connect {
        session: Option<i64>,
    },
    Connected {
        session: i64,
        timeout: Duration,
        password: Vec<u8>,
        resumed: bool,
    },
    SessionRefused,
    Request(Arc<Request>),
    Reply {
        request: Arc<Request>,
        code: i32,
        zxid: i64,
    },
    Notification(Arc<str>),
    Word(String),
    /// The continuation of something, or of a stream that is not understood.
    More,
    /// Something that is not understood, for the first time.
    Gibberish,
}

impl Dialogue {
    pub(super) fn hear(&mut self, direction: Direction, piece: &Piece) -> Said {
        match piece {
            Piece::Raw(_) => Said::More,
            Piece::Word(word) => {
                self.client = Side::Unintelligible;
                self.server = Side::Unintelligible;
                Said::Word(String::from_utf8_lossy(word).into_owned())
            }
            Piece::NoFrame(_) => self.lose(direction),
            Piece::Frame(_) | Piece::LongFrame(_) => self.hear_frame(direction, piece),
        }
    }

    /// Whether nothing of this direction is to be taken for frames any more.
    pub(super) fn is_raw(&self, direction: Direction) -> bool {
        self.side(direction) == Side::Unintelligible
    }

    fn hear_frame(&mut self, direction: Direction, piece: &Piece) -> Said {
        let payload = piece.payload();
        let said = match (direction, self.side(direction)) {
            (_, Side::Unintelligible) => return Said::More,
            (Direction::Request, Side::Greeting) => self.connect(payload),
            (Direction::Reply, Side::Greeting) => self.connected(payload),
            (Direction::Request, Side::Talking) => return self.request(piece),
            (Direction::Reply, Side::Talking) => return self.reply(payload),
        };
        let Ok(said) = said else {
            // Without a handshake nothing that follows means anything, in neither direction.
            self.client = Side::Unintelligible;
            self.server = Side::Unintelligible;
            return Said::Gibberish;
        };
        *self.side_mut(direction) = Side::Talking;
        said
    }

    fn connect(&mut self, payload: &[u8]) -> Result<Said, DecodeError> {
        let asked = Connect::decode(payload)?;
        self.resumes = asked.session != 0;
        Ok(Said::Connect {
            session: self.resumes.then_some(asked.session),
        })
    }

    fn connected(&mut self, payload: &[u8]) -> Result<Said, DecodeError> {
        let granted = Connected::decode(payload)?;
        let timeout = u64::try_from(granted.timeout).unwrap_or(0);
        if granted.session == 0 || timeout == 0 {
            return Ok(Said::SessionRefused);
        }
        Ok(Said::Connected {
            session: granted.session,
            timeout: Duration::from_millis(timeout),
            password: granted.password,
            resumed: self.resumes,
        })
    }

    /// A single frame that cannot be read does not end the conversation: its length still says where the next begins.
    fn request(&mut self, piece: &Piece) -> Said {
        let request = match piece {
            Piece::LongFrame(_) => Request::decode_head(piece.payload()),
            _ => Request::decode(piece.payload()),
        };
        let Ok(request) = request else {
            return Said::Gibberish;
        };
        let request = Arc::new(request);
        if self.pending.len() == MOST_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(Arc::clone(&request));
        Said::Request(request)
    }

    fn reply(&mut self, payload: &[u8]) -> Said {
        let Ok(header) = ReplyHeader::decode(&mut Decoder::new(payload)) else {
            return Said::Gibberish;
        };
        if header.xid == NOTIFICATION {
            return notified_path(&payload[ReplyHeader::LEN..])
                .map_or(Said::Gibberish, |path| Said::Notification(path.into()));
        }
        // Answers come in the order of the requests, but for those that the server gives before it looks into its
        // queue: to auth and SASL.
        let found = self
            .pending
            .iter()
            .position(|request| request.xid == header.xid);
        let Some(request) = found.and_then(|at| self.pending.remove(at)) else {
            return Said::Gibberish;
        };
        Said::Reply {
            request,
            code: header.code.0,
            zxid: header.zxid,
        }
    }

    fn lose(&mut self, direction: Direction) -> Said {
        *self.side_mut(direction) = Side::Unintelligible;
        Said::Gibberish
    }

    fn side(&self, direction: Direction) -> Side {
        match direction {
            Direction::Request => self.client,
            Direction::Reply => self.server,
        }
    }

    fn side_mut(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Request => &mut self.client,
            Direction::Reply => &mut self.server,
        }
    }
}

/// The xid of what a watch sends.
const NOTIFICATION: i32 = -1;
/// No client has so many requests in flight; a stream that never gets answers must not fill the memory.
const MOST_PENDING: usize = 100_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Op;
    use crate::wire::frame;
    use crate::wire::jute::Encoder;
    use crate::wire::record;

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

    fn connected() -> Dialogue {
        let mut dialogue = Dialogue::default();
        let connect = frame(&record::connect(Duration::from_secs(4)));
        assert_eq!(dialogue.hear(UP, &connect), Said::Connect { session: None });
        dialogue.hear(DOWN, &granted(5, 4000));
        dialogue
    }

    #[test]
    fn the_handshake_tells_session_timeout_and_password() {
        let mut dialogue = Dialogue::default();
        let mut connect = record::connect(Duration::from_secs(4));
        connect[16..24].copy_from_slice(&5_i64.to_be_bytes());
        assert_eq!(
            dialogue.hear(UP, &frame(&connect)),
            Said::Connect { session: Some(5) }
        );
        assert_eq!(
            dialogue.hear(DOWN, &granted(5, 4000)),
            Said::Connected {
                session: 5,
                timeout: Duration::from_secs(4),
                password: vec![7; 16],
                resumed: true
            }
        );
    }

    #[test]
    fn a_session_of_zero_is_a_refusal() {
        let mut dialogue = Dialogue::default();
        dialogue.hear(UP, &frame(&record::connect(Duration::from_secs(4))));
        assert_eq!(dialogue.hear(DOWN, &granted(0, 0)), Said::SessionRefused);
    }

    #[test]
    fn replies_find_their_requests_also_out_of_order() {
        let mut dialogue = connected();
        for (xid, op) in [(1, 1), (2, 2), (-4, 100), (-2, 11), (3, 4)] {
            assert!(matches!(
                dialogue.hear(UP, &request(xid, op)),
                Said::Request(_)
            ));
        }
        for (xid, op) in [(-4, 100), (1, 1), (2, 2), (-2, 11), (3, 4)] {
            match dialogue.hear(DOWN, &reply(xid, -110)) {
                Said::Reply {
                    request,
                    code: -110,
                    zxid: 99,
                } => assert_eq!((request.xid, request.op), (xid, Op::from(op))),
                other => panic!("{other:?} for {xid}"),
            }
        }
        assert_eq!(dialogue.hear(DOWN, &reply(3, 0)), Said::Gibberish);
    }

    #[test]
    fn two_pings_in_flight_are_two() {
        let mut dialogue = connected();
        dialogue.hear(UP, &request(-2, 11));
        dialogue.hear(UP, &request(-2, 11));
        for _ in 0..2 {
            let said = dialogue.hear(DOWN, &reply(-2, 0));
            assert!(matches!(said, Said::Reply { request, .. } if request.op == Op::Ping));
        }
        assert_eq!(dialogue.hear(DOWN, &reply(-2, 0)), Said::Gibberish);
    }

    #[test]
    fn a_watch_that_fires_is_no_reply() {
        let mut dialogue = connected();
        let fired = Encoder::default()
            .int(-1)
            .long(-1)
            .int(0)
            .int(3)
            .int(3)
            .buffer(b"/a")
            .finish();
        assert_eq!(
            dialogue.hear(DOWN, &frame(&fired)),
            Said::Notification("/a".into())
        );
    }

    #[test]
    fn without_a_handshake_nothing_is_understood() {
        let mut dialogue = Dialogue::default();
        assert_eq!(dialogue.hear(UP, &frame(b"hello")), Said::Gibberish);
        assert!(dialogue.is_raw(UP) && dialogue.is_raw(DOWN));
        assert_eq!(dialogue.hear(DOWN, &granted(5, 4000)), Said::More);
    }

    #[test]
    fn one_frame_that_cannot_be_read_does_not_end_the_conversation() {
        let mut dialogue = connected();
        assert_eq!(dialogue.hear(UP, &frame(b"x")), Said::Gibberish);
        assert!(!dialogue.is_raw(UP));
        assert!(matches!(
            dialogue.hear(UP, &request(1, 1)),
            Said::Request(_)
        ));
    }

    #[test]
    fn a_long_frame_is_known_by_its_header() {
        let mut dialogue = connected();
        let head = Encoder::default().int(9).int(5).buffer(b"/a").finish();
        let piece = Piece::LongFrame(frame::wrap(&head));
        match dialogue.hear(UP, &piece) {
            Said::Request(request) => {
                assert_eq!((request.op, request.paths.len()), (Op::SetData, 0));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            dialogue.hear(DOWN, &reply(9, 0)),
            Said::Reply { .. }
        ));
    }

    proptest! {
        #[test]
        fn no_frames_make_it_panic(frames in prop::collection::vec((any::<bool>(), any::<Vec<u8>>()), 0..8), greeted: bool) {
            let mut dialogue = if greeted { connected() } else { Dialogue::default() };
            for (up, payload) in frames {
                dialogue.hear(if up { UP } else { DOWN }, &frame(&payload));
            }
        }
    }
}
