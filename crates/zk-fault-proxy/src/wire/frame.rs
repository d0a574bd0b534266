//! Puts payloads into frames, and splits the bytes of one direction of a connection into frames.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use super::jute::Encoder;
use super::secret::Secret;

/// Puts a payload into a frame.
pub(crate) fn wrap(payload: &[u8]) -> Vec<u8> {
    Encoder::default().buffer(payload).finish()
}

/// Splits a stream into pieces, whose concatenation is always the stream.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Secret,
    /// The start of the next piece in the buffer.
    at: usize,
    mode: Mode,
}

/// A part of a stream. Its debug output has no bytes, because they may be a password.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a reader handles each of these")]
pub enum Piece {
    /// A whole frame with its length prefix.
    Frame(Vec<u8>),
    /// The beginning of a frame that is too long to buffer; the rest follows as [`Raw`](Self::Raw).
    LongFrame(Vec<u8>),
    /// A four-letter word at the start of the stream.
    Word(Vec<u8>),
    /// The first bytes that are no frame; the rest of the stream is raw.
    NoFrame(Vec<u8>),
    /// Bytes that are not decoded.
    Raw(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// At the start of a client's stream, where a four-letter word is possible.
    Start,
    Frames,
    /// Within a frame that is too long to buffer; the number of bytes left.
    Skipping(usize),
    Raw,
}

impl FrameDecoder {
    /// Creates a decoder for the client's stream.
    pub fn for_client() -> Self {
        Self::new(Mode::Start)
    }

    /// Creates a decoder for the server's stream.
    pub fn for_server() -> Self {
        Self::new(Mode::Frames)
    }

    fn new(mode: Mode) -> Self {
        Self {
            buffer: Secret(Vec::new()),
            at: 0,
            mode,
        }
    }

    /// Returns the buffer to which received bytes are appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.0.drain(..self.at);
        self.at = 0;
        &mut self.buffer.0
    }

    /// Returns all further bytes as raw pieces.
    pub(crate) fn set_raw(&mut self) {
        self.mode = Mode::Raw;
    }

    /// Returns the next piece, if it is complete.
    pub fn next_piece(&mut self) -> Option<Piece> {
        let waiting = self.buffer.0.len() - self.at;
        if waiting == 0 {
            return None;
        }
        match self.mode {
            Mode::Raw => Some(Piece::Raw(self.cut(waiting))),
            Mode::Skipping(left) => {
                let now = left.min(waiting);
                self.mode = match left - now {
                    0 => Mode::Frames,
                    left => Mode::Skipping(left),
                };
                Some(Piece::Raw(self.cut(now)))
            }
            Mode::Start | Mode::Frames => self.take_frame(),
        }
    }

    fn take_frame(&mut self) -> Option<Piece> {
        let rest = &self.buffer.0[self.at..];
        let prefix = *rest.first_chunk::<PREFIX>()?;
        if self.mode == Mode::Start && prefix.iter().all(u8::is_ascii_alphabetic) {
            self.mode = Mode::Raw;
            return Some(Piece::Word(self.cut(PREFIX)));
        }
        let whole = usize::try_from(i32::from_be_bytes(prefix))
            .ok()
            .map(|len| PREFIX + len);
        let waiting = rest.len();
        match whole {
            Some(whole) if whole <= MAX_KEPT => {
                if waiting < whole {
                    return None;
                }
                self.mode = Mode::Frames;
                Some(Piece::Frame(self.cut(whole)))
            }
            // A handshake is never that long.
            Some(whole) if self.mode == Mode::Frames => {
                if waiting < PREFIX + LONGEST_HEADER {
                    return None;
                }
                let now = waiting.min(whole);
                if now < whole {
                    self.mode = Mode::Skipping(whole - now);
                }
                Some(Piece::LongFrame(self.cut(now)))
            }
            _ => {
                self.mode = Mode::Raw;
                Some(Piece::NoFrame(self.cut(waiting)))
            }
        }
    }

    /// Returns the incomplete frame at the end of the stream.
    pub(crate) fn remainder(&mut self) -> Option<Piece> {
        let waiting = self.buffer.0.len() - self.at;
        (waiting > 0).then(|| Piece::Raw(self.cut(waiting)))
    }

    fn cut(&mut self, len: usize) -> Vec<u8> {
        let piece = self.buffer.0[self.at..self.at + len].to_vec();
        self.at += len;
        piece
    }
}

impl Piece {
    /// Returns the content of a frame without its length prefix; of other pieces, all bytes.
    pub fn payload(&self) -> &[u8] {
        match self {
            Self::Frame(bytes) | Self::LongFrame(bytes) => &bytes[PREFIX..],
            Self::Word(bytes) | Self::NoFrame(bytes) | Self::Raw(bytes) => bytes,
        }
    }

    /// Returns the bytes of the stream.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Frame(bytes)
            | Self::LongFrame(bytes)
            | Self::Word(bytes)
            | Self::NoFrame(bytes)
            | Self::Raw(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            Self::Frame(bytes) => ("Frame", bytes),
            Self::LongFrame(bytes) => ("LongFrame", bytes),
            Self::Word(bytes) => ("Word", bytes),
            Self::NoFrame(bytes) => ("NoFrame", bytes),
            Self::Raw(bytes) => ("Raw", bytes),
        };
        write!(f, "{kind}({} bytes)", bytes.len())
    }
}

const PREFIX: usize = 4;
/// The header of a reply; that of a request is shorter.
const LONGEST_HEADER: usize = 16;
/// By default, servers refuse requests of more than 1 MiB.
pub(crate) const MAX_KEPT: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces_of(mut decoder: FrameDecoder, chunks: &[&[u8]]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for chunk in chunks {
            decoder.buffer().extend_from_slice(chunk);
            pieces.extend(std::iter::from_fn(|| decoder.next_piece()));
        }
        pieces.extend(decoder.remainder());
        pieces
    }

    #[test]
    fn a_frame_is_returned_when_it_is_complete() {
        let frame = wrap(b"payload");
        let mut decoder = FrameDecoder::for_client();
        for byte in &frame[..frame.len() - 1] {
            decoder.buffer().push(*byte);
            assert_eq!(decoder.next_piece(), None);
        }
        decoder.buffer().push(frame[frame.len() - 1]);
        let piece = decoder.next_piece().unwrap();
        assert_eq!(piece.payload(), b"payload");
        assert_eq!(piece, Piece::Frame(frame));
    }

    #[test]
    fn only_a_client_sends_a_word_and_only_at_the_start() {
        let pieces = pieces_of(FrameDecoder::for_client(), &[b"srvr\n"]);
        assert_eq!(
            pieces,
            [Piece::Word(b"srvr".to_vec()), Piece::Raw(b"\n".to_vec())]
        );
        let late = [wrap(b"x"), b"srvr and more than a header".to_vec()].concat();
        assert!(matches!(
            pieces_of(FrameDecoder::for_client(), &[&late])[..],
            [Piece::Frame(_), Piece::LongFrame(_)]
        ));
        assert!(matches!(
            pieces_of(
                FrameDecoder::for_server(),
                &[b"srvr and more than a header"]
            )[..],
            [Piece::LongFrame(_)]
        ));
    }

    #[test]
    fn a_negative_length_ends_the_frames() {
        let bytes = [wrap(b"x"), vec![0xff; 4], wrap(b"y")].concat();
        let pieces = pieces_of(FrameDecoder::for_server(), &[&bytes, b"z"]);
        assert_eq!(
            pieces,
            [
                Piece::Frame(wrap(b"x")),
                Piece::NoFrame([vec![0xff; 4], wrap(b"y")].concat()),
                Piece::Raw(b"z".to_vec())
            ]
        );
    }

    #[test]
    fn the_frame_after_one_too_long_to_buffer_is_decoded() {
        let long = wrap(&vec![7; MAX_KEPT]);
        let stream = [long.clone(), wrap(b"next")].concat();
        let chunks: Vec<&[u8]> = stream.chunks(100_000).collect();
        let pieces = pieces_of(FrameDecoder::for_server(), &chunks);
        assert!(matches!(pieces.first(), Some(Piece::LongFrame(head)) if head.len() == 100_000));
        assert_eq!(pieces.last(), Some(&Piece::Frame(wrap(b"next"))));
        let together: Vec<u8> = pieces.into_iter().flat_map(Piece::into_bytes).collect();
        assert!(together == stream, "the stream has changed");
        let kept = wrap(&vec![7; MAX_KEPT - PREFIX]);
        assert_eq!(
            pieces_of(FrameDecoder::for_server(), &[&kept]),
            [Piece::Frame(kept)]
        );
    }

    #[test]
    fn a_first_frame_that_is_too_long_is_not_a_frame() {
        let pieces = pieces_of(FrameDecoder::for_client(), &[&[0x16, 3, 1, 2, 0]]);
        assert_eq!(pieces, [Piece::NoFrame(vec![0x16, 3, 1, 2, 0])]);
    }

    proptest! {
        /// The pieces of any stream, received in chunks of any size, add up to the stream.
        #[test]
        fn nothing_is_lost_or_added(
            parts in prop::collection::vec((any::<bool>(), any::<Vec<u8>>()), 0..6),
            step in 1..50_usize,
            from_client: bool,
        ) {
            let stream: Vec<u8> = parts
                .iter()
                .flat_map(|(framed, bytes)| if *framed { wrap(bytes) } else { bytes.clone() })
                .collect();
            let chunks: Vec<&[u8]> = stream.chunks(step).collect();
            let decoder = if from_client { FrameDecoder::for_client() } else { FrameDecoder::for_server() };
            let pieces = pieces_of(decoder, &chunks);
            let together: Vec<u8> = pieces.into_iter().flat_map(Piece::into_bytes).collect();
            prop_assert_eq!(together, stream);
        }

        /// Frames are returned one by one, received in chunks of any size.
        #[test]
        fn frames_survive_any_split(payloads in prop::collection::vec(any::<Vec<u8>>(), 1..6), step in 1..50_usize) {
            let stream: Vec<u8> = payloads.iter().flat_map(|payload| wrap(payload)).collect();
            let chunks: Vec<&[u8]> = stream.chunks(step).collect();
            let pieces = pieces_of(FrameDecoder::for_server(), &chunks);
            let expected: Vec<_> = payloads.iter().map(|payload| Piece::Frame(wrap(payload))).collect();
            prop_assert_eq!(pieces, expected);
        }
    }
}
