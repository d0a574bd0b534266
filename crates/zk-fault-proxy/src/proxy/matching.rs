//! Decides whether a frame matches a rule.
//!
//! Pure: no I/O and no clock.

use super::pattern::fits;
use crate::wire::{Op, Request};

/// A matcher of frames by kind, path, session, server and direction.
///
/// [`create`](Self::create) and similar constructors match *requests*, as they arrive from the client.
/// [`reply`](Self::reply) makes the matcher match the replies to such requests instead.
///
/// In a path pattern, `*` matches any text within a name and `**` any text: `/locks/*` matches the children of `/locks`,
/// `/locks/**` everything below it. A transaction matches if one of its operations does.
/// The path of a sequential node is the requested one, without the number, for the reply too.
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
    /// `None` for both.
    direction: Option<Direction>,
    path: Option<String>,
    session: Option<i64>,
    server: Option<u32>,
    code: Option<i32>,
}

/// The direction of a frame.
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
    Ops(&'static [Op]),
    Handshake,
    Notification,
}

/// The properties of a frame that a matcher compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameInfo<'a> {
    pub(super) direction: Direction,
    pub(super) frame: Frame<'a>,
    pub(super) session: Option<i64>,
    pub(super) server: Option<u32>,
    /// The error code of a reply.
    pub(super) code: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Frame<'a> {
    /// A connect request or response.
    Handshake,
    /// A request, or its reply.
    Request(&'a Request),
    /// A watch notification for this path.
    Notification(&'a str),
    /// Not decodable.
    Unknown,
}

impl Match {
    /// Matches every frame of both directions: requests, replies, notifications, pings and the handshake.
    pub fn any_frame() -> Self {
        Self {
            direction: None,
            ..Self::of(Kind::AnyFrame)
        }
    }

    /// Matches every request except pings and the handshake.
    ///
    /// Clients send pings at times of their own, so counting them would make the n-th request unpredictable.
    pub fn requests() -> Self {
        Self::of(Kind::Requests)
    }

    /// Matches every request that changes nodes, transactions included.
    pub fn writes() -> Self {
        Self::of(Kind::Writes)
    }

    /// Matches all kinds of create, except within a transaction.
    pub fn create(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::Create, Op::Create2, Op::CreateContainer, Op::CreateTtl]).path(pattern)
    }

    /// Matches deletes, except within a transaction.
    pub fn delete(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::Delete]).path(pattern)
    }

    /// Matches `setData`, except within a transaction.
    pub fn set(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::SetData]).path(pattern)
    }

    /// Matches `getData`.
    pub fn get(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::GetData]).path(pattern)
    }

    /// Matches requests that read several nodes, whatever their paths.
    pub fn multi_read() -> Self {
        Self::ops(&[Op::MultiRead])
    }

    /// Matches `exists`.
    pub fn exists(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::Exists]).path(pattern)
    }

    /// Matches both kinds of `getChildren`.
    pub fn children(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::GetChildren, Op::GetChildren2]).path(pattern)
    }

    /// Matches `sync`.
    pub fn sync(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::Sync]).path(pattern)
    }

    /// Matches removals of watches, which clients send by themselves when a watch is dropped.
    pub fn remove_watches(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::RemoveWatches]).path(pattern)
    }

    /// Matches transactions with an operation on a matching path.
    pub fn multi(pattern: impl Into<String>) -> Self {
        Self::ops(&[Op::Multi]).path(pattern)
    }

    /// Matches pings.
    pub fn ping() -> Self {
        Self::ops(&[Op::Ping])
    }

    /// Matches `closeSession`.
    pub fn close_session() -> Self {
        Self::ops(&[Op::CloseSession])
    }

    /// Matches the first frame of a connection, which requests a session.
    ///
    /// A new session has no id yet, so [`session`](Self::session) restricts this to a client that resumes its session.
    pub fn handshake() -> Self {
        Self::of(Kind::Handshake)
    }

    /// Matches watch notifications.
    pub fn notification(pattern: impl Into<String>) -> Self {
        Self {
            direction: Some(Direction::Reply),
            ..Self::of(Kind::Notification)
        }
        .path(pattern)
    }

    /// Restricts it to frames with a path that matches the pattern.
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

    /// Restricts it to connections to one server, whichever proxy address they use.
    #[must_use]
    pub fn server(mut self, id: u32) -> Self {
        self.server = Some(id);
        self
    }

    /// Matches the replies to such requests instead.
    #[must_use]
    pub fn reply(mut self) -> Self {
        self.direction = Some(Direction::Reply);
        self
    }

    /// Matches the replies with this error code instead: 0 for success, -110 for a node that exists.
    #[must_use]
    pub fn reply_code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self.reply()
    }

    /// Returns whether it matches replies only.
    pub(super) fn is_reply(&self) -> bool {
        self.direction == Some(Direction::Reply)
    }

    pub(super) fn fits(&self, seen: &FrameInfo<'_>) -> bool {
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

    fn ops(ops: &'static [Op]) -> Self {
        Self::of(Kind::Ops(ops))
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

    fn seen(frame: Frame<'_>) -> FrameInfo<'_> {
        FrameInfo {
            direction: Direction::Request,
            frame,
            session: Some(7),
            server: Some(2),
            code: None,
        }
    }

    #[test]
    fn each_kind_matches_only_its_own_requests() {
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
            (Match::remove_watches("/a"), vec![Op::RemoveWatches]),
            (Match::multi("/a"), vec![Op::Multi]),
            (Match::close_session(), vec![Op::CloseSession]),
            (Match::ping(), vec![Op::Ping]),
        ];
        for (matching, expected) in &kinds {
            for code in -20..=120 {
                let op = Op::from_code(code);
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
    fn pings_and_handshakes_are_frames_but_not_requests() {
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
    fn a_transaction_matches_if_one_operation_does() {
        let multi = request(Op::Multi, &["/a", "/b/c"]);
        let frame = seen(Frame::Request(&multi));
        assert!(Match::multi("/b/*").fits(&frame) && Match::multi("/a").fits(&frame));
        assert!(!Match::multi("/c").fits(&frame));
    }

    #[test]
    fn session_server_direction_and_code_restrict() {
        let create = request(Op::Create, &["/a"]);
        let forth = seen(Frame::Request(&create));
        let back = FrameInfo {
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
        let unknown = FrameInfo {
            session: None,
            server: None,
            ..forth
        };
        assert!(!any.clone().session(7).fits(&unknown) && !any.server(2).fits(&unknown));
    }

    #[test]
    fn notifications_are_matched_by_path() {
        let fired = FrameInfo {
            direction: Direction::Reply,
            ..seen(Frame::Notification("/a/b"))
        };
        assert!(Match::notification("/a/*").fits(&fired));
        assert!(!Match::notification("/b").fits(&fired));
        assert!(Match::any_frame().path("/a/b").fits(&fired));
        assert!(!Match::requests().reply().fits(&fired));
    }

    #[test]
    fn a_matcher_describes_itself() {
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
