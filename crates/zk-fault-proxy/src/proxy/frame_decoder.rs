//! Bytes of one direction of a connection, taken apart into frames.
//!
//! Pure: no I/O and no clock.

/// Takes a stream of bytes apart. Put together again the pieces are the stream, whatever it holds.
#[derive(Debug)]
pub(super) struct Splitter {
    buffer: Vec<u8>,
    /// Where in the buffer the next piece begins.
    at: usize,
    mode: Mode,
}

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole frame, its length in front.
    Frame(Vec<u8>),
    /// The beginning of a frame that is too long to be kept; the rest follows as [`Raw`](Self::Raw).
    LongFrame(Vec<u8>),
    /// Four letters in front of everything: a command, and no frames.
    Word(Vec<u8>),
    /// The first bytes that are no frame, as far as they have come; whatever follows is raw.
    NoFrame(Vec<u8>),
    /// Bytes that are not looked at.
    Raw(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nothing was seen yet, and a client may begin with a four-letter word.
    Start,
    Frames,
    /// Within a frame that is too long to be kept, with so many bytes to go.
    Skipping(usize),
    Raw,
}

impl Splitter {
    /// For what a client sends.
    pub(super) fn of_client() -> Self {
        Self::new(Mode::Start)
    }

    /// For what a server sends.
    pub(super) fn of_server() -> Self {
        Self::new(Mode::Frames)
    }

    fn new(mode: Mode) -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            mode,
        }
    }

    /// The place for bytes that were received, behind those of before.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.at);
        self.at = 0;
        &mut self.buffer
    }

    /// Takes nothing apart any more.
    pub(super) fn go_raw(&mut self) {
        self.mode = Mode::Raw;
    }

    /// The next piece, if there is enough of it.
    pub(super) fn take(&mut self) -> Option<Piece> {
        let waiting = self.buffer.len() - self.at;
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
        let rest = &self.buffer[self.at..];
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
                // Its header is wanted.
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

    /// Whatever is left when the stream has ended in the middle of a frame.
    pub(super) fn rest(&mut self) -> Option<Piece> {
        let waiting = self.buffer.len() - self.at;
        (waiting > 0).then(|| Piece::Raw(self.cut(waiting)))
    }

    fn cut(&mut self, len: usize) -> Vec<u8> {
        let piece = self.buffer[self.at..self.at + len].to_vec();
        self.at += len;
        piece
    }
}

impl Piece {
    /// What a frame holds, without its length.
    pub(super) fn payload(&self) -> &[u8] {
        match self {
            Self::Frame(bytes) | Self::LongFrame(bytes) => &bytes[PREFIX..],
            Self::Word(bytes) | Self::NoFrame(bytes) | Self::Raw(bytes) => bytes,
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Frame(bytes)
            | Self::LongFrame(bytes)
            | Self::Word(bytes)
            | Self::NoFrame(bytes)
            | Self::Raw(bytes) => bytes,
        }
    }
}

const PREFIX: usize = 4;
/// The header of a reply; that of a request is shorter.
const LONGEST_HEADER: usize = 16;
/// Servers refuse requests of more than 1 MiB unless told otherwise.
pub(super) const MAX_KEPT: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::frame;

    fn split(mut splitter: Splitter, chunks: &[&[u8]]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.buffer().extend_from_slice(chunk);
            pieces.extend(std::iter::from_fn(|| splitter.take()));
        }
        pieces.extend(splitter.rest());
        pieces
    }

    #[test]
    fn a_frame_is_whole_or_not_there() {
        let frame = frame::wrap(b"payload");
        let mut splitter = Splitter::of_client();
        for byte in &frame[..frame.len() - 1] {
            splitter.buffer().push(*byte);
            assert_eq!(splitter.take(), None);
        }
        splitter.buffer().push(frame[frame.len() - 1]);
        let piece = splitter.take().unwrap();
        assert_eq!(piece.payload(), b"payload");
        assert_eq!(piece, Piece::Frame(frame));
    }

    #[test]
    fn a_word_is_no_length_but_only_in_front_and_only_from_a_client() {
        let pieces = split(Splitter::of_client(), &[b"srvr\n"]);
        assert_eq!(
            pieces,
            [Piece::Word(b"srvr".to_vec()), Piece::Raw(b"\n".to_vec())]
        );
        let late = [frame::wrap(b"x"), b"srvr and more than a header".to_vec()].concat();
        assert!(matches!(
            split(Splitter::of_client(), &[&late])[..],
            [Piece::Frame(_), Piece::LongFrame(_)]
        ));
        assert!(matches!(
            split(Splitter::of_server(), &[b"srvr and more than a header"])[..],
            [Piece::LongFrame(_)]
        ));
    }

    #[test]
    fn a_negative_length_ends_the_frames() {
        let bytes = [frame::wrap(b"x"), vec![0xff; 4], frame::wrap(b"y")].concat();
        let pieces = split(Splitter::of_server(), &[&bytes, b"z"]);
        assert_eq!(
            pieces,
            [
                Piece::Frame(frame::wrap(b"x")),
                Piece::NoFrame([vec![0xff; 4], frame::wrap(b"y")].concat()),
                Piece::Raw(b"z".to_vec())
            ]
        );
    }

    #[test]
    fn a_frame_beyond_the_bound_streams_and_the_next_one_is_a_frame_again() {
        let long = frame::wrap(&vec![7; MAX_KEPT]);
        let stream = [long.clone(), frame::wrap(b"next")].concat();
        let chunks: Vec<&[u8]> = stream.chunks(100_000).collect();
        let pieces = split(Splitter::of_server(), &chunks);
        assert!(matches!(pieces.first(), Some(Piece::LongFrame(head)) if head.len() == 100_000));
        assert_eq!(pieces.last(), Some(&Piece::Frame(frame::wrap(b"next"))));
        let together: Vec<u8> = pieces.into_iter().flat_map(Piece::into_bytes).collect();
        assert!(together == stream, "the stream is what it was");
        let kept = frame::wrap(&vec![7; MAX_KEPT - PREFIX]);
        assert_eq!(split(Splitter::of_server(), &[&kept]), [Piece::Frame(kept)]);
    }

    #[test]
    fn a_handshake_that_is_too_long_is_none() {
        let pieces = split(Splitter::of_client(), &[&[0x16, 3, 1, 2, 0]]);
        assert_eq!(pieces, [Piece::NoFrame(vec![0x16, 3, 1, 2, 0])]);
    }

    proptest! {
        /// However the bytes arrive and whatever they are, they come out as they went in.
        #[test]
        fn nothing_is_lost_or_added(
            parts in prop::collection::vec((any::<bool>(), any::<Vec<u8>>()), 0..6),
            step in 1..50_usize,
            from_client: bool,
        ) {
            let stream: Vec<u8> = parts
                .iter()
                .flat_map(|(framed, bytes)| if *framed { frame::wrap(bytes) } else { bytes.clone() })
                .collect();
            let chunks: Vec<&[u8]> = stream.chunks(step).collect();
            let splitter = if from_client { Splitter::of_client() } else { Splitter::of_server() };
            let pieces = split(splitter, &chunks);
            let together: Vec<u8> = pieces.into_iter().flat_map(Piece::into_bytes).collect();
            prop_assert_eq!(together, stream);
        }

        /// Frames come out one by one, however they arrive.
        #[test]
        fn frames_survive_any_split(payloads in prop::collection::vec(any::<Vec<u8>>(), 1..6), step in 1..50_usize) {
            let stream: Vec<u8> = payloads.iter().flat_map(|payload| frame::wrap(payload)).collect();
            let chunks: Vec<&[u8]> = stream.chunks(step).collect();
            let pieces = split(Splitter::of_server(), &chunks);
            let expected: Vec<_> = payloads.iter().map(|payload| Piece::Frame(frame::wrap(payload))).collect();
            prop_assert_eq!(pieces, expected);
        }
    }
}
