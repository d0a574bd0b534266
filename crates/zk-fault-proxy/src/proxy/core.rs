//! What becomes of every frame: the proxy without its sockets and its clock.
//!
//! The shell tells it what arrives and when, counted from the proxy's start, and does what it is told: to pass bytes on,
//! at once, at a time or on a release; to swallow them; to cut the connection.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::event::Event;
use super::event::What;
use super::frame_decoder::Piece;
use super::journal::Journal;
use super::matching::Direction;
use super::matching::Frame;
use super::matching::Match;
use super::matching::Seen;
use super::protocol_state::Dialogue;
use super::protocol_state::Said;
use super::routing::Clients;
use super::routing::Steer;
use super::routing::Steering;
use super::rules::Action;
use super::rules::Close;
use super::rules::Occurrence;
use super::rules::RuleId;
use super::rules::Rules;
use crate::wire::Request;
use crate::wire::record::Connect;

/// The number of a connection.
pub(super) type LinkId = u64;

/// The state of a proxy.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) journal: Journal,
    pub(super) steering: Steering,
    rules: Rules,
    servers: BTreeMap<u32, SocketAddr>,
    sessions: BTreeMap<i64, Session>,
    links: BTreeMap<LinkId, Link>,
    last_link: LinkId,
    /// What is held, by which rule, and on which connection.
    held: BTreeMap<Ticket, (RuleId, LinkId)>,
    last_ticket: u64,
}

/// A session that a server has granted through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) timeout: Duration,
    pub(crate) password: Vec<u8>,
    /// The connection that carries it now, and the server it leads to.
    pub(super) link: Option<(LinkId, u32)>,
}

#[derive(Debug, Default)]
struct Link {
    server: Option<u32>,
    session: Option<i64>,
    dialogue: Dialogue,
    /// When the newest frame of each direction is due, so that none overtakes it.
    due: [Duration; 2],
    /// The rule that has everything swallowed.
    dark: Option<RuleId>,
    /// Whether somebody wants it cut.
    cut: Option<Close>,
    /// Whether its client has been cut off.
    is_cut: bool,
}

/// What is held until somebody releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What to do with a piece of a stream, after all that came before it in its direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) bytes: Vec<u8>,
    /// Not before this time.
    pub(super) due: Duration,
    /// Not before it is released.
    pub(super) ticket: Option<Ticket>,
    pub(super) act: Act,
    /// What to note once it has passed.
    pub(super) mark: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Pass,
    Swallow,
    Cut(Cut),
    PassThenCut(Cut),
}

/// That a connection is cut, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) rule: Option<RuleId>,
    pub(super) close: Close,
    /// The request whose answer is listened for afterwards, without the client.
    pub(super) answer_to: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Nothing,
    Forwarded(Arc<Request>),
    Delivered(Arc<Request>, i32),
}

impl Core {
    pub(super) fn new(servers: BTreeMap<u32, SocketAddr>, capacity: usize) -> Self {
        Self {
            journal: Journal::new(capacity),
            steering: Steering::default(),
            rules: Rules::default(),
            servers,
            sessions: BTreeMap::new(),
            links: BTreeMap::new(),
            last_link: 0,
            held: BTreeMap::new(),
            last_ticket: 0,
        }
    }

    /// A client has come to the address of a server.
    pub(super) fn accepted(&mut self, at: Duration, asked: u32) -> LinkId {
        self.last_link += 1;
        self.links.insert(self.last_link, Link::default());
        self.note(at, self.last_link, What::Accepted { asked });
        self.last_link
    }

    /// Where to lead a connection, by the first that its client has sent.
    pub(super) fn lead(&self, asked: u32, first: &Piece) -> Option<(u32, SocketAddr)> {
        let session = match first {
            Piece::Frame(_) => Connect::decode(first.payload()).ok(),
            _ => None,
        };
        let session = session.map(|asked| asked.session).filter(|&id| id != 0);
        let server = self.steering.lead(asked, session)?;
        self.servers.get(&server).map(|&address| (server, address))
    }

    pub(super) fn dialed(&mut self, link: LinkId, server: u32) {
        self.link(link).server = Some(server);
    }

    pub(super) fn refused(&mut self, at: Duration, link: LinkId) {
        self.note(at, link, What::Refused);
    }

    /// Decides about a piece that has arrived.
    pub(super) fn arrived(
        &mut self,
        at: Duration,
        id: LinkId,
        direction: Direction,
        piece: Piece,
    ) -> Order {
        let was_raw = self.link(id).dialogue.is_raw(direction);
        let said = self.heard(at, id, direction, &piece);
        let bytes = piece.into_bytes();
        let mark = match &said {
            Said::Request(request) => Mark::Forwarded(Arc::clone(request)),
            Said::Reply { request, code, .. } => Mark::Delivered(Arc::clone(request), *code),
            _ => Mark::Nothing,
        };
        let link = self.link(id);
        let mut order = Order {
            due: link.due[direction as usize],
            bytes,
            ticket: None,
            act: Act::Pass,
            mark,
        };
        if link.dark.is_some() {
            order.act = Act::Swallow;
            return order;
        }
        // The rest of a long frame goes the way of its beginning.
        if said == Said::More && !was_raw {
            return order;
        }
        let answer_to = match &said {
            Said::Request(request) => Some(request.xid),
            _ => None,
        };
        let Some((rule, action)) = self.judge(id, direction, &said) else {
            return order;
        };
        let cut = |close| Cut {
            rule: Some(rule),
            close,
            answer_to,
        };
        match action {
            Action::DropThenCut(close) => order.act = Act::Cut(cut(close)),
            Action::ForwardThenCut(close) => order.act = Act::PassThenCut(cut(close)),
            _ => self.strike(at, id, rule),
        }
        let link = self.link(id);
        match action {
            Action::Delay(delay) => order.due = order.due.max(at + delay),
            Action::Rate(rate) => order.due = order.due.max(at) + time_for(order.bytes.len(), rate),
            Action::Hold => {
                self.last_ticket += 1;
                let ticket = Ticket(self.last_ticket);
                self.held.insert(ticket, (rule, id));
                order.ticket = Some(ticket);
            }
            Action::BlackHole => {
                link.dark = Some(rule);
                order.act = Act::Swallow;
                self.note(at, id, What::Darkened);
            }
            Action::Pass | Action::DropThenCut(_) | Action::ForwardThenCut(_) => {}
        }
        self.link(id).due[direction as usize] = order.due;
        order
    }

    /// Notes what has arrived and decides nothing, as after the client has been cut off.
    ///
    /// Returns the request that it answers, if it is an answer.
    pub(super) fn overheard(&mut self, at: Duration, id: LinkId, piece: &Piece) -> Option<i32> {
        match self.heard(at, id, Direction::Reply, piece) {
            Said::Reply { request, .. } => Some(request.xid),
            _ => None,
        }
    }

    /// Notes that a piece was written to where it was to go.
    pub(super) fn passed(&mut self, at: Duration, link: LinkId, mark: Mark) {
        match mark {
            Mark::Nothing => {}
            Mark::Forwarded(request) => self.note(at, link, What::Forwarded(request)),
            Mark::Delivered(request, code) => {
                self.note(at, link, What::Delivered { request, code });
            }
        }
    }

    /// Notes that the connection was cut: its client knows by now.
    pub(super) fn cut(&mut self, at: Duration, link: LinkId, cut: Cut) {
        let close = cut.close;
        let rule = cut.rule.map(|rule| {
            self.rules.struck(rule);
            self.rules.describe(rule).into()
        });
        self.note(at, link, What::Cut { close, rule });
        self.disconnect(link);
        self.link(link).is_cut = true;
    }

    /// Notes that a connection is over.
    pub(super) fn ended(&mut self, at: Duration, link: LinkId) {
        self.note(at, link, What::Ended);
        self.disconnect(link);
        self.held.retain(|_, (_, on)| *on != link);
        self.links.remove(&link);
    }

    pub(super) fn is_raw(&self, link: LinkId, direction: Direction) -> bool {
        self.links
            .get(&link)
            .is_some_and(|link| link.dialogue.is_raw(direction))
    }

    pub(super) fn is_dark(&self, link: LinkId) -> bool {
        self.links
            .get(&link)
            .is_some_and(|link| link.dark.is_some())
    }

    pub(super) fn is_held(&self, ticket: Ticket) -> bool {
        self.held.contains_key(&ticket)
    }

    /// Whether somebody wants the connection cut.
    pub(super) fn wants_cut(&self, link: LinkId) -> Option<Close> {
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

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Lets go what a rule holds, and ends the black holes it has made.
    pub(super) fn release(&mut self, rule: RuleId) {
        self.held.retain(|_, (by, _)| *by != rule);
        for link in self.links.values_mut() {
            if link.dark == Some(rule) {
                link.heal();
            }
        }
    }

    /// Releases, and has the rule take no more frames.
    pub(super) fn remove_rule(&mut self, rule: RuleId) {
        self.rules.end(rule);
        self.release(rule);
    }

    /// Ends all rules and leads everybody home.
    pub(super) fn heal(&mut self) {
        self.rules.end_all();
        self.held.clear();
        self.steering = Steering::default();
        for link in self.links.values_mut() {
            if link.dark.is_some() {
                link.heal();
            }
        }
    }

    pub(super) fn steer(&mut self, clients: Clients, steer: Steer) {
        self.steering.set(clients, steer);
    }

    /// Wants live connections cut, and says which.
    pub(super) fn want_cut(&mut self, clients: Clients, close: Close) -> BTreeSet<LinkId> {
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

    /// Whether the client of one of these has not been cut off yet.
    pub(super) fn is_any_alive(&self, links: &BTreeSet<LinkId>) -> bool {
        links
            .iter()
            .any(|link| self.links.get(link).is_some_and(|link| !link.is_cut))
    }

    pub(super) fn sessions(&self) -> &BTreeMap<i64, Session> {
        &self.sessions
    }

    pub(super) fn servers(&self) -> &BTreeMap<u32, SocketAddr> {
        &self.servers
    }

    pub(super) fn set_server(&mut self, id: u32, address: SocketAddr) {
        self.servers.insert(id, address);
    }

    fn heard(&mut self, at: Duration, id: LinkId, direction: Direction, piece: &Piece) -> Said {
        let link = self.link(id);
        let said = link.dialogue.hear(direction, piece);
        let server = link.server;
        let what = match &said {
            Said::Connect { session } => {
                link.session = *session;
                What::Connecting {
                    resumed: session.is_some(),
                }
            }
            Said::Connected {
                session,
                timeout,
                password,
                resumed,
            } => {
                link.session = Some(*session);
                let known = Session {
                    timeout: *timeout,
                    password: password.clone(),
                    link: server.map(|server| (id, server)),
                };
                self.sessions.insert(*session, known);
                What::Connected {
                    timeout: *timeout,
                    resumed: *resumed,
                }
            }
            Said::SessionRefused => What::SessionRefused,
            Said::Request(request) => What::Requested(Arc::clone(request)),
            Said::Reply {
                request,
                code,
                zxid,
            } => What::Replied {
                request: Arc::clone(request),
                code: *code,
                zxid: *zxid,
            },
            Said::Notification(path) => What::Notified {
                path: Arc::clone(path),
            },
            Said::Word(word) => What::Word(word.clone()),
            Said::More => return said,
            Said::Gibberish => What::NotUnderstood { direction },
        };
        self.note(at, id, what);
        said
    }

    fn judge(&mut self, id: LinkId, direction: Direction, said: &Said) -> Option<(RuleId, Action)> {
        let link = self.links.get(&id)?;
        let (frame, code) = match said {
            Said::Connect { .. } | Said::Connected { .. } | Said::SessionRefused => {
                (Frame::Handshake, None)
            }
            Said::Request(request) => (Frame::Request(request), None),
            Said::Reply { request, code, .. } => (Frame::Request(request), Some(*code)),
            Said::Notification(path) => (Frame::Notification(path), None),
            Said::Word(_) | Said::More | Said::Gibberish => (Frame::Unknown, None),
        };
        self.rules.judge(&Seen {
            direction,
            frame,
            session: link.session,
            server: link.server,
            code,
        })
    }

    fn strike(&mut self, at: Duration, link: LinkId, rule: RuleId) {
        self.rules.struck(rule);
        let rule = self.rules.describe(rule).into();
        self.note(at, link, What::Struck { rule });
    }

    /// The session is without a connection, unless it has another one by now.
    fn disconnect(&mut self, id: LinkId) {
        let session = self.link(id).session;
        if let Some(known) = session.and_then(|session| self.sessions.get_mut(&session))
            && known.link.is_some_and(|(link, _)| link == id)
        {
            known.link = None;
        }
    }

    fn note(&mut self, at: Duration, id: LinkId, what: What) {
        let link = self.link(id);
        let event = Event {
            at,
            link: id,
            server: link.server,
            session: link.session,
            what,
        };
        self.journal.add(event);
    }

    fn link(&mut self, id: LinkId) -> &mut Link {
        self.links.entry(id).or_default()
    }
}

impl Link {
    /// Ends a black hole. Something is missing from the stream by now, so neither side could make sense of the rest.
    fn heal(&mut self) {
        self.dark = None;
        self.cut.get_or_insert(Close::Fin);
    }
}

/// How long bytes take at a rate in bytes per second.
pub(crate) fn time_for(bytes: usize, rate: u64) -> Duration {
    let nanos = (bytes as u128 * 1_000_000_000) / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
