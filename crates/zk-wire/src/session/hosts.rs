//! The servers of an ensemble: which one to dial next, and when.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A name or an address, as the caller gave it, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct Host {
    /// A name or an address. A name may stand for several servers.
    pub name: String,
    /// The port for clients.
    pub port: u16,
}

/// A server: one address of a [`Host`].
///
/// It is displayed with both, as in `zk:2181 (10.0.0.7:2181)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct Server {
    /// The host that has the address. Its name is the one that the server's certificate must have.
    pub host: Host,
    /// What is connected to.
    pub address: SocketAddr,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') {
            write!(f, "[{name}]:{port}")
        } else {
            write!(f, "{name}:{port}")
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        match host.name.parse::<IpAddr>() {
            Ok(ip) if ip == address.ip() => write!(f, "{host}"),
            _ => write!(f, "{host} ({address})"),
        }
    }
}

/// The servers in the order in which they are dialled. All addresses of all names are shuffled together, so that the
/// clients of a name spread over its addresses.
#[derive(Debug)]
pub(super) struct DialOrder {
    /// The next one comes first.
    order: Vec<Server>,
    random: fastrand::Rng,
    /// How many rounds of all servers have failed in a row.
    failed_rounds: u32,
    /// How many dials of the present round have failed.
    failures: usize,
    /// How many times in a row no connection to each server was made in time. Servers that were in time are absent.
    late: BTreeMap<Server, u32>,
}

impl DialOrder {
    /// An order of no servers.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            order: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            failed_rounds: 0,
            failures: 0,
            late: BTreeMap::new(),
        }
    }

    /// Takes the server to dial next; it is the last one to be dialled again.
    pub(super) fn take_next(&mut self) -> Server {
        let next = self.order.remove(0);
        self.order.push(next.clone());
        next
    }

    /// Records that the last server has granted a session.
    pub(super) const fn succeeded(&mut self) {
        self.failed_rounds = 0;
        self.failures = 0;
    }

    /// Records a failed dial or a broken connection. Returns the pause before the next dial, counted from the start of
    /// that dial or from the break.
    ///
    /// The other servers are dialled at once. After each round the pause is twice as long on average, up to
    /// [`LONGEST_PAUSE`], and random, so that the clients of a restarted ensemble do not come all at once.
    pub(super) fn failed(&mut self) -> Duration {
        self.failures += 1;
        if self.failures < self.order.len() {
            return Duration::ZERO;
        }
        self.failures = 0;
        let doublings = self.failed_rounds.min(16);
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        let longest = (SHORTEST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE);
        longest.mul_f64(0.5 + self.random.f64() / 2.0)
    }

    /// Returns how long the connection to a server may take; `longest` at most.
    ///
    /// The time doubles each time in a row that it took too long, so that an overloaded server gets longer.
    pub(super) fn connect_time(&self, server: &Server, longest: Duration) -> Duration {
        let doublings = self.late.get(server).copied().unwrap_or(0).min(16);
        (SHORTEST_CONNECT * 2_u32.pow(doublings)).min(longest)
    }

    /// Records that there was no connection to a server in time.
    pub(super) fn was_late(&mut self, server: &Server) {
        let times = self.late.entry(server.clone()).or_default();
        *times = times.saturating_add(1);
    }

    /// Records that there was a connection to a server in time, or soon a refusal.
    pub(super) fn was_in_time(&mut self, server: &Server) {
        self.late.remove(server);
    }

    /// Returns how many rounds of all servers have failed in a row.
    pub(super) const fn failed_rounds(&self) -> u32 {
        self.failed_rounds
    }

    /// Dials a server next, if it is still in the list.
    pub(super) fn prefer(&mut self, server: &Server) {
        if let Some(at) = self.order.iter().position(|other| other == server) {
            self.order[..=at].rotate_right(1);
        }
    }

    /// Chooses one of the servers, each with the same chance.
    pub(super) fn choose(&mut self) -> Option<&Server> {
        self.random.choice(&self.order)
    }

    /// Returns all servers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.order.iter()
    }

    /// Replaces the list. Servers that were there keep their places, and new ones are dialled first.
    ///
    /// After a failed round the pauses go on growing, however often the list changes. A list with new servers permits one
    /// dial without a pause before it.
    pub(super) fn replace(&mut self, servers: Vec<Server>) {
        let servers: BTreeSet<_> = servers.into_iter().collect();
        let (kept, mut new): (Vec<_>, Vec<_>) = servers
            .into_iter()
            .partition(|server| self.order.contains(server));
        self.random.shuffle(&mut new);
        let has_new = !new.is_empty();
        self.order.retain(|server| kept.contains(server));
        self.late.retain(|server, _| kept.contains(server));
        new.append(&mut self.order);
        self.order = new;
        let len = self.order.len();
        if has_new && self.failed_rounds > 0 {
            self.failures = self.failures.max(len.saturating_sub(2));
        }
        self.failures = self.failures.min(len.saturating_sub(1));
    }

    /// Returns how many servers there are.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns how many hosts there are: several addresses of a name count once.
    pub(super) fn hosts(&self) -> usize {
        let hosts: BTreeSet<_> = self.order.iter().map(|server| &server.host).collect();
        hosts.len()
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two rounds.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long a host that drops what is sent to it delays the session.
const SHORTEST_CONNECT: Duration = Duration::from_millis(750);

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the server that is the only address of a name.
    pub(in crate::session) fn server(name: &str) -> Server {
        Server {
            host: Host {
                name: name.to_owned(),
                port: 2181,
            },
            address: ([10, 0, 0, 1], 2181).into(),
        }
    }

    fn three() -> Vec<Server> {
        ["a", "b", "c"].map(server).to_vec()
    }

    fn order_of(servers: Vec<Server>, seed: u64) -> DialOrder {
        let mut order = DialOrder::new(seed);
        order.replace(servers);
        order
    }

    #[test]
    fn a_server_is_displayed_with_its_name_and_its_address() {
        let shown = |name: &str, address: &str| {
            let server = Server {
                address: address.parse().unwrap(),
                ..server(name)
            };
            server.to_string()
        };
        assert_eq!(shown("zk", "10.0.0.7:2181"), "zk:2181 (10.0.0.7:2181)");
        assert_eq!(shown("10.0.0.7", "10.0.0.7:2181"), "10.0.0.7:2181");
        assert_eq!(shown("::1", "[::1]:2181"), "[::1]:2181");
    }

    #[test]
    fn clients_of_one_name_begin_with_each_of_its_addresses() {
        let addresses = (1..=3).map(|last| Server {
            address: ([10, 0, 0, last], 2181).into(),
            ..server("zk")
        });
        let addresses: Vec<_> = addresses.collect();
        let mut first = BTreeMap::new();
        for seed in 0..30 {
            let mut order = order_of(addresses.clone(), seed);
            assert_eq!((order.len(), order.hosts()), (3, 1));
            *first.entry(order.take_next()).or_insert(0) += 1;
        }
        assert!(
            first.len() == 3 && first.values().all(|count| *count >= 5),
            "{first:?}"
        );
    }

    #[test]
    fn each_round_dials_every_server_in_one_order() {
        let mut orders = BTreeSet::new();
        for seed in 0..50 {
            let mut order = order_of(three(), seed);
            let first: Vec<_> = (0..3).map(|_| order.take_next()).collect();
            let second: Vec<_> = (0..3).map(|_| order.take_next()).collect();
            assert_eq!(first, second);
            orders.insert(first);
        }
        assert_eq!(orders.len(), 6, "clients begin anywhere");
    }

    #[test]
    fn a_pause_follows_each_round_and_is_bounded() {
        let mut order = order_of(three(), 7);
        let mut pauses = Vec::new();
        for _ in 0..30 {
            assert_eq!(order.failed(), Duration::ZERO);
            assert_eq!(order.failed(), Duration::ZERO);
            pauses.push(order.failed());
        }
        assert!(pauses[0] <= SHORTEST_PAUSE && pauses[0] >= SHORTEST_PAUSE / 2);
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        assert!(pauses[29] >= LONGEST_PAUSE / 2);
        order.succeeded();
        assert_eq!(order.failed(), Duration::ZERO);
    }

    #[test]
    fn a_preferred_server_is_dialled_next_and_the_others_keep_their_order() {
        let mut order = order_of(three(), 7);
        let before: Vec<_> = order.iter().cloned().collect();
        order.prefer(&before[2]);
        order.prefer(&server("gone"));
        let next: Vec<_> = (0..3).map(|_| order.take_next()).collect();
        assert_eq!(next, [2, 0, 1].map(|at| before[at].clone()));
    }

    #[test]
    fn servers_of_a_new_list_are_dialled_first() {
        let mut order = order_of(three(), 7);
        order.replace(["c", "d", "a"].map(server).to_vec());
        assert_eq!(order.take_next(), server("d"));
        let rest: BTreeSet<_> = [order.take_next(), order.take_next()].into();
        assert_eq!(rest, BTreeSet::from(["a", "c"].map(server)));
        assert_eq!(order.take_next(), server("d"));
    }

    /// Fails until the first pause; returns how many dials there were, and the pause.
    fn fail_until_a_pause(order: &mut DialOrder) -> (usize, Duration) {
        let mut pauses = (1..).map(|dials| (dials, order.failed()));
        pauses.find(|(_, pause)| !pause.is_zero()).unwrap()
    }

    #[test]
    fn a_list_that_changes_each_time_is_dialled_ever_more_rarely() {
        for len in 1..5 {
            let mut order = order_of(three(), 7);
            let mut last = fail_until_a_pause(&mut order);
            assert_eq!(last.0, 3);
            for round in 0..10 {
                let new = (0..len).map(|number| server(&format!("{round}-{number}")));
                order.replace(new.collect());
                last = fail_until_a_pause(&mut order);
                assert!(last.0 <= 2, "{} dials of {len} hosts", last.0);
            }
            assert!(last.1 >= LONGEST_PAUSE / 2, "{last:?}");
        }
    }

    #[test]
    fn a_list_without_a_new_server_changes_no_pause() {
        let mut order = order_of(three(), 7);
        for _ in 0..9 {
            fail_until_a_pause(&mut order);
        }
        order.replace(three());
        assert_eq!(fail_until_a_pause(&mut order).0, 3);
        order.failed();
        order.failed();
        let two = order.order[..2].to_vec();
        order.replace(two.clone());
        let (dials, pause) = fail_until_a_pause(&mut order);
        assert_eq!(dials, 1, "the round goes on");
        assert!(pause >= LONGEST_PAUSE / 2, "{pause:?}");
        order.replace(two);
        assert_eq!(fail_until_a_pause(&mut order).0, 2);
        // Before a round has failed, all are dialled at once.
        order.succeeded();
        order.replace(three());
        assert_eq!(fail_until_a_pause(&mut order).0, 3);
    }

    #[test]
    fn a_server_that_is_late_is_given_ever_more_time() {
        let mut order = order_of(three(), 7);
        let (a, b) = (server("a"), server("b"));
        let longest = Duration::from_secs(5);
        let millis =
            |order: &DialOrder, server: &Server| order.connect_time(server, longest).as_millis();
        for expected in [750, 1500, 3000, 5000, 5000] {
            assert_eq!(millis(&order, &a), expected);
            order.was_late(&a);
        }
        assert_eq!(millis(&order, &b), 750, "each server has its own");
        for _ in 0..99 {
            order.was_late(&a);
        }
        assert_eq!(millis(&order, &a), 5000);
        order.replace(vec![a.clone(), b.clone()]);
        assert_eq!(millis(&order, &a), 5000);
        order.was_in_time(&a);
        assert_eq!(millis(&order, &a), 750);
    }
}
