//! Which frames a rule is about.
//!
//! Pure: no I/O and no clock.

use super::pattern::fits;
use crate::wire::Op;
use crate::wire::Request;

/// A description of frames: by kind, path, session, server and direction.
///
/// A matcher made by [`create`](Self::create) and the like fits *requests*, as they arrive from the client.
/// [`reply`](Self::reply) turns it to the server's answers to such requests.
///
/// In a pattern for a path `*` stands for any text within a name, and `**` for any text at all: `/locks/*` fits the
/// children of `/locks`, `/locks/**` everything below it. A transaction fits if one of its parts does. The path of a
/// sequential node is without its number in the request, and so it is here, also in the reply.
///
/// ```
/// use zk_fault_proxy::Match;
///
/// let creates = Match::create("/locks/**");
/// let of_one_session = creates.clone().session(0x1000_2a3b_4c5d_0001);
/// let answers_of_server_2 = creates.reply().server(2);
/// # drop((of_one_session, answers_of_server_2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    kind: Kind,
    /// Both if absent.
    direction: Option<Direction>,
    path: Option<String>,
    session: Option<i64>,
    server: Option<u32>,
    code: Option<i32>,
}

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client: replies and notifications.
    Reply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    AnyFrame,
    Requests,
    Writes,
    Ops(Vec<Op>),
    Handshake,
    Notification,
}

/// What is known of a frame when it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) direction: Direction,
    pub(super) frame: Frame<'a>,
    pub(super) session: Option<i64>,
    pub(super) server: Option<u32>,
    /// Of a reply, its error code.
    pub(super) code: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Frame<'a> {
    /// What opens a session, or the answer to it.
    Handshake,
    /// A request, or the answer to it.
    Request(&'a Request),
    /// What a watch has sent, for this path.
    Notification(&'a str),
    /// Something that is not understood.
    Unknown,
}

impl Match {
    /// Fits every frame of both directions: requests, replies, notifications, pings and the handshake.
    pub fn any_frame() -> Self {
        Self {
            direction: None,
            ..Self::of(Kind::AnyFrame)
        }
    }

    /// Fits every request but pings and the handshake.
    ///
    /// Pings are left out because they come whenever a client likes, so that nobody could count on the n-th request.
    pub fn requests() -> Self {
        Self::of(Kind::Requests)
    }

    /// Fits every request that changes nodes, transactions included.
    pub fn writes() -> Self {
        Self::of(Kind::Writes)
    }

    /// Fits requests of one kind.
    pub fn op(op: Op) -> Self {
        Self::of(Kind::Ops(vec![op]))
    }

    /// Fits creates of every sort, but not those within a transaction.
    pub fn create(pattern: impl Into<String>) -> Self {
        let ops = [Op::Create, Op::Create2, Op::CreateContainer, Op::CreateTtl];
        Self::ops(&ops).path(pattern)
    }

    /// Fits deletes, but not those within a transaction.
    pub fn delete(pattern: impl Into<String>) -> Self {
        Self::op(Op::Delete).path(pattern)
    }

    /// Fits writes of data, but not those within a transaction.
    pub fn set(pattern: impl Into<String>) -> Self {
        Self::op(Op::SetData).path(pattern)
    }

    /// Fits reads of data.
    pub fn get(pattern: impl Into<String>) -> Self {
        Self::op(Op::GetData).path(pattern)
    }

    /// Fits looks whether a node exists.
    pub fn exists(pattern: impl Into<String>) -> Self {
        Self::op(Op::Exists).path(pattern)
    }

    /// Fits lists of children, of both sorts.
    pub fn children(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::GetChildren, Op::GetChildren2]).path(pattern)
    }

    /// Fits syncs.
    pub fn sync(pattern: impl Into<String>) -> Self {
        Self::op(Op::Sync).path(pattern)
    }

    /// Fits transactions of which a part names a fitting path.
    pub fn multi(pattern: impl Into<String>) -> Self {
        Self::op(Op::Multi).path(pattern)
    }

    /// Fits pings.
    pub fn ping() -> Self {
        Self::op(Op::Ping)
    }

    /// Fits the request that ends a session.
    pub fn close_session() -> Self {
        Self::op(Op::CloseSession)
    }

    /// Fits what a client says of its watches after it has reconnected, of both sorts.
    pub fn set_watches() -> Self {
        Self::ops(&[Op::SetWatches, Op::SetWatches2])
    }

    /// Fits the first frame of a connection, which asks for a session.
    ///
    /// Until it is answered a new session has no id: [`session`](Self::session) then fits only a client that resumes.
    pub fn handshake() -> Self {
        Self::of(Kind::Handshake)
    }

    /// Fits what a watch sends.
    pub fn notification(pattern: impl Into<String>) -> Self {
        Self {
            direction: Some(Direction::Reply),
            ..Self::of(Kind::Notification)
        }
        .path(pattern)
    }

    /// Restricts it to frames that name a node whose path fits the pattern.
    #[must_use]
    pub fn path(mut self, pattern: impl Into<String>) -> Self {
        self.path = Some(pattern.into());
        self
    }

    /// Restricts it to one session.
    #[must_use]
    pub fn session(mut self, id: i64) -> Self {
        self.session = Some(id);
        self
    }

    /// Restricts it to connections that lead to one server, whichever address they came to.
    #[must_use]
    pub fn server(mut self, id: u32) -> Self {
        self.server = Some(id);
        self
    }

    /// Turns it to the replies to such requests.
    #[must_use]
    pub fn reply(mut self) -> Self {
        self.direction = Some(Direction::Reply);
        self
    }

    /// Turns it to the replies to such requests that have this error code: 0 for success, -110 for a node that exists.
    #[must_use]
    pub fn reply_code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self.reply()
    }

    /// Whether it is about replies only.
    pub(super) fn is_reply(&self) -> bool {
        self.direction == Some(Direction::Reply)
    }

    pub(super) fn fits(&self, seen: &Seen<'_>) -> bool {
        self.direction.is_none_or(|wanted| wanted == seen.direction)
            && self
                .session
                .is_none_or(|wanted| seen.session == Some(wanted))
            && self.server.is_none_or(|wanted| seen.server == Some(wanted))
            && self.code.is_none_or(|wanted| seen.code == Some(wanted))
            && self.fits_kind(seen.frame)
            && self.fits_path(seen.frame)
    }

    fn fits_kind(&self, frame: Frame<'_>) -> bool {
        match (&self.kind, frame) {
            (Kind::AnyFrame, _)
            | (Kind::Handshake, Frame::Handshake)
            | (Kind::Notification, Frame::Notification(_)) => true,
            (Kind::Requests, Frame::Request(request)) => request.op != Op::Ping,
            (Kind::Writes, Frame::Request(request)) => request.op.is_write(),
            (Kind::Ops(ops), Frame::Request(request)) => ops.contains(&request.op),
            _ => false,
        }
    }

    fn fits_path(&self, frame: Frame<'_>) -> bool {
        let Some(pattern) = &self.path else {
            return true;
        };
        match frame {
            Frame::Request(request) => request.paths.iter().any(|path| fits(pattern, path)),
            Frame::Notification(path) => fits(pattern, path),
            Frame::Handshake | Frame::Unknown => false,
        }
    }

    fn ops(ops: &[Op]) -> Self {
        Self::of(Kind::Ops(ops.to_vec()))
    }

    fn of(kind: Kind) -> Self {
        Self {
            kind,
            direction: Some(Direction::Request),
            path: None,
            session: None,
            server: None,
            code: None,
        }
    }
}

impl std::fmt::Display for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_reply() && self.kind != Kind::Notification {
            f.write_str("reply to ")?;
        }
        match &self.kind {
            Kind::AnyFrame => f.write_str("any frame")?,
            Kind::Requests => f.write_str("any request")?,
            Kind::Writes => f.write_str("any write")?,
            Kind::Ops(ops) => f.write_str(&ops.first().map_or_else(String::new, Op::to_string))?,
            Kind::Handshake => f.write_str("handshake")?,
            Kind::Notification => f.write_str("notification")?,
        }
        if let Some(path) = &self.path {
            write!(f, " {path}")?;
        }
        if let Some(session) = self.session {
            write!(f, " of session {session:#x}")?;
        }
        if let Some(server) = self.server {
            write!(f, " at server {server}")?;
        }
        if let Some(code) = self.code {
            write!(f, " with code {code}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: Op, paths: &[&str]) -> Request {
        let mut request = Request::decode(&[0; 8]).unwrap();
        request.op = op;
        request.paths = paths.iter().map(|&path| path.to_owned()).collect();
        request
    }

    fn seen(frame: Frame<'_>) -> Seen<'_> {
        Seen {
            direction: Direction::Request,
            frame,
            session: Some(7),
            server: Some(2),
            code: None,
        }
    }

    #[test]
    fn each_kind_fits_its_own_requests_and_no_others() {
        let kinds = [
            (
                Match::create("/a"),
                vec![Op::Create, Op::Create2, Op::CreateContainer, Op::CreateTtl],
            ),
            (Match::delete("/a"), vec![Op::Delete]),
            (Match::set("/a"), vec![Op::SetData]),
            (Match::get("/a"), vec![Op::GetData]),
            (Match::exists("/a"), vec![Op::Exists]),
            (
                Match::children("/a"),
                vec![Op::GetChildren, Op::GetChildren2],
            ),
            (Match::sync("/a"), vec![Op::Sync]),
            (Match::multi("/a"), vec![Op::Multi]),
            (Match::set_watches(), vec![Op::SetWatches, Op::SetWatches2]),
            (Match::close_session(), vec![Op::CloseSession]),
            (Match::ping(), vec![Op::Ping]),
            (Match::op(Op::Other(99)), vec![Op::Other(99)]),
        ];
        for (matching, expected) in &kinds {
            for code in -20..=120 {
                let op = Op::from(code);
                let request = request(op, &["/a"]);
                assert_eq!(
                    matching.fits(&seen(Frame::Request(&request))),
                    expected.contains(&op),
                    "{matching} and {op}"
                );
            }
            assert!(!matching.fits(&seen(Frame::Handshake)), "{matching}");
            assert!(!matching.fits(&seen(Frame::Unknown)), "{matching}");
        }
    }

    #[test]
    fn pings_and_handshakes_are_no_requests_but_frames() {
        let ping = request(Op::Ping, &[]);
        for frame in [Frame::Request(&ping), Frame::Handshake, Frame::Unknown] {
            assert!(!Match::requests().fits(&seen(frame)));
            assert!(Match::any_frame().fits(&seen(frame)));
        }
        assert!(Match::handshake().fits(&seen(Frame::Handshake)));
        let set = request(Op::SetData, &["/a"]);
        assert!(Match::requests().fits(&seen(Frame::Request(&set))));
        assert!(Match::writes().fits(&seen(Frame::Request(&set))));
        assert!(!Match::writes().fits(&seen(Frame::Request(&ping))));
    }

    #[test]
    fn one_fitting_part_makes_a_transaction_fit() {
        let multi = request(Op::Multi, &["/a", "/b/c"]);
        let frame = seen(Frame::Request(&multi));
        assert!(Match::multi("/b/*").fits(&frame) && Match::multi("/a").fits(&frame));
        assert!(!Match::multi("/c").fits(&frame));
    }

    #[test]
    fn session_server_direction_and_code_restrict() {
        let create = request(Op::Create, &["/a"]);
        let forth = seen(Frame::Request(&create));
        let back = Seen {
            direction: Direction::Reply,
            code: Some(-110),
            ..forth
        };
        let any = Match::create("**");
        assert!(any.fits(&forth) && !any.fits(&back));
        assert!(any.clone().reply().fits(&back) && !any.clone().reply().fits(&forth));
        assert!(any.clone().session(7).server(2).fits(&forth));
        assert!(!any.clone().session(8).fits(&forth));
        assert!(!any.clone().server(1).fits(&forth));
        assert!(any.clone().reply_code(-110).fits(&back));
        assert!(!any.clone().reply_code(0).fits(&back));
        let nobody = Seen {
            session: None,
            server: None,
            ..forth
        };
        assert!(!any.clone().session(7).fits(&nobody) && !any.server(2).fits(&nobody));
    }

    #[test]
    fn notifications_are_matched_by_path() {
        let fired = Seen {
            direction: Direction::Reply,
            ..seen(Frame::Notification("/a/b"))
        };
        assert!(Match::notification("/a/*").fits(&fired));
        assert!(!Match::notification("/b").fits(&fired));
        assert!(Match::any_frame().path("/a/b").fits(&fired));
        assert!(!Match::requests().reply().fits(&fired));
    }

    #[test]
    fn it_says_what_it_fits() {
        for (matching, text) in [
            (Match::any_frame(), "any frame"),
            (
                Match::requests().session(255),
                "any request of session 0xff",
            ),
            (Match::writes().server(2), "any write at server 2"),
            (
                Match::create("/a").reply_code(0),
                "reply to create /a with code 0",
            ),
            (Match::handshake().reply(), "reply to handshake"),
            (Match::notification("/a"), "notification /a"),
        ] {
            assert_eq!(matching.to_string(), text);
        }
    }
}
