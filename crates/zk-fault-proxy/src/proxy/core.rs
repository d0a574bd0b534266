//! Decides what happens to each frame: forward it at once, later or on release, discard it, or cut the connection.
//!
//! The caller reports what arrives and when, counted from the proxy's start, and carries out the returned [`Decision`].
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::event::{Event, EventKind, EventLog};
use super::matching::{Direction, Frame, FrameInfo};
use super::protocol_state::ProtocolState;
use super::routing::{Clients, Routing};
use super::rule_table::{Action, RuleId, RuleTable};
use crate::sockets::Close;
use crate::wire::frame::Piece;
use crate::wire::handshake::Connect;

/// The number of a connection.
pub(super) type ConnectionId = u64;

/// The state of a proxy, without its sockets and its clock.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) events: EventLog,
    pub(super) routing: Routing,
    pub(super) rules: RuleTable,
    pub(super) servers: BTreeMap<u32, SocketAddr>,
    /// Every session that a server has granted through the proxy, with its current connection and server.
    pub(super) sessions: BTreeMap<i64, Option<(ConnectionId, u32)>>,
    connections: BTreeMap<ConnectionId, ConnectionState>,
    last_id: ConnectionId,
    /// The held frames, with the rule that holds each, and its connection.
    held: BTreeMap<HoldId, (RuleId, ConnectionId)>,
    last_hold: u64,
}

#[derive(Debug, Default)]
struct ConnectionState {
    server: Option<u32>,
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
    pub(super) on_written: Option<EventKind>,
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

impl Core {
    pub(super) fn new(servers: BTreeMap<u32, SocketAddr>, events_kept: usize) -> Self {
        Self {
            events: EventLog::new(events_kept),
            routing: Routing::default(),
            rules: RuleTable::default(),
            servers,
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            last_id: 0,
            held: BTreeMap::new(),
            last_hold: 0,
        }
    }

    /// Adds a connection to the proxy's address for the server `via`.
    pub(super) fn accepted(&mut self, at: Duration, via: u32) -> ConnectionId {
        self.last_id += 1;
        self.connections
            .insert(self.last_id, ConnectionState::default());
        self.record(at, self.last_id, EventKind::Accepted { via });
        self.last_id
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

    pub(super) fn dialed(&mut self, id: ConnectionId, server: u32) {
        self.connection(id).server = Some(server);
    }

    pub(super) fn refused(&mut self, at: Duration, id: ConnectionId) {
        self.record(at, id, EventKind::Refused);
    }

    /// Logs a piece that has arrived and decides what happens to it.
    pub(super) fn arrived(
        &mut self,
        at: Duration,
        id: ConnectionId,
        direction: Direction,
        piece: Piece,
    ) -> Decision {
        let was_raw = self.connection(id).protocol.is_raw(direction);
        let event = self.record_arrival(at, id, direction, &piece);
        let connection = self.connection(id);
        let mut decision = Decision {
            bytes: piece.into_bytes(),
            due: connection.due[direction as usize],
            hold: None,
            disposition: Disposition::Pass,
            on_written: None,
        };
        let mut answer_to = None;
        match event.as_ref().map(|event| &event.kind) {
            Some(EventKind::Requested(request)) => {
                answer_to = Some(request.xid);
                decision.on_written = Some(EventKind::Forwarded(Arc::clone(request)));
            }
            Some(EventKind::Replied { request, code }) => {
                let (request, code) = (Arc::clone(request), *code);
                decision.on_written = Some(EventKind::Delivered { request, code });
            }
            _ => {}
        }
        if connection.black_hole.is_some() {
            decision.disposition = Disposition::Discard;
            return decision;
        }
        // The rest of a long frame follows its beginning.
        if event.is_none() && !was_raw {
            return decision;
        }
        let unknown = FrameInfo {
            direction,
            frame: Frame::Unknown,
            session: connection.protocol.session(),
            server: connection.server,
            code: None,
        };
        let seen = event.as_ref().and_then(Event::frame_info);
        let Some((rule, action)) = self.rules.first_match(&seen.unwrap_or(unknown)) else {
            return decision;
        };
        let cut = |close| Cut {
            rule: Some(rule),
            close,
            answer_to,
        };
        match action {
            Action::Pass => {}
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
                self.connection(id).black_hole = Some(rule);
                decision.disposition = Disposition::Discard;
            }
            Action::DropThenCut(close) => decision.disposition = Disposition::Cut(cut(close)),
            Action::ForwardThenCut(close) => {
                decision.disposition = Disposition::PassThenCut(cut(close));
            }
        }
        // A cut is logged when it is carried out.
        if !matches!(action, Action::DropThenCut(_) | Action::ForwardThenCut(_)) {
            let rule = self.applied(rule);
            self.record(at, id, EventKind::RuleApplied { rule });
        }
        self.connection(id).due[direction as usize] = decision.due;
        decision
    }

    /// Logs a piece that arrived from the server after the client was cut off.
    ///
    /// Returns the xid of the request if the piece is a reply.
    pub(super) fn arrived_after_cut(
        &mut self,
        at: Duration,
        id: ConnectionId,
        piece: &Piece,
    ) -> Option<i32> {
        match self.record_arrival(at, id, Direction::Reply, piece)?.kind {
            EventKind::Replied { request, .. } => Some(request.xid),
            _ => None,
        }
    }

    pub(super) fn record(&mut self, at: Duration, id: ConnectionId, kind: EventKind) {
        let event = self.event(at, id, kind);
        self.events.add(event);
    }

    /// Logs that the client's side of a connection was cut.
    pub(super) fn cut(&mut self, at: Duration, id: ConnectionId, cut: Cut) {
        let close = cut.close;
        let rule = cut.rule.map(|rule| self.applied(rule));
        self.record(at, id, EventKind::Cut { close, rule });
        self.disconnect(id);
        self.connection(id).is_cut = true;
    }

    /// Logs the end of a connection and removes it.
    pub(super) fn ended(&mut self, at: Duration, id: ConnectionId) {
        self.record(at, id, EventKind::Closed);
        self.disconnect(id);
        self.held.retain(|_, (_, on)| *on != id);
        self.connections.remove(&id);
    }

    pub(super) fn is_raw(&self, id: ConnectionId, direction: Direction) -> bool {
        self.connections
            .get(&id)
            .is_some_and(|connection| connection.protocol.is_raw(direction))
    }

    pub(super) fn is_black_holed(&self, id: ConnectionId) -> bool {
        self.connections
            .get(&id)
            .is_some_and(|connection| connection.black_hole.is_some())
    }

    pub(super) fn is_held(&self, hold: HoldId) -> bool {
        self.held.contains_key(&hold)
    }

    /// Returns how to cut the connection, if that was requested.
    pub(super) fn requested_cut(&self, id: ConnectionId) -> Option<Close> {
        self.connections
            .get(&id)
            .and_then(|connection| connection.cut)
    }

    /// Releases the frames that a rule holds, and ends its black holes.
    pub(super) fn release(&mut self, rule: RuleId) {
        self.held.retain(|_, (by, _)| *by != rule);
        for connection in self.connections.values_mut() {
            if connection.black_hole == Some(rule) {
                connection.heal();
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
        for connection in self.connections.values_mut() {
            if connection.black_hole.is_some() {
                connection.heal();
            }
        }
    }

    /// Requests a cut of open connections, and returns these.
    pub(super) fn request_cut(&mut self, clients: Clients, close: Close) -> BTreeSet<ConnectionId> {
        let mut wanted = BTreeSet::new();
        for (id, connection) in &mut self.connections {
            let meant = match clients {
                Clients::All => true,
                Clients::At(server) => connection.server == Some(server),
                Clients::Session(session) => connection.protocol.session() == Some(session),
            };
            if meant && !connection.is_cut {
                connection.cut.get_or_insert(close);
                wanted.insert(*id);
            }
        }
        wanted
    }

    /// Returns whether one of these is not cut yet.
    pub(super) fn is_any_alive(&self, ids: &BTreeSet<ConnectionId>) -> bool {
        let mut found = ids.iter().filter_map(|id| self.connections.get(id));
        found.any(|connection| !connection.is_cut)
    }

    /// Logs a piece that has arrived; returns `None` for the continuation of an earlier piece.
    fn record_arrival(
        &mut self,
        at: Duration,
        id: ConnectionId,
        direction: Direction,
        piece: &Piece,
    ) -> Option<Event> {
        let connection = self.connection(id);
        let kind = connection.protocol.read(direction, piece)?;
        let (session, server) = (connection.protocol.session(), connection.server);
        if let (EventKind::Connected { .. }, Some(session)) = (&kind, session) {
            self.sessions
                .insert(session, server.map(|server| (id, server)));
        }
        let event = self.event(at, id, kind);
        self.events.add(event.clone());
        Some(event)
    }

    /// Counts that the action of a rule was carried out, and returns the rule's description.
    fn applied(&mut self, rule: RuleId) -> Arc<str> {
        self.rules.count_applied(rule);
        self.rules.describe(rule).into()
    }

    /// Removes the connection from its session, unless the session already has another one.
    fn disconnect(&mut self, id: ConnectionId) {
        let session = self.connection(id).protocol.session();
        if let Some(known) = session.and_then(|session| self.sessions.get_mut(&session))
            && known.is_some_and(|(connection, _)| connection == id)
        {
            *known = None;
        }
    }

    fn event(&mut self, at: Duration, id: ConnectionId, kind: EventKind) -> Event {
        let connection = self.connection(id);
        Event {
            at,
            connection: id,
            server: connection.server,
            session: connection.protocol.session(),
            kind,
        }
    }

    fn connection(&mut self, id: ConnectionId) -> &mut ConnectionState {
        self.connections.entry(id).or_default()
    }
}

impl ConnectionState {
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
