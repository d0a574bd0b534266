//! Decides what happens to each frame: forward it at once, later or on release, discard it, or cut the connection.
//!
//! The caller reports what arrives and when, counted from the proxy's start, and carries out the returned [`Decision`].
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::event::Event;
use super::event::EventKind;
use super::event::EventLog;
use super::matching::Direction;
use super::matching::Frame;
use super::matching::FrameInfo;
use super::matching::Match;
use super::protocol_state::Message;
use super::protocol_state::ProtocolState;
use super::routing::Clients;
use super::routing::Route;
use super::routing::Routing;
use super::rule_table::Action;
use super::rule_table::Occurrence;
use super::rule_table::RuleId;
use super::rule_table::RuleTable;
use crate::sockets::Close;
use crate::wire::Request;
use crate::wire::frame::Piece;
use crate::wire::handshake::Connect;

/// The number of a connection.
pub(super) type LinkId = u64;

/// The state of a proxy, without its sockets and its clock.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) events: EventLog,
    pub(super) routing: Routing,
    rules: RuleTable,
    servers: BTreeMap<u32, SocketAddr>,
    /// Every session that a server has granted through the proxy, with its current connection and server.
    sessions: BTreeMap<i64, Option<(LinkId, u32)>>,
    links: BTreeMap<LinkId, Link>,
    last_link: LinkId,
    /// The held frames, with the rule that holds each, and its connection.
    held: BTreeMap<HoldId, (RuleId, LinkId)>,
    last_hold: u64,
}

#[derive(Debug, Default)]
struct Link {
    server: Option<u32>,
    session: Option<i64>,
    protocol: ProtocolState,
    /// When the newest frame of each direction is due; later frames are not due earlier.
    due: [Duration; 2],
    /// The rule that discards everything.
    black_hole: Option<RuleId>,
    /// How to cut it, if a cut was requested.
    cut: Option<Close>,
    /// Whether the client's side has been closed.
    is_cut: bool,
}

/// The number of a held frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HoldId(u64);

/// What to do with a piece of a stream, once the pieces before it are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) bytes: Vec<u8>,
    /// When to do it, at the earliest.
    pub(super) due: Duration,
    /// The hold that has to be released first.
    pub(super) hold: Option<HoldId>,
    pub(super) disposition: Disposition,
    /// What to log once it has been written.
    pub(super) on_written: WriteRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    Pass,
    Discard,
    Cut(Cut),
    PassThenCut(Cut),
}

/// How a connection is cut, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) rule: Option<RuleId>,
    pub(super) close: Close,
    /// The request whose reply is awaited afterwards, without the client.
    pub(super) answer_to: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteRecord {
    Nothing,
    Forwarded(Arc<Request>),
    Delivered(Arc<Request>, i32),
}

impl Core {
    pub(super) fn new(servers: BTreeMap<u32, SocketAddr>, events_kept: usize) -> Self {
        Self {
            events: EventLog::new(events_kept),
            routing: Routing::default(),
            rules: RuleTable::default(),
            servers,
            sessions: BTreeMap::new(),
            links: BTreeMap::new(),
            last_link: 0,
            held: BTreeMap::new(),
            last_hold: 0,
        }
    }

    /// Adds a connection to the proxy's address for the server `via`.
    pub(super) fn accepted(&mut self, at: Duration, via: u32) -> LinkId {
        self.last_link += 1;
        self.links.insert(self.last_link, Link::default());
        self.record(at, self.last_link, EventKind::Accepted { via });
        self.last_link
    }

    /// Returns the server for a connection, given the first piece that its client sent.
    pub(super) fn server_for(&self, via: u32, first: &Piece) -> Option<(u32, SocketAddr)> {
        let session = match first {
            Piece::Frame(_) => Connect::decode(first.payload()).ok(),
            _ => None,
        };
        let session = session.map(|connect| connect.session).filter(|&id| id != 0);
        let server = self.routing.server_for(via, session)?;
        self.servers.get(&server).map(|&address| (server, address))
    }

    pub(super) fn dialed(&mut self, link: LinkId, server: u32) {
        self.link(link).server = Some(server);
    }

    pub(super) fn refused(&mut self, at: Duration, link: LinkId) {
        self.record(at, link, EventKind::Refused);
    }

    /// Logs a piece that has arrived and decides what happens to it.
    pub(super) fn arrived(
        &mut self,
        at: Duration,
        id: LinkId,
        direction: Direction,
        piece: Piece,
    ) -> Decision {
        let was_raw = self.link(id).protocol.is_raw(direction);
        let message = self.record_arrival(at, id, direction, &piece);
        let bytes = piece.into_bytes();
        let on_written = match &message {
            Message::Request(request) => WriteRecord::Forwarded(Arc::clone(request)),
            Message::Reply { request, code } => WriteRecord::Delivered(Arc::clone(request), *code),
            _ => WriteRecord::Nothing,
        };
        let link = self.link(id);
        let mut decision = Decision {
            due: link.due[direction as usize],
            bytes,
            hold: None,
            disposition: Disposition::Pass,
            on_written,
        };
        if link.black_hole.is_some() {
            decision.disposition = Disposition::Discard;
            return decision;
        }
        // The rest of a long frame follows its beginning.
        if message == Message::Continuation && !was_raw {
            return decision;
        }
        let answer_to = match &message {
            Message::Request(request) => Some(request.xid),
            _ => None,
        };
        let Some((rule, action)) = self.matching_rule(id, direction, &message) else {
            return decision;
        };
        let cut = |close| Cut {
            rule: Some(rule),
            close,
            answer_to,
        };
        match action {
            Action::DropThenCut(close) => decision.disposition = Disposition::Cut(cut(close)),
            Action::ForwardThenCut(close) => {
                decision.disposition = Disposition::PassThenCut(cut(close));
            }
            _ => self.record_rule(at, id, rule),
        }
        let link = self.link(id);
        match action {
            Action::Delay(delay) => decision.due = decision.due.max(at + delay),
            Action::Rate(rate) => {
                decision.due = decision.due.max(at) + time_for(decision.bytes.len(), rate);
            }
            Action::Hold => {
                self.last_hold += 1;
                let hold = HoldId(self.last_hold);
                self.held.insert(hold, (rule, id));
                decision.hold = Some(hold);
            }
            Action::BlackHole => {
                link.black_hole = Some(rule);
                decision.disposition = Disposition::Discard;
                self.record(at, id, EventKind::BlackHoled);
            }
            Action::Pass | Action::DropThenCut(_) | Action::ForwardThenCut(_) => {}
        }
        self.link(id).due[direction as usize] = decision.due;
        decision
    }

    /// Logs a piece that arrived from the server after the client was cut off.
    ///
    /// Returns the xid of the request if the piece is a reply.
    pub(super) fn arrived_after_cut(
        &mut self,
        at: Duration,
        id: LinkId,
        piece: &Piece,
    ) -> Option<i32> {
        match self.record_arrival(at, id, Direction::Reply, piece) {
            Message::Reply { request, .. } => Some(request.xid),
            _ => None,
        }
    }

    /// Logs that a piece was written.
    pub(super) fn written(&mut self, at: Duration, link: LinkId, on_written: WriteRecord) {
        match on_written {
            WriteRecord::Nothing => {}
            WriteRecord::Forwarded(request) => self.record(at, link, EventKind::Forwarded(request)),
            WriteRecord::Delivered(request, code) => {
                self.record(at, link, EventKind::Delivered { request, code });
            }
        }
    }

    /// Logs that the client's side of a connection was cut.
    pub(super) fn cut(&mut self, at: Duration, link: LinkId, cut: Cut) {
        let close = cut.close;
        let rule = cut.rule.map(|rule| {
            self.rules.count_applied(rule);
            self.rules.describe(rule).into()
        });
        self.record(at, link, EventKind::Cut { close, rule });
        self.disconnect(link);
        self.link(link).is_cut = true;
    }

    /// Logs the end of a connection and removes it.
    pub(super) fn ended(&mut self, at: Duration, link: LinkId) {
        self.record(at, link, EventKind::Closed);
        self.disconnect(link);
        self.held.retain(|_, (_, on)| *on != link);
        self.links.remove(&link);
    }

    pub(super) fn is_raw(&self, link: LinkId, direction: Direction) -> bool {
        self.links
            .get(&link)
            .is_some_and(|link| link.protocol.is_raw(direction))
    }

    pub(super) fn is_black_holed(&self, link: LinkId) -> bool {
        self.links
            .get(&link)
            .is_some_and(|link| link.black_hole.is_some())
    }

    pub(super) fn is_held(&self, hold: HoldId) -> bool {
        self.held.contains_key(&hold)
    }

    /// Returns how to cut the connection, if that was requested.
    pub(super) fn requested_cut(&self, link: LinkId) -> Option<Close> {
        self.links.get(&link).and_then(|link| link.cut)
    }

    pub(super) fn add_rule(
        &mut self,
        matching: Match,
        occurrence: Occurrence,
        action: Action,
    ) -> RuleId {
        self.rules.add(matching, occurrence, action)
    }

    pub(super) fn rules(&self) -> &RuleTable {
        &self.rules
    }

    /// Releases the frames that a rule holds, and ends its black holes.
    pub(super) fn release(&mut self, rule: RuleId) {
        self.held.retain(|_, (by, _)| *by != rule);
        for link in self.links.values_mut() {
            if link.black_hole == Some(rule) {
                link.heal();
            }
        }
    }

    /// As [`release`](Self::release), and removes the rule.
    pub(super) fn remove_rule(&mut self, rule: RuleId) {
        self.rules.end(rule);
        self.release(rule);
    }

    /// Removes all rules and routes.
    pub(super) fn heal(&mut self) {
        self.rules.end_all();
        self.held.clear();
        self.routing = Routing::default();
        for link in self.links.values_mut() {
            if link.black_hole.is_some() {
                link.heal();
            }
        }
    }

    pub(super) fn route(&mut self, clients: Clients, route: Route) {
        self.routing.set(clients, route);
    }

    /// Requests a cut of open connections, and returns these.
    pub(super) fn request_cut(&mut self, clients: Clients, close: Close) -> BTreeSet<LinkId> {
        let mut wanted = BTreeSet::new();
        for (id, link) in &mut self.links {
            let meant = match clients {
                Clients::All => true,
                Clients::At(server) => link.server == Some(server),
                Clients::Session(session) => link.session == Some(session),
            };
            if meant && !link.is_cut {
                link.cut.get_or_insert(close);
                wanted.insert(*id);
            }
        }
        wanted
    }

    /// Returns whether one of these is not cut yet.
    pub(super) fn is_any_alive(&self, links: &BTreeSet<LinkId>) -> bool {
        links
            .iter()
            .any(|link| self.links.get(link).is_some_and(|link| !link.is_cut))
    }

    pub(super) fn sessions(&self) -> &BTreeMap<i64, Option<(LinkId, u32)>> {
        &self.sessions
    }

    pub(super) fn servers(&self) -> &BTreeMap<u32, SocketAddr> {
        &self.servers
    }

    pub(super) fn set_server(&mut self, id: u32, address: SocketAddr) {
        self.servers.insert(id, address);
    }

    fn record_arrival(
        &mut self,
        at: Duration,
        id: LinkId,
        direction: Direction,
        piece: &Piece,
    ) -> Message {
        let link = self.link(id);
        let message = link.protocol.read(direction, piece);
        let server = link.server;
        let what = match &message {
            Message::Connect { session } => {
                link.session = *session;
                EventKind::Connecting {
                    resumed: session.is_some(),
                }
            }
            Message::Connected {
                session,
                timeout,
                resumed,
            } => {
                link.session = Some(*session);
                self.sessions
                    .insert(*session, server.map(|server| (id, server)));
                EventKind::Connected {
                    timeout: *timeout,
                    resumed: *resumed,
                }
            }
            Message::SessionRefused => EventKind::SessionRefused,
            Message::Request(request) => EventKind::Requested(Arc::clone(request)),
            Message::Reply { request, code } => EventKind::Replied {
                request: Arc::clone(request),
                code: *code,
            },
            Message::Notification(path) => EventKind::Notified {
                path: Arc::clone(path),
            },
            Message::Word(word) => EventKind::FourLetterWord(word.clone()),
            Message::Continuation => return message,
            Message::Malformed => EventKind::NotUnderstood { direction },
        };
        self.record(at, id, what);
        message
    }

    fn matching_rule(
        &mut self,
        id: LinkId,
        direction: Direction,
        message: &Message,
    ) -> Option<(RuleId, Action)> {
        let link = self.links.get(&id)?;
        let (frame, code) = match message {
            Message::Connect { .. } | Message::Connected { .. } | Message::SessionRefused => {
                (Frame::Handshake, None)
            }
            Message::Request(request) => (Frame::Request(request), None),
            Message::Reply { request, code } => (Frame::Request(request), Some(*code)),
            Message::Notification(path) => (Frame::Notification(path), None),
            Message::Word(_) | Message::Continuation | Message::Malformed => (Frame::Unknown, None),
        };
        self.rules.first_match(&FrameInfo {
            direction,
            frame,
            session: link.session,
            server: link.server,
            code,
        })
    }

    fn record_rule(&mut self, at: Duration, link: LinkId, rule: RuleId) {
        self.rules.count_applied(rule);
        let rule = self.rules.describe(rule).into();
        self.record(at, link, EventKind::RuleApplied { rule });
    }

    /// Removes the connection from its session, unless the session already has another one.
    fn disconnect(&mut self, id: LinkId) {
        let session = self.link(id).session;
        if let Some(known) = session.and_then(|session| self.sessions.get_mut(&session))
            && known.is_some_and(|(link, _)| link == id)
        {
            *known = None;
        }
    }

    fn record(&mut self, at: Duration, id: LinkId, kind: EventKind) {
        let link = self.link(id);
        let event = Event {
            at,
            link: id,
            server: link.server,
            session: link.session,
            kind,
        };
        self.events.add(event);
    }

    fn link(&mut self, id: LinkId) -> &mut Link {
        self.links.entry(id).or_default()
    }
}

impl Link {
    /// Ends a black hole by a cut: the stream has a gap, so neither side could decode the rest.
    fn heal(&mut self) {
        self.black_hole = None;
        self.cut.get_or_insert(Close::Fin);
    }
}

/// Returns how long bytes take at a rate in bytes per second.
pub(crate) fn time_for(bytes: usize, rate: u64) -> Duration {
    let nanos = (bytes as u128 * 1_000_000_000) / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
