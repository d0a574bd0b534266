//! The behaviours by which clients are judged, of `zk_wire::Client`, of the crate `zookeeper-client`, and of ZooKeeper's
//! own client in Java: the table in the README of `zk-wire`.
//!
//! Each test runs one scenario with each client, behind a fault proxy of its own, and asserts what the table says.

mod peer;
mod third_party;
mod wire;

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use zk_core::Session;
use zk_fault_proxy::{Clients, Close, EventKind, FaultProxy, Match, Route};
use zk_harness::Ensemble;

use peer::{Connect, Java, Peer};
use third_party::ThirdParty;
use wire::Wire;

/// A client, and the proxy in front of its servers.
struct Side {
    peer: Box<dyn Peer>,
    proxy: FaultProxy,
    /// The parent of its nodes.
    root: &'static str,
    /// Changes nodes without a proxy.
    other: Session,
}

impl Side {
    async fn does(&mut self, command: &str) -> String {
        let root = self.root;
        let command = command.replace('~', root);
        let within = 2 * SOON;
        let answer = tokio::time::timeout(within, self.peer.does(&command)).await;
        let answer =
            answer.unwrap_or_else(|_| panic!("{root}: no answer in {within:?}: {command}"));
        answer.replace(root, "~")
    }

    /// Waits until a server has granted this many connections.
    async fn connected(&self, times: usize) {
        let granted = Match::handshake().reply();
        let waited = self.proxy.wait_for(&granted, times, SOON).await;
        waited.unwrap_or_else(|error| panic!("{}: {error}", self.root));
    }

    async fn cut(&self, close: Close) {
        // A client may have more than one: zk-wire asks servers for their release on another.
        let cut = self.proxy.cut(Clients::All, close).await;
        assert!(cut >= 1, "{}: no connection was cut", self.root);
    }

    /// Cuts the connection, refuses others, and waits until the client knows.
    async fn leave(&mut self) {
        self.proxy.route(Clients::All, Route::Refuse).unwrap();
        self.cut(Close::Fin).await;
        let state = self.does("await DISCONNECTED 60000").await;
        assert_eq!(state, "DISCONNECTED", "{}", self.root);
    }

    /// Returns the session id that the client reports, and that which its server has granted.
    async fn ids(&mut self) -> [String; 2] {
        let sessions = self.proxy.sessions();
        let granted = sessions.iter().find(|session| session.server.is_some());
        let granted = granted.map(|session| session.id);
        [self.does("session").await, format!("{granted:?}")]
    }

    /// Waits until the last server serves it without a quorum, or has refused to twice; returns the state.
    async fn read_only_or_refused(&mut self) -> String {
        let asked = Match::handshake().server(3);
        let enough = self.proxy.log().count(&asked) + 3;
        let begin = Instant::now();
        loop {
            let state = self.does("await READONLY 100").await;
            let is_decided = state == "READONLY" || state == "EXPIRED";
            if is_decided || self.proxy.log().count(&asked) >= enough {
                return state;
            }
            assert!(
                begin.elapsed() < SOON,
                "{}: {state} after {SOON:?}",
                self.root
            );
        }
    }

    fn come_back(&self) {
        self.proxy.route(Clients::All, Route::SameServer).unwrap();
    }

    /// Waits until this many more dials were refused.
    async fn refused(&self, more: usize) {
        let refused = || {
            let events = self.proxy.log().events();
            let refused = |kind: &EventKind| matches!(kind, EventKind::Refused);
            events.iter().filter(|event| refused(&event.kind)).count()
        };
        let enough = refused() + more;
        let waited = async {
            let mut poll = tokio::time::interval(Duration::from_millis(5));
            while refused() < enough {
                poll.tick().await;
            }
        };
        let waited = tokio::time::timeout(SOON, waited).await;
        waited.unwrap_or_else(|_| panic!("{}: no {more} more dials in {SOON:?}", self.root));
    }

    async fn other_sets(&self, path: &str, data: &'static str) {
        let path = path.replace('~', self.root);
        self.other.set(path.as_str(), data).await.unwrap();
    }
}

type Scenario = for<'a> fn(&'a mut Side) -> Pin<Box<dyn Future<Output = Vec<String>> + 'a>>;

/// Runs a scenario with each client at once; returns what each has observed, line by line.
async fn observe(ensemble: &Ensemble, connect: Connect, scenario: Scenario) -> [Vec<String>; 3] {
    let other = with_roots(ensemble).await;
    let mut sides = connect_each(ensemble, &other, connect).await;
    each(&mut sides, scenario).await
}

/// Returns a session that has created the parent of each client's nodes.
async fn with_roots(ensemble: &Ensemble) -> Session {
    let other = Session::builder(ensemble.direct_connect_string());
    let other = other.connect().await.unwrap();
    for root in ROOTS {
        other.create(root, "").await.unwrap();
    }
    other
}

/// Connects each client behind a proxy of its own.
async fn connect_each(ensemble: &Ensemble, other: &Session, connect: Connect) -> [Side; 3] {
    let servers = || {
        ensemble
            .servers()
            .iter()
            .map(zk_harness::Server::client_address)
    };
    let side = async |client: usize| {
        let proxy = FaultProxy::start(servers().collect::<Vec<SocketAddr>>()).unwrap();
        let root = ROOTS[client];
        let connect = Connect {
            servers: proxy.connect_string() + &connect.servers.replace('~', root),
            ..connect.clone()
        };
        let peer: Box<dyn Peer> = match client {
            0 => Box::new(Wire::start(&connect).await),
            1 => Box::new(ThirdParty::start(&connect).await),
            _ => Box::new(Java::start(&connect).await),
        };
        let other = other.clone();
        Side {
            peer,
            proxy,
            root,
            other,
        }
    };
    tokio::join!(side(0), side(1), side(2)).into()
}

async fn each(sides: &mut [Side; 3], scenario: Scenario) -> [Vec<String>; 3] {
    let [ours, theirs, java] = sides;
    tokio::join!(scenario(ours), scenario(theirs), scenario(java)).into()
}

/// Starts servers.
async fn start(servers: usize) -> Ensemble {
    let ensemble = Ensemble::builder().servers(servers).zookeeper("3.9");
    ensemble.start().await.unwrap()
}

/// Asserts a line of the observations: the same for every client.
fn assert_all(observed: &[Vec<String>; 3], line: usize, expected: &str) {
    assert_each(observed, line, [expected; 3]);
}

/// Asserts a line of the observations: ours, that of `zookeeper-client`, and Java's.
fn assert_each(observed: &[Vec<String>; 3], line: usize, expected: [&str; 3]) {
    let lines = observed.each_ref().map(|lines| lines[line].as_str());
    assert_eq!(lines, expected, "line {line} of {observed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_requests_survive_a_connection_or_not() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        side.does("create ~/e x ephemeral").await;
        let session = side.does("session").await;
        let lost = side.proxy.on(Match::set("/**")).once().cut_on_reply();
        let in_flight = side.does("set ~/e 1").await;
        lost.happened(SOON).await.unwrap();
        side.connected(2).await;
        side.does("await CONNECTED 60000").await;
        let is_same = side.does("session").await == session;
        side.leave().await;
        side.does("begin ~/e 2").await;
        side.refused(2).await;
        side.come_back();
        let late = side.does("outcome").await;
        side.connected(3).await;
        side.does("await CONNECTED 60000").await;
        let data = side.does("get ~/e").await;
        vec![is_same.to_string(), in_flight, late, data]
    }
    let ensemble = start(1).await;
    let observed = observe(&ensemble, Connect::default(), |side| {
        Box::pin(scenario(side))
    })
    .await;
    assert_all(&observed, 0, "true");
    // Each says so in its own words.
    assert_each(
        &observed,
        1,
        ["UNKNOWN", "CONNECTIONLOSS", "CONNECTIONLOSS"],
    );
    // What has no connection waits for one, or fails with the next dial that does.
    assert_each(&observed, 2, ["ok 2", "ok 2", "CONNECTIONLOSS"]);
    assert_each(&observed, 3, ["ok 2", "ok 2", "ok 1"]);
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_to_another_server() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        side.does("create ~/e 1 ephemeral").await;
        let session = side.does("session").await;
        let server = |side: &Side| side.proxy.sessions()[0].server;
        let first = server(side).expect("it is connected");
        side.proxy.route(Clients::At(first), Route::Refuse).unwrap();
        side.cut(Close::Rst).await;
        side.connected(2).await;
        side.does("await CONNECTED 60000").await;
        let is_same = side.does("session").await == session;
        let is_elsewhere = server(side) != Some(first);
        let read = side.does("get ~/e").await;
        vec![is_same.to_string(), is_elsewhere.to_string(), read]
    }
    let ensemble = start(3).await;
    let observed = observe(&ensemble, Connect::default(), |side| {
        Box::pin(scenario(side))
    })
    .await;
    assert_all(&observed, 0, "true");
    assert_all(&observed, 1, "true");
    assert_all(&observed, 2, "ok 1");
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_are_set_again_or_lost() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        for path in ["~/once", "~/again"] {
            side.does(&format!("create {path} 0 persistent")).await;
        }
        side.does("watch ~/once").await;
        side.does("persist ~/again").await;
        side.leave().await;
        side.other_sets("~/once", "1").await;
        side.other_sets("~/again", "1").await;
        side.come_back();
        side.connected(2).await;
        side.does("await CONNECTED 60000").await;
        let missed = side.does("events").await;
        side.other_sets("~/again", "2").await;
        vec![missed, side.does("events").await]
    }
    let ensemble = start(1).await;
    let observed = observe(&ensemble, Connect::default(), |side| {
        Box::pin(scenario(side))
    })
    .await;
    assert_all(&observed, 0, "NodeDataChanged ~/once");
    let persistent = "NodeDataChanged ~/again";
    assert_each(&observed, 1, [persistent, "", persistent]);
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_has_results_or_names_what_was_refused() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        side.does("create ~/a x persistent").await;
        let done = side.does("multi ~/a 0").await;
        vec![done, side.does("multi ~/a 0").await]
    }
    let ensemble = start(1).await;
    let observed = observe(&ensemble, Connect::default(), |side| {
        Box::pin(scenario(side))
    })
    .await;
    assert_all(&observed, 0, "ok created:~/a/m set:1 deleted checked");
    assert_all(&observed, 1, "BADVERSION at 1");
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_end_a_session() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        let state = side.does("await AUTHFAILED 60000").await;
        vec![state, side.does("get /").await]
    }
    let ensemble = start(1).await;
    let connect = Connect {
        auth: Some(("nonsense", "x")),
        ..Connect::default()
    };
    let observed = observe(&ensemble, connect, |side| Box::pin(scenario(side))).await;
    assert_all(&observed, 0, "AUTHFAILED");
    assert_all(&observed, 1, "AUTHFAILED");
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_servers_have_ended_is_expired() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        side.does("create ~/e x ephemeral").await;
        // The servers end it while its client is away: otherwise they answer it, instead of its next connection.
        side.leave().await;
        let gone = side.other.exists(format!("{}/e", side.root).as_str());
        assert!(gone.await.unwrap().is_some());
        let deleted = async {
            let path = format!("{}/e", side.root);
            let mut poll = tokio::time::interval(Duration::from_millis(20));
            while side.other.exists(path.as_str()).await.unwrap().is_some() {
                poll.tick().await;
            }
        };
        let waited = tokio::time::timeout(SOON, deleted).await;
        waited.expect("the servers end the session after its timeout");
        // Only now: a client ends its session by its own clock, if it does.
        let alone = side.does("await EXPIRED 20000").await;
        side.come_back();
        let back = side.does("await EXPIRED 60000").await;
        vec![alone, back, side.does("get /").await]
    }
    let ensemble = start(1).await;
    let connect = Connect {
        timeout: Duration::from_secs(10),
        ..Connect::default()
    };
    let observed = observe(&ensemble, connect, |side| Box::pin(scenario(side))).await;
    // At 7/5 of the timeout without a server; ZooKeeper's own client asks for ever.
    assert_each(&observed, 0, ["EXPIRED", "EXPIRED", "DISCONNECTED"]);
    assert_all(&observed, 1, "EXPIRED");
    assert_all(&observed, 2, "SESSIONEXPIRED");
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_are_relative_to_a_chroot_or_not() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        let created = side.does("create /a 0 persistent").await;
        side.does("watch /a").await;
        side.leave().await;
        side.other_sets("~/a", "1").await;
        side.come_back();
        side.connected(2).await;
        side.does("await CONNECTED 60000").await;
        let missed = side.does("events").await;
        vec![created, missed, side.does("multi /a 1").await]
    }
    let ensemble = start(1).await;
    let connect = Connect {
        servers: "~".to_owned(),
        ..Connect::default()
    };
    let observed = observe(&ensemble, connect, |side| Box::pin(scenario(side))).await;
    assert_all(&observed, 0, "ok /a");
    assert_all(&observed, 1, "NodeDataChanged /a");
    // Java returns the path as the server sends it.
    let (inner, outer) = ("ok created:/a/m", "ok created:~/a/m");
    let lines = [inner, inner, outer].map(|created| format!("{created} set:2 deleted checked"));
    assert_each(&observed, 2, lines.each_ref().map(String::as_str));
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_quorum_is_read_until_there_is_one() {
    async fn begin(side: &mut Side) -> Vec<String> {
        // Otherwise it is a local session, which only its server knows.
        let created = side.does("create ~/e x ephemeral").await;
        let [reported, granted] = side.ids().await;
        vec![created, reported, granted]
    }
    async fn without_quorum(side: &mut Side) -> Vec<String> {
        let state = side.read_only_or_refused().await;
        if state != "READONLY" {
            return vec![state];
        }
        let read = side.does("get ~/e").await;
        let write = side.does("create ~/n x persistent").await;
        let [reported, granted] = side.ids().await;
        vec![state, read, write, reported, granted]
    }
    async fn with_quorum(side: &mut Side) -> Vec<String> {
        let state = side.does("await CONNECTED 60000").await;
        let write = side.does("set ~/e x").await;
        let is_written = write.starts_with("ok ").to_string();
        let [reported, granted] = side.ids().await;
        vec![state, is_written, reported, granted]
    }
    let ensemble = Ensemble::builder().servers(3).zookeeper("3.9");
    let ensemble = ensemble.read_only_mode(true).start().await.unwrap();
    let connect = Connect {
        timeout: Duration::from_secs(60),
        read_only: true,
        ..Connect::default()
    };
    let other = with_roots(&ensemble).await;
    let mut before = connect_each(&ensemble, &other, connect.clone()).await;
    let begun = each(&mut before, |side| Box::pin(begin(side))).await;
    assert_all(&begun, 0, "ok ~/e");
    let [one, two, left] = ensemble.servers() else {
        panic!("three servers expected");
    };
    tokio::try_join!(one.kill(), two.kill()).unwrap();
    let is_read_only = async {
        let mut poll = tokio::time::interval(Duration::from_millis(20));
        while left.four_letter("isro").await.ok().as_deref() != Some("ro") {
            poll.tick().await;
        }
    };
    let waited = tokio::time::timeout(SOON, is_read_only).await;
    waited.expect("the server that is left serves reads");

    let mut since = connect_each(&ensemble, &other, connect).await;
    let (waiting, read_only) = tokio::join!(
        each(&mut before, |side| Box::pin(without_quorum(side))),
        each(&mut since, |side| Box::pin(without_quorum(side))),
    );
    assert_all(&waiting, 0, "DISCONNECTED");
    assert_all(&read_only, 0, "READONLY");
    assert_all(&read_only, 1, "ok x");
    assert_all(&read_only, 2, "NOTREADONLY");

    one.start().unwrap();
    two.start().unwrap();
    let (back, writable) = tokio::join!(
        each(&mut before, |side| Box::pin(with_quorum(side))),
        each(&mut since, |side| Box::pin(with_quorum(side))),
    );
    for observed in [&back, &writable] {
        assert_all(observed, 0, "CONNECTED");
        assert_all(observed, 1, "true");
    }
    let kept = |before: &[Vec<String>; 3], after: &[Vec<String>; 3]| {
        let ids = before.iter().zip(after);
        let kept = ids.map(|(before, after)| {
            let (before, after) = (&before[before.len() - 2..], &after[after.len() - 2..]);
            [before[0] == after[0], before[1] == after[1]]
        });
        kept.collect::<Vec<_>>()
    };
    assert_eq!(kept(&begun, &back), [[true, true]; 3]);
    // A session of a server without a quorum ends there. `zookeeper-client` reports the id of the first for ever.
    let new = [[false, false], [true, false], [false, false]];
    assert_eq!(kept(&read_only, &writable), new);
    ensemble.down().await.unwrap();
}

const ROOTS: [&str; 3] = ["/wire", "/crate", "/java"];
const SOON: Duration = Duration::from_secs(60);
