//! Random operations under faults: both clients behind identical proxy scripts, and the simulation under the same script.
//!
//! The first session of a program runs behind a fault proxy of its own, with up to [`IN_FLIGHT`](super::program::IN_FLIGHT)
//! requests in flight. Its outcomes, the events of its watches and the tree at the end are the same on the simulated
//! ensemble and on real servers through both clients. What arrived at the proxies is the same from both clients, down to
//! each watch that is asked for, set again or removed; see [`journal`].
//!
//! `SEED` is that of [`random`](super), `FAULT_PROGRAMS` the number of programs.

use std::fmt;
use std::future::poll_fn;
use std::mem::discriminant;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use zk_core::transport::{Link, Phase, Request, Response, Transport, TransportError};
use zk_core::{NodePath, SessionId};
use zk_fault_proxy::codec::RequestBody;
use zk_fault_proxy::{Clients, Close, EventKind, FaultProxy, Match, Op, Route, Rule};
use zk_sim::{Release, matching};

use super::play::{Answer, Open, all, play, send, submit};
use super::program::Program;
use super::{Client, difference, is_partial, open_all, seeds};

/// A fault of requests that are in flight together.
#[derive(Debug, Clone)]
enum Fault {
    /// The only request is dropped, and the connection cut.
    CutBefore,
    /// All requests are passed on, and the connection is cut before any reply is.
    CutAfter,
    /// The connection is cut when the last reply arrives.
    CutOnReply,
    Delay,
    /// There is no connection when the requests are submitted. Meanwhile another session changes something.
    Away(Request),
}

/// Waits until a fault has happened.
type Done = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What causes faults between a session and its server.
trait Inject: fmt::Debug + Send + Sync {
    /// Arranges a fault of requests that are sent next; what it returns waits until that has happened, and ends it.
    fn arm(&self, session: SessionId, requests: &[Request], fault: &Fault) -> Done;
    /// Breaks the connection, and refuses others.
    fn leave(&self, session: SessionId) -> Done;
    fn come_back(&self, session: SessionId);
}

impl Inject for FaultProxy {
    fn arm(&self, _: SessionId, requests: &[Request], fault: &Fault) -> Done {
        // A client may also send requests of its own accord.
        let (first, _) = matching_last(&requests[..1]);
        let (last, alike) = matching_last(requests);
        let (proxy, reply) = (self.clone(), last.clone().reply());
        let replies = self.log().count(&reply) + alike;
        let rule: Rule = match fault {
            Fault::CutBefore => self.on(first).once().drop_then_cut(),
            Fault::CutAfter => self.on(first.reply()).once().hold(),
            Fault::CutOnReply => self.on(last).nth(alike as u64).cut_on_reply(),
            Fault::Delay => self.on(first).once().delay(Duration::from_millis(20)),
            Fault::Away(_) => return Box::pin(std::future::ready(())),
        };
        // The events of a request come before its reply.
        let events = matches!(fault, Fault::CutAfter);
        let events = events.then(|| self.on(Match::notification("/**")).hold());
        Box::pin(async move {
            let happened = rule.happened(SOON).await;
            happened.expect("the rule is applied");
            if let Some(events) = events {
                let replied = proxy.wait_for(&reply, replies, SOON).await;
                replied.expect("the server replies to all");
                proxy.cut_some(Close::Fin).await;
                events.remove();
            }
            assert_eq!(rule.count(), 1, "the rule was applied once");
            rule.remove();
        })
    }

    fn leave(&self, _: SessionId) -> Done {
        self.refuse(true);
        let proxy = self.clone();
        Box::pin(async move { proxy.cut_some(Close::Rst).await })
    }

    fn come_back(&self, _: SessionId) {
        self.refuse(false);
    }
}

/// What is done to all connections of a proxy.
trait Connections {
    /// Cuts those that there are.
    async fn cut_some(&self, close: Close);
    /// Decides whether new ones are refused.
    fn refuse(&self, is_refused: bool);
}

impl Connections for FaultProxy {
    async fn cut_some(&self, close: Close) {
        // zk-wire may be asking the server for its release on another one.
        let cut = self.cut(Clients::All, close).await;
        assert_ne!(cut, 0, "no connection was cut");
    }

    fn refuse(&self, is_refused: bool) {
        let route = if is_refused {
            Route::Refuse
        } else {
            Route::SameServer
        };
        self.route(Clients::All, route).expect("all is a choice");
    }
}

/// Returns what matches the last request, and how many of the requests that matches.
fn matching_last(requests: &[Request]) -> (Match, usize) {
    let last = &requests[requests.len() - 1];
    if let Request::MultiRead(_) = last {
        // The proxy matches these whatever their paths are.
        let alike = requests
            .iter()
            .filter(|other| matches!(other, Request::MultiRead(_)));
        return (Match::multi_read(), alike.count());
    }
    let path = matching::paths(last)[0];
    let name = path.as_str();
    let (matching, is_of_a_kind) = match last {
        Request::Create2(_) => (Match::create(name), true),
        Request::Delete { .. } => (Match::delete(name), true),
        Request::SetData { .. } => (Match::set(name), true),
        Request::GetData { .. } => (Match::get(name), true),
        Request::Exists { .. } => (Match::exists(name), true),
        Request::GetChildren2 { .. } => (Match::children(name), true),
        Request::Multi(_) => (Match::multi(name), true),
        _ => (Match::requests().path(name), false),
    };
    let is_alike = |other: &&Request| {
        let is_kin = !is_of_a_kind || discriminant(*other) == discriminant(last);
        is_kin && matching::paths(other).contains(&path)
    };
    (matching, requests.iter().filter(is_alike).count())
}

#[derive(Debug)]
struct Script(zk_sim::Ensemble);

impl Inject for Script {
    fn arm(&self, session: SessionId, requests: &[Request], fault: &Fault) -> Done {
        let next = |nth| self.0.on(matching::anything()).session(session).nth(nth);
        let last = requests.len();
        let scripted = match fault {
            Fault::CutBefore => vec![next(1).lose_request()],
            // The last reply is produced, and all wait behind the first.
            Fault::CutAfter if last > 1 => vec![next(1).hold(), next(last).hold()],
            Fault::CutAfter | Fault::CutOnReply => vec![next(last).lose_reply()],
            Fault::Delay | Fault::Away(_) => return Box::pin(std::future::ready(())),
        };
        let link = self.0.session(session);
        Box::pin(async move {
            for one in &scripted {
                one.happened().await;
            }
            if scripted.len() > 1 {
                link.partition();
                link.heal();
            }
            for one in scripted {
                assert_eq!(one.count(), 1, "the failure happened once");
                one.withdraw();
            }
        })
    }

    fn leave(&self, session: SessionId) -> Done {
        self.0.session(session).partition();
        Box::pin(std::future::ready(()))
    }

    fn come_back(&self, session: SessionId) {
        self.0.session(session).heal();
    }
}

/// What the requests of the first session meet, according to a plan.
#[derive(Debug)]
struct Faults {
    /// What changes something while that session has no connection.
    other: Box<dyn Transport>,
    inject: Box<dyn Inject>,
    /// For each time that it sends requests; the last one comes first.
    plan: Mutex<Vec<Option<Fault>>>,
}

impl Faults {
    fn new(other: Box<dyn Transport>, inject: impl Inject + 'static) -> Self {
        Self {
            other,
            inject: Box::new(inject),
            plan: Mutex::default(),
        }
    }

    fn plan(&self) -> MutexGuard<'_, Vec<Option<Fault>>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends requests of one of the sessions, the first of which meets the planned faults.
    async fn send(
        &self,
        number: usize,
        transport: &dyn Transport,
        requests: &[Request],
    ) -> Vec<Answer> {
        if number > 0 {
            return send(transport, requests).await;
        }
        let mut replies: Vec<_> = requests
            .iter()
            .map(|one| submit(transport, one.clone()))
            .collect();
        let planned = self.plan().pop().flatten();
        let Some(fault) = planned else {
            return soon("the replies", all(replies)).await;
        };
        let fault = match fault {
            // How many of several would be lost with it is open.
            Fault::CutBefore if requests.len() > 1 => Fault::CutAfter,
            other => other,
        };
        let session = transport.session_id();
        let mut link = transport.link();
        let breaks = link.now().breaks;
        if let Fault::Away(meanwhile) = &fault {
            self.inject.leave(session).await;
            let is_down = |link: &Link| link.phase == Phase::Down;
            let left = soon("the loss", link.wait_for(is_down)).await;
            left.expect("the session is not over");
            // It may be refused.
            drop(soon("a change", submit(&*self.other, meanwhile.clone())).await);
            for reply in &mut replies {
                let first = poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await;
                assert!(first.is_pending(), "there is no connection");
            }
            self.inject.come_back(session);
        }
        let done = self.inject.arm(session, requests, &fault);
        let both = async { tokio::join!(all(replies), done) };
        let (answers, ()) = soon("the replies or the loss", both).await;
        if !matches!(fault, Fault::Delay) {
            let is_back = |link: &Link| link.phase == Phase::Up && link.breaks > breaks;
            let back = soon("the next connection", link.wait_for(is_back)).await;
            back.expect("the session is not over");
        }
        let answers = answers.into_iter().map(|answer| match answer {
            // Each has words of its own for it.
            Err(TransportError::Lost(_) | TransportError::MaybeTooOld { .. }) => {
                Err(TransportError::Lost("the connection broke".to_owned()))
            }
            other => other,
        });
        answers.collect()
    }
}

/// Draws the faults of a program; the same for everyone who runs it.
fn plan(program: &Program) -> Vec<Option<Fault>> {
    let mut random = fastrand::Rng::with_seed(program.seed);
    let mut changes = program.other_writes().into_iter();
    let draw = |_| match random.u8(0..12) {
        0 => Some(Fault::CutBefore),
        1 => Some(Fault::CutAfter),
        2 => Some(Fault::CutOnReply),
        3 => Some(Fault::Delay),
        4 | 5 => changes.next().map(Fault::Away),
        _ => None,
    };
    (0..program.steps.len()).map(draw).collect()
}

/// A real server, a client, and a fault proxy for the first session.
struct Real {
    server: String,
    proxy: FaultProxy,
    client: Client,
    faults: Faults,
}

impl Real {
    async fn start(server: String, client: Client) -> Self {
        let proxy = FaultProxy::start([server.parse().expect("one address")]).unwrap();
        let other = client.open(&server, false).await;
        Self {
            faults: Faults::new(other, proxy.clone()),
            server,
            proxy,
            client,
        }
    }
}

impl Open for Real {
    async fn open(&self, session: usize) -> Box<dyn Transport> {
        match session {
            0 => self.client.open(&self.proxy.connect_string(), true).await,
            _ => self.client.open(&self.server, false).await,
        }
    }

    async fn send(
        &self,
        session: usize,
        transport: &dyn Transport,
        requests: &[Request],
    ) -> Vec<Answer> {
        self.faults.send(session, transport, requests).await
    }
}

struct Simulated {
    ensemble: zk_sim::Ensemble,
    faults: Faults,
}

impl Open for Simulated {
    async fn open(&self, session: usize) -> Box<dyn Transport> {
        let mut connect = self.ensemble.connect();
        if session == 0 {
            connect = connect.digest("ann", "pw");
        }
        Box::new(connect.transport().await)
    }

    async fn send(
        &self,
        session: usize,
        transport: &dyn Transport,
        requests: &[Request],
    ) -> Vec<Answer> {
        self.faults.send(session, transport, requests).await
    }
}

/// Runs a program; returns its outcomes, and after them the tree that it leaves.
async fn run(
    system: &impl Open,
    sessions: &mut Vec<Box<dyn Transport>>,
    faults: &Faults,
    program: &Program,
) -> Vec<String> {
    let mut plan = plan(program);
    plan.reverse();
    *faults.plan() = plan;
    let mut lines = play(system, sessions, program).await;
    // All watches are dropped: what removes them arrives before this.
    let path = program.root.clone();
    let synced = soon("a sync", submit(&*sessions[0], Request::Sync { path })).await;
    synced.expect("it is connected");
    // The first session may have no permission.
    tree(&*sessions[1], &program.root, &program.root, &mut lines).await;
    lines
}

async fn simulated(program: &Program) -> Vec<String> {
    let ensemble = zk_sim::Ensemble::builder()
        .servers(1)
        .release(Release::V3_9)
        .seed(program.seed)
        .build();
    let other = Box::new(ensemble.connect().transport().await);
    let system = Simulated {
        faults: Faults::new(other, Script(ensemble.clone())),
        ensemble,
    };
    let mut sessions = open_all(&system).await;
    run(&system, &mut sessions, &system.faults, program).await
}

fn simulated_apart(program: &Program) -> Vec<String> {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let played = std::thread::scope(|scope| {
        let here = || runtime().block_on(simulated(program));
        scope.spawn(here).join()
    });
    played.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Appends a line for each node from `path` down.
fn tree<'a>(
    session: &'a dyn Transport,
    root: &'a NodePath,
    path: &'a NodePath,
    lines: &'a mut Vec<String>,
) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(async move {
        let name = path.as_str().replace(root.as_str(), "~");
        let get = Request::GetData {
            path: path.clone(),
            watch: false,
        };
        let line = match soon("the data of a node", submit(session, get)).await {
            Ok(Response::Data { data, stat, .. }) => {
                let (version, children) = (stat.version, stat.cversion);
                let owner = stat.ephemeral_owner.is_some();
                let bytes = data.as_slice().len();
                format!("{bytes} bytes, v{version} c{children}, ephemeral {owner}")
            }
            other => format!("{other:?}"),
        };
        lines.push(format!("{name}: {line}"));
        let list = Request::GetChildren2 {
            path: path.clone(),
            watch: false,
        };
        let mut names = match soon("the children of a node", submit(session, list)).await {
            Ok(Response::Children { names, .. }) => names,
            _ => Vec::new(),
        };
        names.sort();
        for name in names {
            let child = path.join(&name).expect("the server names it");
            tree(session, root, &child, lines).await;
        }
    })
}

/// Returns what has arrived at a proxy from the client, without pings, and when sessions were granted.
///
/// What has no order has one here: what a client sends with a handshake comes after the reply, and the paths of each list
/// of watches are sorted. A request to remove a watch that has just fired is left out: whether a client sends it depends on
/// what comes first, the notification or the drop of the watch.
fn journal(proxy: &FaultProxy, root: &NodePath) -> Vec<String> {
    let events = proxy.log().events();
    let came_too_late = |request: &Arc<zk_fault_proxy::Request>| {
        events.iter().any(|event| {
            matches!(&event.kind, EventKind::Replied { request: of, code: NO_WATCHER } if Arc::ptr_eq(of, request))
        })
    };
    let mut lines = Vec::new();
    for event in &events {
        match &event.kind {
            EventKind::Requested(request) if request.op == Op::Ping => {}
            EventKind::Requested(request) if came_too_late(request) => {}
            EventKind::Requested(request) => {
                lines.push(line(request).replace(root.as_str(), "~"));
            }
            EventKind::Connected { .. } => {
                let is_of_handshake =
                    |line: &&String| line.starts_with("auth") || line.starts_with("setWatches");
                let sent = lines.iter().rev().take_while(is_of_handshake).count();
                lines.insert(lines.len() - sent, "a session was granted".to_owned());
            }
            EventKind::SessionRefused => lines.push("the session was refused".to_owned()),
            EventKind::NotUnderstood { direction } => {
                lines.push(format!("nonsense: {direction:?}"));
            }
            _ => {}
        }
    }
    lines
}

/// Returns an operation, its paths, and everything about watches.
fn line(request: &zk_fault_proxy::Request) -> String {
    let (op, paths) = (&request.op, request.paths.join(" "));
    match &request.body {
        Some(RequestBody::SetWatches(lists)) => {
            let persistent = [&lists.persistent, &lists.recursive].map(|list| list.as_deref());
            let lists = [&lists.data, &lists.exist, &lists.child].map(|list| Some(list.as_slice()));
            let all = lists.into_iter().chain(persistent).map(|list| {
                let mut list = list.unwrap_or_default().to_vec();
                list.sort_unstable();
                list.join(" ")
            });
            format!("setWatches [{}]", all.collect::<Vec<_>>().join("] ["))
        }
        Some(RequestBody::Watches { kind, .. }) => format!("{op} {paths} of kind {kind}"),
        Some(
            RequestBody::Exists { watch, .. }
            | RequestBody::GetData { watch, .. }
            | RequestBody::GetChildren { watch, .. },
        ) => format!("{op} {paths}, watched: {watch}"),
        _ => format!("{op} {paths}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_have_the_same_outcomes_on_both_clients_and_simulated() {
    let ensembles = futures_util::future::join_all([start(), start()]).await;
    let mut clients = Vec::new();
    for (ensemble, client) in ensembles
        .iter()
        .zip([Client::ZookeeperClient, Client::ZkWire])
    {
        let system = Real::start(ensemble.connect_string(), client).await;
        let sessions = open_all(&system).await;
        clients.push((system, sessions));
    }
    let started = Instant::now();
    let (mut operations, mut removals) = (0, 0);
    for seed in seeds(PROGRAMS, DEFAULT_PROGRAMS) {
        let program = Program::generate(seed).for_zookeeper_client();
        let program = program.in_small_bursts();
        let expected = simulated_apart(&program);
        let runs = clients.iter_mut().map(|(system, sessions)| async {
            system.proxy.log().clear();
            let program = program.at_a_new_root();
            let lines = run(system, sessions, &system.faults, &program).await;
            (lines, journal(&system.proxy, &program.root))
        });
        let runs = futures_util::future::join_all(runs).await;
        for ((lines, _), (system, _)) in runs.iter().zip(&clients) {
            if let Some(difference) = difference(lines, &expected) {
                let (client, log) = (system.client, system.proxy.log());
                panic!(
                    "SEED={seed} differs through {client:?}:\n{difference}\n{:#?}\n{log}",
                    plan(&program)
                );
            }
        }
        let [(_, theirs), (_, ours)] = &runs[..] else {
            panic!("there are two clients");
        };
        if let Some(difference) = difference(theirs, ours) {
            panic!(
                "SEED={seed}: what arrived differs, from zookeeper-client as the first and from zk-wire as the second:\n{difference}"
            );
        }
        operations += program.len();
        let removal = |line: &&String| line.starts_with("removeWatches");
        removals += ours.iter().filter(removal).count();
    }
    println!(
        "{operations} operations, {removals} removals of watches in {:?}",
        started.elapsed()
    );
    assert!(
        removals > 50 || is_partial(PROGRAMS, DEFAULT_PROGRAMS),
        "{removals}"
    );
    drop(clients);
    for ensemble in ensembles {
        ensemble.down().await.unwrap();
    }
}

async fn start() -> zk_harness::Ensemble {
    let ensemble = zk_harness::Ensemble::builder()
        .servers(1)
        .zookeeper("3.9")
        .data(zk_harness::DataStore::Memory)
        .container_check_interval(Duration::from_secs(3600))
        .max_session_timeout(Duration::from_secs(20));
    ensemble.start().await.unwrap()
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let output = tokio::time::timeout(SOON, future).await;
    output.unwrap_or_else(|_| panic!("waited {SOON:?} for {what}"))
}

const SOON: Duration = Duration::from_secs(60);
const PROGRAMS: &str = "FAULT_PROGRAMS";
const DEFAULT_PROGRAMS: u64 = 10;

const NO_WATCHER: i32 = -121;
