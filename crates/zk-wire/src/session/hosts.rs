//! The servers of an ensemble: which one to dial next, and when.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A server, as the caller named it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct Host {
    /// A name or an address; names are resolved at each dial.
    pub name: String,
    /// The port for clients.
    pub port: u16,
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

/// The hosts in the order in which they are dialled.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The next one comes first.
    order: Vec<Host>,
    random: fastrand::Rng,
    /// How many rounds of all hosts have failed in a row.
    failed_rounds: u32,
    /// How many dials of the present round have failed.
    failures: usize,
    /// How many times in a row each host was too slow. Hosts that were in time are absent.
    late: BTreeMap<Host, u32>,
}

impl Hosts {
    pub(super) fn new(hosts: Vec<Host>, seed: u64) -> Self {
        let mut hosts = Self {
            order: hosts,
            random: fastrand::Rng::with_seed(seed),
            failed_rounds: 0,
            failures: 0,
            late: BTreeMap::new(),
        };
        hosts.random.shuffle(&mut hosts.order);
        hosts
    }

    /// Takes the host to dial next; it is the last one to be dialled again.
    pub(super) fn take_next(&mut self) -> Host {
        let next = self.order.remove(0);
        self.order.push(next.clone());
        next
    }

    /// Records that the last host has granted a session.
    pub(super) const fn succeeded(&mut self) {
        self.failed_rounds = 0;
        self.failures = 0;
    }

    /// Records a failed dial or a broken connection. Returns the pause before the next dial, counted from the start of
    /// that dial or from the break.
    ///
    /// The other hosts are dialled at once. After each round the pause is twice as long on average, up to
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

    /// Returns how long a dial of a host may take, and then its handshake; `longest` at most.
    ///
    /// The time doubles each time in a row that the host was too slow, so that an overloaded host gets longer.
    pub(super) fn dial_time(&self, host: &Host, longest: Duration) -> Duration {
        let doublings = self.late.get(host).copied().unwrap_or(0).min(16);
        (SHORTEST_DIAL * 2_u32.pow(doublings)).min(longest)
    }

    /// Records that a host was too slow.
    pub(super) fn was_late(&mut self, host: &Host) {
        let times = self.late.entry(host.clone()).or_default();
        *times = times.saturating_add(1);
    }

    /// Records that a host has granted a session, or soon refused to.
    pub(super) fn was_in_time(&mut self, host: &Host) {
        self.late.remove(host);
    }

    /// Returns whether every host was dialled without success.
    pub(super) const fn has_failed_a_round(&self) -> bool {
        self.failed_rounds > 0
    }

    /// Dials a host next, if it is still in the list.
    pub(super) fn prefer(&mut self, host: &Host) {
        if let Some(at) = self.order.iter().position(|other| other == host) {
            self.order[..=at].rotate_right(1);
        }
    }

    /// Returns all hosts.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Host> {
        self.order.iter()
    }

    /// Replaces the list. Hosts that were there keep their places, and new ones are dialled first.
    ///
    /// After a failed round the pauses go on growing, however often the list changes. A list with new hosts permits one
    /// dial without a pause before it.
    pub(super) fn replace(&mut self, hosts: Vec<Host>) {
        let (kept, mut new): (Vec<_>, Vec<_>) = hosts
            .into_iter()
            .partition(|host| self.order.contains(host));
        self.random.shuffle(&mut new);
        let has_new = !new.is_empty();
        self.order.retain(|host| kept.contains(host));
        self.late.retain(|host, _| kept.contains(host));
        new.append(&mut self.order);
        self.order = new;
        let len = self.order.len();
        if has_new && self.failed_rounds > 0 {
            self.failures = self.failures.max(len.saturating_sub(2));
        }
        self.failures = self.failures.min(len.saturating_sub(1));
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two rounds.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A standalone server that is starting may leave a connection unanswered for ever: its `NIOServerCnxn.close` fails
/// before it closes the socket (seen with 3.9). This is how long such a connection delays the session.
const SHORTEST_DIAL: Duration = Duration::from_millis(750);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn host(name: &str) -> Host {
        Host {
            name: name.to_owned(),
            port: 2181,
        }
    }

    fn three() -> Vec<Host> {
        ["a", "b", "c"].map(host).to_vec()
    }

    #[test]
    fn each_round_dials_every_host_in_one_order() {
        let mut orders = BTreeSet::new();
        for seed in 0..50 {
            let mut hosts = Hosts::new(three(), seed);
            let first: Vec<_> = (0..3).map(|_| hosts.take_next()).collect();
            let second: Vec<_> = (0..3).map(|_| hosts.take_next()).collect();
            assert_eq!(first, second);
            orders.insert(first);
        }
        assert_eq!(orders.len(), 6, "clients begin anywhere");
    }

    #[test]
    fn a_pause_follows_each_round_and_is_bounded() {
        let mut hosts = Hosts::new(three(), 7);
        let mut pauses = Vec::new();
        for _ in 0..30 {
            assert_eq!(hosts.failed(), Duration::ZERO);
            assert_eq!(hosts.failed(), Duration::ZERO);
            pauses.push(hosts.failed());
        }
        assert!(pauses[0] <= SHORTEST_PAUSE && pauses[0] >= SHORTEST_PAUSE / 2);
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        assert!(pauses[29] >= LONGEST_PAUSE / 2);
        hosts.succeeded();
        assert_eq!(hosts.failed(), Duration::ZERO);
    }

    #[test]
    fn a_preferred_host_is_dialled_next_and_the_others_keep_their_order() {
        let mut hosts = Hosts::new(three(), 7);
        let order: Vec<_> = hosts.iter().cloned().collect();
        hosts.prefer(&order[2]);
        hosts.prefer(&host("gone"));
        let next: Vec<_> = (0..3).map(|_| hosts.take_next()).collect();
        assert_eq!(next, [2, 0, 1].map(|at| order[at].clone()));
    }

    #[test]
    fn hosts_of_a_new_list_are_dialled_first() {
        let mut hosts = Hosts::new(three(), 7);
        hosts.replace(["c", "d", "a"].map(host).to_vec());
        assert_eq!(hosts.take_next(), host("d"));
        let rest: BTreeSet<_> = [hosts.take_next(), hosts.take_next()].into();
        assert_eq!(rest, BTreeSet::from(["a", "c"].map(host)));
        assert_eq!(hosts.take_next(), host("d"));
    }

    /// Fails until the first pause; returns how many dials there were, and the pause.
    fn fail_until_a_pause(hosts: &mut Hosts) -> (usize, Duration) {
        let mut pauses = (1..).map(|dials| (dials, hosts.failed()));
        pauses.find(|(_, pause)| !pause.is_zero()).unwrap()
    }

    #[test]
    fn a_list_that_changes_each_time_is_dialled_ever_more_rarely() {
        for len in 1..5 {
            let mut hosts = Hosts::new(three(), 7);
            let mut last = fail_until_a_pause(&mut hosts);
            assert_eq!(last.0, 3);
            for round in 0..10 {
                let new = (0..len).map(|number| host(&format!("{round}-{number}")));
                hosts.replace(new.collect());
                last = fail_until_a_pause(&mut hosts);
                assert!(last.0 <= 2, "{} dials of {len} hosts", last.0);
            }
            assert!(last.1 >= LONGEST_PAUSE / 2, "{last:?}");
        }
    }

    #[test]
    fn a_list_without_a_new_host_changes_no_pause() {
        let mut hosts = Hosts::new(three(), 7);
        for _ in 0..9 {
            fail_until_a_pause(&mut hosts);
        }
        hosts.replace(three());
        assert_eq!(fail_until_a_pause(&mut hosts).0, 3);
        hosts.failed();
        hosts.failed();
        let two = hosts.order[..2].to_vec();
        hosts.replace(two.clone());
        let (dials, pause) = fail_until_a_pause(&mut hosts);
        assert_eq!(dials, 1, "the round goes on");
        assert!(pause >= LONGEST_PAUSE / 2, "{pause:?}");
        hosts.replace(two);
        assert_eq!(fail_until_a_pause(&mut hosts).0, 2);
        // Before a round has failed, all are dialled at once.
        hosts.succeeded();
        hosts.replace(three());
        assert_eq!(fail_until_a_pause(&mut hosts).0, 3);
    }

    #[test]
    fn a_host_that_is_late_is_given_ever_more_time() {
        let mut hosts = Hosts::new(three(), 7);
        let (a, b) = (host("a"), host("b"));
        let longest = Duration::from_secs(5);
        let millis = |hosts: &Hosts, host: &Host| hosts.dial_time(host, longest).as_millis();
        for expected in [750, 1500, 3000, 5000, 5000] {
            assert_eq!(millis(&hosts, &a), expected);
            hosts.was_late(&a);
        }
        assert_eq!(millis(&hosts, &b), 750, "each host has its own");
        for _ in 0..99 {
            hosts.was_late(&a);
        }
        assert_eq!(millis(&hosts, &a), 5000);
        hosts.replace(vec![a.clone(), b.clone()]);
        assert_eq!(millis(&hosts, &a), 5000);
        hosts.was_in_time(&a);
        assert_eq!(millis(&hosts, &a), 750);
    }
}
