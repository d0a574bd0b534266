//! The behaviours by which clients are judged, of `zk_wire::Client`, of the crate `zookeeper-client`, and of ZooKeeper's
//! own client in Java: the table in the README of `zk-wire`.
//!
//! Each test runs one scenario with each client, behind a fault proxy of its own, and asserts what the table says.

mod peer;
mod third_party;
mod wire;

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use zk_core::Session;
use zk_fault_proxy::Clients;
use zk_fault_proxy::Close;
use zk_fault_proxy::EventKind;
use zk_fault_proxy::FaultProxy;
use zk_fault_proxy::Match;
use zk_fault_proxy::Route;
use zk_harness::Ensemble;

use peer::Connect;
use peer::Java;
use peer::Peer;
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
        let within = Duration::from_secs(40);
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

    /// Cuts the connection, refuses others, and waits until the client knows.
    async fn leave(&mut self) {
        self.proxy.route(Clients::All, Route::Refuse).unwrap();
        assert_eq!(self.proxy.cut(Clients::All, Close::Fin).await, 1);
        let state = self.does("await DISCONNECTED 20000").await;
        assert_eq!(state, "DISCONNECTED", "{}", self.root);
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
    let servers = || {
        ensemble
            .servers()
            .iter()
            .map(zk_harness::Server::client_address)
    };
    let other = Session::builder(ensemble.direct_connect_string());
    let other = other.connect().await.unwrap();
    let side = async |client: usize| {
        let proxy = FaultProxy::start(servers().collect::<Vec<SocketAddr>>()).unwrap();
        let connect = Connect {
            servers: proxy.connect_string(),
            ..connect.clone()
        };
        let root = ["/wire", "/crate", "/java"][client];
        other.create(root, "").await.unwrap();
        let peer: Box<dyn Peer> = match client {
            0 => Box::new(Wire::start(&connect).await),
            1 => Box::new(ThirdParty::start(&connect).await),
            _ => Box::new(Java::start(&connect).await),
        };
        let mut side = Side {
            peer,
            proxy,
            root,
            other: other.clone(),
        };
        scenario(&mut side).await
    };
    let (ours, theirs, java) = tokio::join!(side(0), side(1), side(2));
    [ours, theirs, java]
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

// covers: W4
#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_requests_survive_a_connection_or_not() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        side.does("create ~/e x ephemeral").await;
        let session = side.does("session").await;
        let lost = side.proxy.on(Match::set("/**")).once().cut_on_reply();
        let in_flight = side.does("set ~/e 1").await;
        lost.happened(SOON).await.unwrap();
        side.connected(2).await;
        side.does("await CONNECTED 20000").await;
        let is_same = side.does("session").await == session;
        side.leave().await;
        side.does("begin ~/e 2").await;
        side.refused(2).await;
        side.come_back();
        let late = side.does("outcome").await;
        side.connected(3).await;
        side.does("await CONNECTED 20000").await;
        let data = side.does("get ~/e").await;
        vec![is_same.to_string(), in_flight, late, data]
    }
    let ensemble = start(1).await;
    let observed = observe(&ensemble, Connect::to(""), |side| Box::pin(scenario(side))).await;
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
        assert_eq!(side.proxy.cut(Clients::All, Close::Rst).await, 1);
        side.connected(2).await;
        side.does("await CONNECTED 20000").await;
        let is_same = side.does("session").await == session;
        let is_elsewhere = server(side) != Some(first);
        let read = side.does("get ~/e").await;
        vec![is_same.to_string(), is_elsewhere.to_string(), read]
    }
    let ensemble = start(3).await;
    let observed = observe(&ensemble, Connect::to(""), |side| Box::pin(scenario(side))).await;
    assert_all(&observed, 0, "true");
    assert_all(&observed, 1, "true");
    assert_all(&observed, 2, "ok 1");
    ensemble.down().await.unwrap();
}

// covers: W3
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
        side.does("await CONNECTED 20000").await;
        let missed = side.does("events").await;
        side.other_sets("~/again", "2").await;
        vec![missed, side.does("events").await]
    }
    let ensemble = start(1).await;
    let observed = observe(&ensemble, Connect::to(""), |side| Box::pin(scenario(side))).await;
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
    let observed = observe(&ensemble, Connect::to(""), |side| Box::pin(scenario(side))).await;
    assert_all(&observed, 0, "ok created:~/a/m set:1 deleted checked");
    assert_all(&observed, 1, "BADVERSION at 1");
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_end_a_session() {
    async fn scenario(side: &mut Side) -> Vec<String> {
        let state = side.does("await AUTHFAILED 20000").await;
        vec![state, side.does("get /").await]
    }
    let ensemble = start(1).await;
    let connect = Connect {
        auth: Some(("nonsense", "x")),
        ..Connect::to("")
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
        let alone = side.does("await EXPIRED 6000").await;
        side.come_back();
        let back = side.does("await EXPIRED 20000").await;
        vec![alone, back, side.does("get /").await]
    }
    let ensemble = start(1).await;
    let connect = Connect {
        timeout: Duration::from_secs(4),
        ..Connect::to("")
    };
    let observed = observe(&ensemble, connect, |side| Box::pin(scenario(side))).await;
    // At 7/5 of the timeout without a server; ZooKeeper's own client asks for ever.
    assert_each(&observed, 0, ["EXPIRED", "EXPIRED", "DISCONNECTED"]);
    assert_all(&observed, 1, "EXPIRED");
    assert_all(&observed, 2, "SESSIONEXPIRED");
    ensemble.down().await.unwrap();
}

const SOON: Duration = Duration::from_secs(20);
