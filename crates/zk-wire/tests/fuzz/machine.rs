//! A session between an arbitrary program and a server, judged by the bytes that leave and arrive.
//!
//! The judge knows the protocol and the guarantees of the crate, and nothing of the session's insides:
//!
//! - each accepted request has one outcome, or was taken back;
//! - *not sent* means that no complete frame of it has left, *unknown* that one has, and that its connection is lost or
//!   the server has replied that it failed;
//! - requests leave in the order in which they were submitted, also over a reconnect, and no more than allowed are in
//!   flight;
//! - a valid reply gives its request the outcome that it says, one that is too long or makes no sense is unreadable, and
//!   neither breaks a connection;
//! - with a chroot, the server is sent other paths than the program names, and a new node outside of it makes its reply
//!   unreadable;
//! - a path that no request can name makes its reply unreadable, and no watch reports it;
//! - each connection begins with the session's id, its credentials and exactly the watches that are set;
//! - what waits, and what is received and not complete, is within the limits;
//! - the session never wants to be woken at a moment that has passed, and nothing happens after its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use arbitrary::Unstructured;
use bytes::{Bytes, BytesMut};
use zk_wire::proto::{ReplyShape, Xid};
use zk_wire::session::{Event, Outcome, Session, Ticket};
use zk_wire::{
    Acl, CreateMode, Credentials, ErrorCode, Host, Loss, MultiOp, NewNode, NodeData, NodePath,
    Reply, Request, Server, SessionEnd, SubmitError, WatchEvent, WatchEventKind, WatchKind,
};

use crate::meaning;
use crate::program::{Answer, Grant, Program, Step, What};
use crate::replies::{self, Body, Created, Part};

/// Runs a program to its end, and the session to its own.
pub(crate) fn check(program: &Program) {
    let now = Duration::from_hours(1);
    let mut run = Run {
        session: Session::new(program.config.clone(), None, now),
        hosts: program.hosts.clone(),
        program,
        now,
        is_dialing: false,
        connection: None,
        submitted: BTreeMap::new(),
        waiting: VecDeque::new(),
        watches: BTreeMap::new(),
        predicted: VecDeque::new(),
        session_id: 0,
        zxid: 0,
        newest_seen: 0,
        epoch: 0,
        is_closing: false,
        forgotten: 0,
        end: None,
    };
    run.settle();
    for step in &program.steps {
        run.step(step);
        run.settle();
    }
    run.step(&Step::Abandon);
    run.settle();
    let open = run.submitted.values();
    let open: Vec<_> = open
        .filter(|request| !matches!(request.state, State::Over | State::TakenBack))
        .collect();
    assert!(open.is_empty(), "no outcome: {open:?}");
}

struct Run<'a> {
    session: Session,
    hosts: Vec<Host>,
    program: &'a Program,
    now: Duration,
    is_dialing: bool,
    connection: Option<Connection>,
    submitted: BTreeMap<Ticket, Submitted>,
    /// Requests of which no complete frame has left, in the order in which they were submitted.
    waiting: VecDeque<Ticket>,
    watches: BTreeMap<Ticket, (String, WatchKind)>,
    /// What the session has to report of the replies and notifications that it has received.
    predicted: VecDeque<Predicted>,
    session_id: i64,
    /// The newest transaction of the server.
    zxid: i64,
    /// The newest one of an accepted reply.
    newest_seen: i64,
    epoch: u64,
    is_closing: bool,
    /// How many watches may have been removed from the server.
    forgotten: usize,
    end: Option<SessionEnd>,
}

#[derive(Debug)]
struct Submitted {
    /// The opcode and what follows.
    content: Vec<u8>,
    shape: ReplyShape,
    watch: Option<(String, WatchKind)>,
    is_watch_dropped: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    TakenBack,
    /// A complete frame has left over the connection of this number.
    Left(u64),
    Over,
}

enum Predicted {
    Answered(Ticket, Outcome),
    /// The reply, with this transaction, cannot be read.
    Unreadable(Ticket, i64),
    Fired(BTreeSet<Ticket>, WatchEvent),
}

/// The other end of a connection.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they change independently of each other"
)]
struct Connection {
    /// What has left and is not a complete frame yet.
    stream: BytesMut,
    has_handshake: bool,
    has_replied_to_handshake: bool,
    /// Whether the session has received that reply.
    is_up: bool,
    /// How many of the session's own credentials have arrived.
    credentials: usize,
    /// What was set when the session was granted, less what has arrived.
    unset_watches: BTreeSet<(String, WatchKind)>,
    newest_at_handshake: i64,
    /// What has arrived and the server has not replied to.
    unanswered: VecDeque<Arrived>,
    /// What has arrived and the session has not received the reply to.
    in_flight: VecDeque<Arrived>,
    /// What the session has not received yet.
    inbound: VecDeque<u8>,
    frames: VecDeque<Frame>,
    /// Whether the server has sent what means nothing: then only the outcomes are judged.
    is_garbled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    xid: i32,
    opcode: i32,
    ticket: Option<Ticket>,
    shape: ReplyShape,
}

/// A frame of the server.
struct Frame {
    /// How many of its bytes the session has not received.
    missing: usize,
    /// How many bytes may be missing of what decides.
    skipped: usize,
    is_too_long: bool,
    /// `None` once it is known.
    meaning: Option<Meaning>,
}

enum Meaning {
    Granted {
        session_id: i64,
        timeout: Duration,
    },
    Reply {
        xid: i32,
        zxid: i64,
        result: Result<Reply, ErrorCode>,
        is_malformed: bool,
    },
    /// `None` if it is of no node that a watch can be at.
    Notification(Option<WatchEvent>),
}

impl Run<'_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Submit { what, path } => self.submit(*what, path),
            Step::Cancel(at) => self.cancel(*at),
            Step::ForgetWatch(at) => self.forget_watch(*at),
            Step::Dial => self.dial(),
            Step::Dialed => self.dialed(),
            Step::DialFails => {
                if std::mem::take(&mut self.is_dialing) {
                    self.lose("refused");
                }
            }
            Step::Write(limit) => self.write(*limit),
            Step::Grant(grant) => self.grant(*grant),
            Step::Answer { how, seed } => self.answer(*how, seed),
            Step::Notify { kind, path } => self.notify(*kind, path),
            Step::Garbage(bytes) => {
                if let Some(connection) = &mut self.connection {
                    connection.is_garbled = true;
                    connection.inbound.extend(bytes);
                }
            }
            Step::Deliver(limit) => self.deliver(*limit),
            Step::Connect => self.connect(),
            Step::Exchange => self.exchange(),
            Step::Cut => {
                if self.connection.take().is_some() {
                    self.lose("cut");
                }
            }
            Step::Pass(time) => self.pass_to(self.now + *time),
            Step::PassToTimeout => {
                if let Some(moment) = self.session.poll_timeout() {
                    self.pass_to(self.now.max(moment));
                }
            }
            Step::UpdateHosts(hosts) => {
                self.session.update_hosts(hosts, self.now);
                self.hosts.clone_from(hosts);
            }
            Step::Close => {
                self.session.close();
                self.is_closing = true;
            }
            Step::Abandon => self.session.abandon(SessionEnd::RuntimeEnded),
        }
    }

    /// Does what a driver does after each step, and judges what the session reports.
    fn settle(&mut self) {
        if let Some(question) = self.session.poll_lookup(self.now) {
            let servers = self.hosts.iter().flat_map(servers_of).collect();
            self.session.servers_found(question, servers, self.now);
        }
        self.drain();
        if (self.is_dialing || self.connection.is_some()) && !self.session.wants_connection() {
            self.is_dialing = false;
            self.connection = None;
            self.lose("not wanted");
            self.drain();
        }
        if self.connection.is_none() {
            let left = |request: &Submitted| matches!(request.state, State::Left(_));
            let left = self.submitted.values().find(|request| left(request));
            assert!(left.is_none(), "sent, and the connection is lost: {left:?}");
        }
        if self.end.is_some() {
            assert_eq!(self.session.poll_timeout(), None);
            assert!(!self.session.wants_connection());
            assert_eq!(self.session.transmit().count(), 0, "it is over");
            assert!(self.waiting.is_empty(), "no outcome: {:?}", self.waiting);
        } else {
            assert_eq!(self.session.id(), self.session_id);
            assert_eq!(self.session.last_zxid(), self.newest_seen);
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.session.poll_event() {
            assert_eq!(self.end, None, "{event:?} after the end");
            let is_loss = matches!(event, Event::Disconnected { .. } | Event::Over(_));
            if is_loss {
                assert!(
                    self.predicted.is_empty(),
                    "a reply or an event has no effect"
                );
            }
            match event {
                Event::Answered(ticket, outcome) => self.answered(ticket, outcome),
                Event::Fired {
                    ticket,
                    event,
                    epoch,
                } => self.fired(ticket, &event, epoch),
                Event::Connected {
                    epoch,
                    timeout,
                    read_only,
                } => {
                    assert_eq!(epoch, self.epoch);
                    assert!(!timeout.is_zero(), "no session is granted");
                    assert!(!read_only, "no server is read-only");
                }
                Event::Over(end) => self.end = Some(end),
                // What follows from the loss is judged in `settle`.
                Event::Disconnected { .. } => {}
            }
        }
        let connection = self.connection.as_ref();
        if connection.is_some_and(|connection| connection.is_garbled) {
            // Whatever it made of that, it believes.
            self.newest_seen = self.session.last_zxid();
        } else if self.session.wants_connection() {
            assert!(
                self.predicted.is_empty(),
                "a reply or an event has no effect"
            );
        }
    }

    fn answered(&mut self, ticket: Ticket, outcome: Outcome) {
        let request = self.submitted.get_mut(&ticket).expect("it was submitted");
        let state = std::mem::replace(&mut request.state, State::Over);
        match &outcome {
            Outcome::Done { epoch, .. }
            | Outcome::Refused { epoch, .. }
            | Outcome::Unknown {
                epoch,
                why: Loss::ServerFailed(_),
            } => {
                assert_eq!(state, State::Left(*epoch), "{outcome:?}");
                let is_garbled = self.connection.as_ref().is_none_or(|it| it.is_garbled);
                if is_garbled {
                    self.set_watch(ticket, &outcome);
                } else {
                    let Some(Predicted::Answered(of, expected)) = self.predicted.pop_front() else {
                        panic!("no reply to {ticket:?} was delivered, but it is {outcome:?}");
                    };
                    assert_eq!((of, expected), (ticket, outcome));
                }
            }
            Outcome::Unreadable { zxid, epoch, .. } => {
                assert_eq!(state, State::Left(*epoch), "{outcome:?}");
                // A watch that it has set is removed again.
                self.forgotten += 1;
                if !self.connection.as_ref().is_none_or(|it| it.is_garbled) {
                    let Some(Predicted::Unreadable(of, expected)) = self.predicted.pop_front()
                    else {
                        panic!("no such reply to {ticket:?} was delivered: {outcome:?}");
                    };
                    assert_eq!((of, expected), (ticket, *zxid));
                }
            }
            Outcome::Unknown { epoch, .. } => assert_eq!(state, State::Left(*epoch), "{outcome:?}"),
            Outcome::NotSent { .. } => {
                assert_eq!(state, State::Waiting, "a complete frame has left");
                self.waiting.retain(|waiting| *waiting != ticket);
            }
        }
    }

    fn fired(&mut self, ticket: Ticket, event: &WatchEvent, epoch: u64) {
        assert_eq!(epoch, self.epoch);
        let is_garbled = self.connection.as_ref().is_none_or(|it| it.is_garbled);
        if is_garbled {
            let (_, kind) = self.watches.get(&ticket).expect("it is a watch");
            if !is_persistent(*kind) {
                self.watches.remove(&ticket);
            }
            return;
        }
        let Some(Predicted::Fired(tickets, expected)) = self.predicted.front_mut() else {
            panic!("no event was delivered, but {ticket:?} has fired: {event:?}");
        };
        assert_eq!(event, expected);
        assert!(
            tickets.remove(&ticket),
            "{event:?} does not concern {ticket:?}"
        );
        if tickets.is_empty() {
            self.predicted.pop_front();
        }
    }

    fn submit(&mut self, what: What, path: &str) {
        let sent = request(what, &self.outer(path), self.submitted.len());
        let request = request(what, path, self.submitted.len());
        let mut content = BytesMut::new();
        let len = sent.encode(Xid::FIRST, &mut content);
        let config = &self.program.config;
        match self.session.submit(&request) {
            Ok(ticket) => {
                assert_eq!((self.end, self.is_closing), (None, false));
                assert!(len <= config.max_request, "{len} bytes are accepted");
                self.waiting.push_back(ticket);
                let submitted = Submitted {
                    content: content[2 * PREFIX..].to_vec(),
                    shape: request.reply_shape(),
                    watch: watch_of(&request),
                    is_watch_dropped: false,
                    state: State::Waiting,
                };
                assert!(
                    self.submitted.insert(ticket, submitted).is_none(),
                    "a ticket comes twice"
                );
                self.assert_that_what_waits_is_within_the_limits();
            }
            Err(SubmitError::Over(_)) => assert!(self.end.is_some() || self.is_closing),
            Err(SubmitError::TooLong { .. }) => assert!(len > config.max_request),
            Err(SubmitError::Busy { requests, bytes }) => {
                assert!(requests >= config.max_queued || bytes + len > config.max_queued_bytes);
                let waiting = self.waiting.iter().map(|ticket| &self.submitted[ticket]);
                let waiting: usize = waiting.map(|one| PREFIX + one.content.len()).sum();
                let most = waiting + self.forgotten * REMOVAL;
                assert!(bytes <= most, "it counts {bytes} bytes, and {most} wait");
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn assert_that_what_waits_is_within_the_limits(&self) {
        let config = &self.program.config;
        let most = config.max_queued + config.max_in_flight;
        assert!(
            self.waiting.len() <= most,
            "{} requests wait",
            self.waiting.len()
        );
        let bytes = |ticket| self.submitted[ticket].content.len();
        let bytes: usize = self.waiting.iter().map(bytes).sum();
        // One request that is too great for the queue may be alone in it.
        let most = config.max_queued_bytes + (1 + config.max_in_flight) * config.max_request;
        assert!(bytes <= most, "{bytes} bytes wait");
    }

    /// Returns the server's name of a path of the session; one that does not begin with `/` is not below the chroot.
    fn outer(&self, path: &str) -> String {
        let chroot = self.program.config.chroot.to_string();
        match path {
            _ if chroot == "/" => path.to_owned(),
            "" => String::new(),
            "/" => chroot,
            path => chroot + path,
        }
    }

    /// Returns what the server sends so that the session makes this reply of it, and what it makes: `None` if a new node
    /// is elsewhere, or a path is none. Paths of this session's ephemeral nodes that are elsewhere are left out.
    fn outer_body(&self, mut body: Body) -> (Body, Option<Reply>) {
        let mut sent = body.clone();
        for path in new_paths(&mut sent) {
            *path = self.outer(path);
        }
        if let Body::Paths(paths) = &mut sent {
            for path in paths {
                *path = self.outer(path);
            }
        }
        let is_root = self.outer("/") == "/";
        let is_inside = |path: &String| is_root || path.starts_with('/');
        if let Body::Paths(paths) = &mut body {
            paths.retain(is_inside);
        }
        let are_inside = new_paths(&mut body).into_iter().all(|path| is_inside(path));
        let is_readable = are_inside && meaning::reply(&sent).is_ok();
        let made = meaning::reply(&body).ok().filter(|_| is_readable);
        (sent, made)
    }

    fn cancel(&mut self, at: usize) {
        let Some(ticket) = self.recent(at) else {
            return;
        };
        let request = self.submitted.get_mut(&ticket).expect("it was submitted");
        let is_waiting = request.state == State::Waiting;
        if self.session.cancel(ticket) {
            assert!(is_waiting, "{:?} is taken back", request.state);
            request.state = State::TakenBack;
            self.waiting.retain(|waiting| *waiting != ticket);
        } else if self.connection.is_none() {
            assert!(!is_waiting, "without a connection it is not taken back");
        }
    }

    fn forget_watch(&mut self, at: usize) {
        let Some(ticket) = self.recent(at) else {
            return;
        };
        self.session.forget_watch(ticket);
        self.forgotten += 1;
        let request = self.submitted.get_mut(&ticket).expect("it was submitted");
        if matches!(request.state, State::Waiting | State::Left(_)) {
            request.is_watch_dropped = true;
        }
        self.watches.remove(&ticket);
        assert!(!self.session.has_watch(ticket));
    }

    /// Returns one of the last requests.
    fn recent(&self, at: usize) -> Option<Ticket> {
        self.submitted.keys().rev().nth(at).copied()
    }

    fn dial(&mut self) {
        if self.is_dialing || self.connection.is_some() {
            return;
        }
        if self.session.poll_dial(self.now).is_some() {
            assert_eq!(self.end, None, "it is over");
            self.is_dialing = true;
        }
    }

    fn dialed(&mut self) {
        if !std::mem::take(&mut self.is_dialing) {
            return;
        }
        self.session.dialed(self.now);
        self.connection = Some(Connection {
            newest_at_handshake: self.newest_seen,
            ..Connection::default()
        });
    }

    /// Reports a connection or a dial that is of no use.
    fn lose(&mut self, why: &str) {
        let why = Loss::Broken(why.to_owned());
        self.session.connection_lost(&why, self.now);
    }

    fn connect(&mut self) {
        if self.connection.is_some() {
            return;
        }
        self.dial();
        self.dialed();
        self.write(usize::MAX);
        let timeout = crate::program::SESSION_TIMEOUT;
        self.grant(Grant::Session { timeout });
        self.deliver(usize::MAX);
    }

    fn exchange(&mut self) {
        self.write(usize::MAX);
        let unanswered = |it: &Connection| it.unanswered.len();
        for _ in 0..self.connection.as_ref().map_or(0, unanswered) {
            self.answer(Answer::Done, &[]);
        }
        self.deliver(usize::MAX);
    }

    fn pass_to(&mut self, now: Duration) {
        self.now = now;
        // A connection that is given up may end the session at once.
        for _ in 0..2 {
            self.session.handle_timeout(now);
        }
        let is_idle =
            !self.is_dialing && self.connection.is_none() || !self.session.wants_connection();
        if let Some(next) = self.session.poll_timeout() {
            // Otherwise it asks for a dial.
            assert!(
                next > now || is_idle,
                "it is to be woken at {next:?}, and it is {now:?}"
            );
        }
    }

    /// Lets the session write.
    fn write(&mut self, limit: usize) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let mut written = 0;
        let slices: Vec<_> = self.session.transmit().collect();
        let pings = slices.iter().filter(|slice| slice[..] == PING_FRAME);
        let pings = pings.count();
        assert!(pings <= 1, "{pings} pings wait to be written");
        for slice in slices {
            let part = &slice[..slice.len().min(limit - written)];
            connection.stream.extend_from_slice(part);
            written += part.len();
        }
        self.session.transmitted(written, self.now);
        while let Some(frame) = self.take_frame() {
            self.arrive(&frame);
        }
    }

    /// Takes a complete frame that has left.
    fn take_frame(&mut self) -> Option<Bytes> {
        let stream = &mut self.connection.as_mut()?.stream;
        let len = i32::from_be_bytes(*stream.first_chunk()?);
        let len = usize::try_from(len).expect("a frame has a length");
        if stream.len() < PREFIX + len {
            return None;
        }
        let frame = stream.split_to(PREFIX + len).freeze();
        Some(frame.slice(PREFIX..))
    }

    /// Judges a complete frame that has left.
    fn arrive(&mut self, frame: &Bytes) {
        let connection = self.connection.as_mut().expect("there is a connection");
        if !connection.has_handshake {
            connection.has_handshake = true;
            assert_eq!(long_at(frame, 4), connection.newest_at_handshake);
            assert_eq!(long_at(frame, 16), self.session_id);
            return;
        }
        let (xid, opcode) = (int_at(frame, 0), int_at(frame, 4));
        let mut arrived = Arrived {
            xid,
            opcode,
            ticket: None,
            shape: ReplyShape::Empty,
        };
        let own_credentials = self.program.config.auth.len();
        match opcode {
            AUTH if connection.credentials < own_credentials => {
                let expected = &self.program.config.auth[connection.credentials];
                assert!(frame.ends_with(&expected.data), "other credentials");
                connection.credentials += 1;
            }
            SET_WATCHES | SET_WATCHES_2 => {
                assert_eq!(long_at(frame, 8), connection.newest_at_handshake);
                for watch in set_watches(&frame[16..]) {
                    let is_set = connection.unset_watches.remove(&watch);
                    assert!(
                        is_set || connection.is_garbled,
                        "{watch:?} is set, and is no watch or is set twice"
                    );
                }
            }
            PING => assert_eq!(xid, -2),
            REMOVE_WATCHES => self.removed(frame),
            CLOSE => {
                assert!(self.is_closing);
                assert!(self.waiting.is_empty(), "requests are behind the close");
            }
            _ => arrived = self.request_left(arrived, frame),
        }
        let connection = self.connection.as_mut().expect("there is a connection");
        if opcode != AUTH || arrived.ticket.is_some() {
            let is_complete = connection.credentials == own_credentials;
            assert!(is_complete, "{opcode} comes before the credentials");
        }
        if !matches!(opcode, AUTH | SET_WATCHES | SET_WATCHES_2) && !connection.is_garbled {
            let missing = &connection.unset_watches;
            assert!(
                missing.is_empty(),
                "{opcode} comes before the watches {missing:?}"
            );
        }
        connection.unanswered.push_back(arrived);
        connection.in_flight.push_back(arrived);
    }

    /// Judges a frame of the program's.
    fn request_left(&mut self, mut arrived: Arrived, frame: &Bytes) -> Arrived {
        let ticket = self.waiting.pop_front().expect("something was submitted");
        let request = self.submitted.get_mut(&ticket).expect("it was submitted");
        assert_eq!(
            frame[PREFIX..],
            request.content,
            "another request was before it"
        );
        request.state = State::Left(self.epoch);
        arrived.ticket = Some(ticket);
        arrived.shape = request.shape;
        let connection = self.connection.as_ref().expect("there is a connection");
        assert!(connection.is_up, "there is no session yet");
        let in_flight = connection.in_flight.iter();
        let in_flight = in_flight.filter(|arrived| arrived.ticket.is_some()).count();
        let most = self.program.config.max_in_flight;
        assert!(
            in_flight < most || connection.is_garbled,
            "{in_flight} were in flight"
        );
        arrived
    }

    /// Judges a request that removes watches from the server: it must not remove one that is needed.
    fn removed(&self, frame: &Bytes) {
        let len = usize::try_from(int_at(frame, 8)).expect("a path has a length");
        let path = std::str::from_utf8(&frame[12..12 + len]).expect("it is a text");
        let watcher_type = int_at(frame, 12 + len);
        let connection = self.connection.as_ref().expect("there is a connection");
        let in_flight = connection.in_flight.iter();
        let asked_for = in_flight.filter_map(|arrived| {
            let request = &self.submitted[&arrived.ticket?];
            let is_asked_for =
                request.state == State::Left(self.epoch) && !request.is_watch_dropped;
            request.watch.as_ref().filter(|_| is_asked_for)
        });
        for (watched, kind) in self.watches.values().chain(asked_for) {
            let is_meant = match kind {
                WatchKind::Child => [1, 3].contains(&watcher_type),
                WatchKind::Data | WatchKind::Exist => [2, 3].contains(&watcher_type),
                WatchKind::Persistent => [3, 4].contains(&watcher_type),
                WatchKind::PersistentRecursive => [3, 5].contains(&watcher_type),
            };
            assert!(
                self.outer(watched) != path || !is_meant,
                "a needed watch is removed: {kind:?} of {path}"
            );
        }
    }

    fn grant(&mut self, grant: Grant) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        if !connection.has_handshake || connection.has_replied_to_handshake {
            return;
        }
        connection.has_replied_to_handshake = true;
        let own = if self.session_id == 0 {
            SESSION_ID
        } else {
            self.session_id
        };
        let (session_id, timeout) = match grant {
            Grant::Session { timeout } => (own, timeout),
            Grant::AnotherSession => (own + 1, crate::program::SESSION_TIMEOUT),
            Grant::NoSession => (0, Duration::ZERO),
        };
        let millis = i32::try_from(timeout.as_millis()).expect("it is short");
        let payload = replies::granted(millis, session_id, &[7; 16], Some(false));
        self.send(
            &payload,
            Meaning::Granted {
                session_id,
                timeout,
            },
        );
    }

    fn answer(&mut self, how: Answer, seed: &[u8]) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let at = usize::from(matches!(how, Answer::Early));
        if !connection.has_replied_to_handshake {
            return;
        }
        let Some(to) = connection.unanswered.remove(at) else {
            return;
        };
        let drawn = replies::draw(to.shape, &mut Unstructured::new(seed));
        let drawn = drawn.unwrap_or_else(|_| {
            let zeros = [0; 128];
            replies::draw(to.shape, &mut Unstructured::new(&zeros)).expect("zeros suffice")
        });
        let (sent, reply) = self.outer_body(drawn);
        let mut is_malformed = reply.is_none();
        let reply = reply.unwrap_or(Reply::Empty);
        let mut body = sent.encode();
        let (mut xid, mut code) = (to.xid, 0);
        match how {
            Answer::Refused(refusal) => {
                code = refusal;
                body.clear();
                is_malformed = false;
            }
            Answer::CutShort => is_malformed |= body.pop().is_some(),
            // Not one that announces an event.
            Answer::WrongNumber(delta) if xid > 0 && xid + delta != -1 => xid += delta,
            Answer::Done | Answer::Early | Answer::WrongNumber(_) => {}
        }
        self.zxid += 1;
        let zxid = self.zxid;
        let result = ErrorCode::new(code).map_or(Ok(reply), Err);
        let payload = replies::reply(xid, zxid, code, &body);
        self.send(
            &payload,
            Meaning::Reply {
                xid,
                zxid,
                result,
                is_malformed,
            },
        );
    }

    fn notify(&mut self, kind: i32, path: &str) {
        let is_granted = self
            .connection
            .as_ref()
            .is_some_and(|it| it.has_replied_to_handshake);
        if !is_granted {
            return;
        }
        let kind_of_event = match kind {
            1 => Some(WatchEventKind::Created),
            2 => Some(WatchEventKind::Deleted),
            3 => Some(WatchEventKind::DataChanged),
            4 => Some(WatchEventKind::ChildrenChanged),
            _ => None,
        };
        let event = NodePath::parse(path).ok().map(|path| WatchEvent {
            path,
            kind: kind_of_event,
            zxid: None,
        });
        self.send(
            &replies::notification(kind, &self.outer(path)),
            Meaning::Notification(event),
        );
    }

    /// Puts a frame of the server on its way.
    fn send(&mut self, payload: &[u8], meaning: Meaning) {
        let connection = self.connection.as_mut().expect("there is a connection");
        let frame = replies::framed(payload);
        let is_too_long = payload.len() > self.program.config.max_reply;
        let skipped = if is_too_long {
            frame.len() - PREFIX - HEADER
        } else {
            0
        };
        connection.inbound.extend(&frame);
        connection.frames.push_back(Frame {
            missing: frame.len(),
            skipped,
            is_too_long,
            meaning: Some(meaning),
        });
    }

    /// Lets the session receive, and predicts what it reports.
    fn deliver(&mut self, limit: usize) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let mut len = limit.min(connection.inbound.len());
        let bytes: Vec<u8> = connection.inbound.drain(..len).collect();
        if bytes.is_empty() {
            return;
        }
        let mut complete = Vec::new();
        while len > 0
            && let Some(first) = connection.frames.front_mut()
        {
            let part = len.min(first.missing);
            first.missing -= part;
            len -= part;
            if first.missing <= first.skipped {
                let meaning = first.meaning.take();
                complete.extend(meaning.map(|meaning| (meaning, first.is_too_long)));
            }
            if first.missing > 0 {
                break;
            }
            connection.frames.pop_front();
        }
        let is_garbled = connection.is_garbled;
        let mut is_broken = false;
        for (meaning, is_too_long) in complete {
            is_broken = is_broken || !self.predict(meaning, is_too_long, is_garbled);
        }
        self.session.buffer().extend_from_slice(&bytes);
        self.session.received(self.now);
        self.note_grant();
        let is_wanted = self.session.wants_connection();
        if !is_garbled {
            assert_eq!(is_wanted, !is_broken, "is the connection kept?");
        }
        let rest = self.session.buffer().len();
        let most = self.program.config.max_reply + PREFIX;
        assert!(
            rest < most || !is_wanted,
            "{rest} bytes wait for the rest of a frame"
        );
    }

    /// Notes whether the session was granted. It reports that once its credentials are accepted.
    fn note_grant(&mut self) {
        let epoch = self.session.epoch();
        if epoch != self.epoch {
            assert!(epoch > self.epoch, "{epoch} after {}", self.epoch);
            self.epoch = epoch;
            self.session_id = self.session.id();
            let connection = self.connection.as_mut().expect("there is a connection");
            connection.is_up = true;
        }
    }

    /// Predicts what a message causes; returns whether the connection is of use after it.
    fn predict(&mut self, meaning: Meaning, is_too_long: bool, is_garbled: bool) -> bool {
        match meaning {
            Meaning::Granted { .. } | Meaning::Notification(_) if is_too_long => false,
            Meaning::Granted {
                session_id,
                timeout,
            } => {
                let is_resumed = self.session_id == 0 || self.session_id == session_id;
                let watches = self.watches.values();
                let watches = watches
                    .map(|(path, kind)| (self.outer(path), *kind))
                    .collect();
                let connection = self.connection.as_mut().expect("there is a connection");
                connection.unset_watches = watches;
                is_resumed && !timeout.is_zero()
            }
            Meaning::Notification(None) => true,
            Meaning::Notification(Some(event)) => {
                let fired = event
                    .kind
                    .map(|kind| self.fire(event.path.as_str(), kind, is_garbled));
                if let Some(tickets) = fired.filter(|tickets| !tickets.is_empty()) {
                    self.predicted.push_back(Predicted::Fired(tickets, event));
                }
                true
            }
            Meaning::Reply {
                xid,
                zxid,
                result,
                is_malformed,
            } => {
                let connection = self.connection.as_mut().expect("there is a connection");
                // Replies to pings, credentials and watches may overtake others.
                let is_next = |arrived: &Arrived| arrived.xid == xid || xid >= 0 && arrived.xid > 0;
                let at = connection.in_flight.iter().position(is_next);
                let Some(to) = at.and_then(|at| connection.in_flight.get(at).copied()) else {
                    return false;
                };
                if to.xid != xid {
                    return false;
                }
                if !is_garbled {
                    self.newest_seen = self.newest_seen.max(zxid);
                }
                let is_unreadable = match to.shape {
                    ReplyShape::Empty => is_too_long,
                    _ => is_too_long || is_malformed,
                };
                let is_unreadable = is_unreadable && result.is_ok();
                if is_unreadable && to.ticket.is_none() {
                    return false;
                }
                connection.in_flight.remove(at.unwrap_or_default());
                let Some(ticket) = to.ticket else {
                    let is_refused = result.is_err();
                    let is_vital = matches!(to.opcode, AUTH | SET_WATCHES | SET_WATCHES_2);
                    return to.opcode != CLOSE && !(is_vital && is_refused);
                };
                if is_garbled {
                    return true;
                }
                if is_unreadable {
                    self.predicted
                        .push_back(Predicted::Unreadable(ticket, zxid));
                    return true;
                }
                let epoch = self.epoch;
                let outcome = match result {
                    // If the number is that of another request.
                    Ok(_) if to.shape == ReplyShape::Empty => {
                        let reply = Reply::Empty;
                        Outcome::Done { reply, zxid, epoch }
                    }
                    Ok(reply) => Outcome::Done { reply, zxid, epoch },
                    Err(code) if code == ErrorCode::OPERATION_TIMEOUT => {
                        let why = Loss::ServerFailed(code);
                        Outcome::Unknown { epoch, why }
                    }
                    Err(code) => Outcome::Refused { code, zxid, epoch },
                };
                self.set_watch(ticket, &outcome);
                self.predicted
                    .push_back(Predicted::Answered(ticket, outcome));
                true
            }
        }
    }

    /// Adds the watch that the server has set with this answer, if any.
    fn set_watch(&mut self, ticket: Ticket, outcome: &Outcome) {
        let request = &self.submitted[&ticket];
        let Some((path, kind)) = request.watch.clone() else {
            return;
        };
        let is_exists = request.content.starts_with(&EXISTS.to_be_bytes());
        let kind = match outcome {
            Outcome::Done { .. } => kind,
            Outcome::Refused { code, .. } if *code == ErrorCode::NO_NODE && is_exists => {
                WatchKind::Exist
            }
            _ => return,
        };
        if !request.is_watch_dropped {
            self.watches.insert(ticket, (path, kind));
        }
    }

    /// Returns which watches an event concerns; those that fire once are gone then.
    fn fire(&mut self, path: &str, event: WatchEventKind, is_garbled: bool) -> BTreeSet<Ticket> {
        if is_garbled {
            return BTreeSet::new();
        }
        let concerns = |watched: &str, kind: WatchKind| match kind {
            WatchKind::Data | WatchKind::Exist => {
                watched == path && event != WatchEventKind::ChildrenChanged
            }
            WatchKind::Child => {
                let is_meant = [WatchEventKind::ChildrenChanged, WatchEventKind::Deleted];
                watched == path && is_meant.contains(&event)
            }
            WatchKind::Persistent => watched == path,
            WatchKind::PersistentRecursive => {
                let is_below = path.starts_with(&format!("{}/", watched.trim_end_matches('/')));
                event != WatchEventKind::ChildrenChanged && (watched == path || is_below)
            }
        };
        let fired = self
            .watches
            .iter()
            .filter(|(_, (path, kind))| concerns(path, *kind));
        let fired: BTreeSet<_> = fired.map(|(ticket, _)| *ticket).collect();
        self.watches
            .retain(|ticket, (_, kind)| is_persistent(*kind) || !fired.contains(ticket));
        fired
    }
}

/// Returns the addresses of a host: one or two.
fn servers_of(host: &Host) -> impl Iterator<Item = Server> {
    let addresses = 1..=1 + u8::try_from(host.name.len() % 2).unwrap_or_default();
    let host = host.clone();
    addresses.map(move |last| Server {
        host: host.clone(),
        address: ([10, 0, 0, last], host.port).into(),
    })
}

/// Returns a request; those without a watch differ by their number.
fn request(what: What, at: &str, number: usize) -> Request {
    let (watched, watch) = (node_path(at), true);
    let numbered = format!("{}/{number}", at.trim_end_matches('/'));
    let path = node_path(&numbered);
    match what {
        What::Sync => Request::Sync { path },
        What::Set(len) => Request::SetData {
            path,
            data: vec![b'x'; len].into(),
            version: None,
        },
        What::Create => Request::Create2(NewNode {
            path,
            data: NodeData::default(),
            acl: Acl::open(),
            mode: CreateMode::Persistent,
        }),
        What::Multi => Request::Multi(vec![MultiOp::Delete {
            path,
            version: None,
        }]),
        What::Get => Request::GetData {
            path: watched,
            watch,
        },
        What::Exists => Request::Exists {
            path: watched,
            watch,
        },
        What::Children => Request::GetChildren {
            path: watched,
            watch,
        },
        What::AddWatch { recursive } => Request::AddWatch {
            path: watched,
            recursive,
        },
        What::Auth => Request::Auth(Credentials {
            scheme: "digest".to_owned(),
            data: format!("user{number}").into(),
        }),
        What::Ephemerals => Request::GetEphemerals { prefix: numbered },
    }
}

fn node_path(text: &str) -> NodePath {
    text.parse().expect("it is a path")
}

/// Returns the paths of the new nodes in a reply.
fn new_paths(body: &mut Body) -> Vec<&mut String> {
    match body {
        Body::Created(Created { path, .. }) => vec![path],
        Body::Multi(Ok(parts)) => parts.iter_mut().filter_map(new_path).collect(),
        _ => Vec::new(),
    }
}

fn new_path(part: &mut Part) -> Option<&mut String> {
    match part {
        Part::Created(Created { path, .. }) => Some(path),
        Part::Deleted | Part::Set(_) | Part::Checked => None,
    }
}

fn watch_of(request: &Request) -> Option<(String, WatchKind)> {
    let (path, kind) = match request {
        Request::Exists { path, .. } | Request::GetData { path, .. } => (path, WatchKind::Data),
        Request::GetChildren { path, .. } => (path, WatchKind::Child),
        Request::AddWatch {
            path,
            recursive: false,
        } => (path, WatchKind::Persistent),
        Request::AddWatch {
            path,
            recursive: true,
        } => (path, WatchKind::PersistentRecursive),
        _ => return None,
    };
    Some((path.to_string(), kind))
}

const fn is_persistent(kind: WatchKind) -> bool {
    matches!(kind, WatchKind::Persistent | WatchKind::PersistentRecursive)
}

/// Returns the watches that are set, from the lists of data, exist, child, persistent and recursive watches.
fn set_watches(mut lists: &[u8]) -> Vec<(String, WatchKind)> {
    let take_int = |lists: &mut &[u8]| {
        let (int, rest) = lists.split_first_chunk().expect("there is a number");
        *lists = rest;
        usize::try_from(i32::from_be_bytes(*int)).expect("it is a length")
    };
    let kinds = [
        WatchKind::Data,
        WatchKind::Exist,
        WatchKind::Child,
        WatchKind::Persistent,
        WatchKind::PersistentRecursive,
    ];
    let mut watches = Vec::new();
    for kind in kinds {
        if lists.is_empty() {
            break;
        }
        for _ in 0..take_int(&mut lists) {
            let len = take_int(&mut lists);
            let (path, rest) = lists.split_at(len);
            lists = rest;
            let path = std::str::from_utf8(path).expect("it is a text");
            watches.push((path.to_owned(), kind));
        }
    }
    assert!(lists.is_empty(), "{} bytes are left", lists.len());
    watches
}

fn int_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(*bytes[at..].first_chunk().expect("there is a number"))
}

fn long_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(*bytes[at..].first_chunk().expect("there is a number"))
}

const PREFIX: usize = 4;
/// The length of a reply's header.
const HEADER: usize = 16;
/// The most bytes that a request to remove a watch has.
const REMOVAL: usize = 28;
const SESSION_ID: i64 = 0x100;
const EXISTS: i32 = 3;
const PING: i32 = 11;
/// The length, the number and the opcode of a ping.
const PING_FRAME: [u8; 12] = [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11];
const REMOVE_WATCHES: i32 = 18;
const AUTH: i32 = 100;
const SET_WATCHES: i32 = 101;
const SET_WATCHES_2: i32 = 105;
const CLOSE: i32 = -11;
