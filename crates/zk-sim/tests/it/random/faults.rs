//! Random operations under faults: both clients behind identical proxy scripts, and the simulation under the same script.
//!
//! The first session of a program runs behind a fault proxy of its own, one request at a time. Its outcomes, the events
//! of its watches and the tree at the end are the same on the simulated ensemble and on real servers through both
//! clients. What arrived at the proxies is the same from both clients, except for the [`ALLOWED`] differences.
//!
//! `SEED` and `PROGRAMS` are those of [`random`](super).

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::Poll;
use std::time::Duration;
use std::time::Instant;

use zk_core::NodePath;
use zk_core::ProtocolClient;
use zk_core::Session;
use zk_core::SessionId;
use zk_core::transport::Link;
use zk_core::transport::LinkReceiver;
use zk_core::transport::Phase;
use zk_core::transport::Reply;
use zk_core::transport::Request;
use zk_core::transport::Response;
use zk_core::transport::Transport;
use zk_core::transport::TransportError;
use zk_fault_proxy::Clients;
use zk_fault_proxy::Close;
use zk_fault_proxy::EventKind;
use zk_fault_proxy::FaultProxy;
use zk_fault_proxy::Match;
use zk_fault_proxy::Op;
use zk_fault_proxy::Route;
use zk_fault_proxy::Rule;
use zk_sim::Release;
use zk_sim::Scripted;
use zk_sim::matching;

use super::Client;
use super::difference;
use super::is_partial;
use super::open_all;
use super::play::Open;
use super::play::play;
use super::program::Program;
use super::seeds;

/// A difference between what arrives from `zookeeper-client` and from `zk-wire`, and how a journal reads without it.
struct Allowed {
    what: &'static str,
    without: fn(&mut Vec<String>),
}

/// Everything in which the journals may differ. Each has to be seen in a run.
const ALLOWED: [Allowed; 3] = [
    Allowed {
        what: "zk-wire sends credentials and watches with the handshake, zookeeper-client after the reply to it",
        without: |lines| lines.retain(|line| line != GRANTED),
    },
    Allowed {
        what: "zookeeper-client removes the watch of a request whose reply was lost",
        without: |lines| lines.retain(|line| !line.starts_with("removeWatches")),
    },
    Allowed {
        what: "the paths of one list of watches have no order",
        without: |lines| {
            for line in lines {
                if line.starts_with("setWatches") {
                    let mut words: Vec<_> = line.split(' ').collect();
                    words.sort_unstable();
                    *line = words.join(" ");
                }
            }
        },
    },
];

/// A fault of one request.
#[derive(Debug, Clone)]
enum Fault {
    /// The request is dropped, and the connection cut.
    CutBefore,
    /// The request is passed on, and the connection cut.
    CutAfter,
    /// The connection is cut when the reply arrives.
    CutOnReply,
    Delay,
    /// There is no connection when the request is submitted. Meanwhile another session changes something.
    Away(Request),
}

/// Waits until a fault has happened.
type Done = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What causes faults between a session and its server.
trait Inject: fmt::Debug + Send + Sync {
    /// Arranges a fault of a request that is sent next; what it returns waits until that has happened, and ends it.
    fn arm(&self, session: SessionId, request: &Request, fault: &Fault) -> Done;
    /// Breaks the connection, and refuses others.
    fn leave(&self, session: SessionId) -> Done;
    fn come_back(&self, session: SessionId);
}

impl Inject for FaultProxy {
    fn arm(&self, _: SessionId, request: &Request, fault: &Fault) -> Done {
        // A client may also send requests of its own accord.
        let path = matching::paths(request)[0].as_str();
        let next = match request {
            Request::Create(_) => Match::create(path),
            Request::Delete { .. } => Match::delete(path),
            Request::Set { .. } => Match::set(path),
            Request::Get { .. } => Match::get(path),
            Request::Exists { .. } => Match::exists(path),
            Request::List { .. } => Match::children(path),
            Request::Transaction(_) => Match::multi(path),
            Request::MultiRead(_) => Match::multi_read(),
            _ => Match::requests().path(path),
        };
        let (proxy, reply) = (self.clone(), next.clone().reply());
        let next = self.on(next).once();
        let rule: Rule = match fault {
            Fault::CutBefore => next.drop_then_cut(),
            Fault::CutAfter => next.forward_then_cut(),
            Fault::CutOnReply => next.cut_on_reply(),
            Fault::Delay => next.delay(Duration::from_millis(20)),
            Fault::Away(_) => return Box::pin(std::future::ready(())),
        };
        let is_passed_on = matches!(fault, Fault::CutAfter);
        let replies = self.log().count(&reply);
        if is_passed_on {
            // A server that sees the session on another connection closes this one, perhaps before it reads the request.
            self.refuse(true);
        }
        Box::pin(async move {
            if is_passed_on {
                let replied = proxy.wait_for(&reply, replies + 1, SOON).await;
                replied.expect("the server replies");
                proxy.refuse(false);
            }
            assert_eq!(rule.count(), 1, "the rule was applied once");
            rule.remove();
        })
    }

    fn leave(&self, _: SessionId) -> Done {
        self.refuse(true);
        let proxy = self.clone();
        Box::pin(async move {
            // zk-wire may be asking the server for its release on another one.
            assert_ne!(
                proxy.cut(Clients::All, Close::Rst).await,
                0,
                "no connection was cut"
            );
        })
    }

    fn come_back(&self, _: SessionId) {
        self.refuse(false);
    }
}

/// Decides whether new connections are refused.
trait Refuse {
    fn refuse(&self, is_refused: bool);
}

impl Refuse for FaultProxy {
    fn refuse(&self, is_refused: bool) {
        let route = if is_refused {
            Route::Refuse
        } else {
            Route::SameServer
        };
        self.route(Clients::All, route).expect("all is a choice");
    }
}

#[derive(Debug)]
struct Script(zk_sim::Ensemble);

impl Inject for Script {
    fn arm(&self, session: SessionId, _: &Request, fault: &Fault) -> Done {
        let next = self.0.on(matching::anything()).session(session);
        let scripted: Scripted = match fault {
            Fault::CutBefore => next.lose_request(),
            Fault::CutAfter | Fault::CutOnReply => next.lose_reply(),
            Fault::Delay | Fault::Away(_) => return Box::pin(std::future::ready(())),
        };
        Box::pin(async move {
            assert_eq!(scripted.count(), 1, "the failure happened once");
            scripted.withdraw();
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

/// A session whose requests meet faults, according to a plan.
#[derive(Debug, Clone)]
struct Faulty {
    inner: Arc<dyn Transport>,
    /// What changes something while this session has no connection.
    other: Arc<dyn Transport>,
    inject: Arc<dyn Inject>,
    /// For each request but `sync`; the last one comes first.
    plan: Plan,
}

type Plan = Arc<Mutex<Vec<Option<Fault>>>>;

impl Transport for Faulty {
    fn session_id(&self) -> SessionId {
        self.inner.session_id()
    }

    fn session_timeout(&self) -> Duration {
        self.inner.session_timeout()
    }

    fn link(&self) -> LinkReceiver {
        self.inner.link()
    }

    fn submit(&self, request: Request) -> Reply {
        let this = self.clone();
        Box::pin(async move {
            let fault = if let Request::Sync { .. } = request {
                None
            } else {
                let mut plan = this.plan.lock().unwrap_or_else(PoisonError::into_inner);
                plan.pop().flatten()
            };
            match fault {
                None => this.inner.submit(request).await,
                Some(fault) => this.submit_with(request, fault).await,
            }
        })
    }

    fn close(&self) {
        self.inner.close();
    }
}

impl Faulty {
    async fn submit_with(
        &self,
        request: Request,
        fault: Fault,
    ) -> Result<Response, TransportError> {
        let session = self.session_id();
        let mut link = self.link();
        let breaks = link.now().breaks;
        let done = self.inject.arm(session, &request, &fault);
        let reply = if let Fault::Away(meanwhile) = &fault {
            self.inject.leave(session).await;
            let is_down = |link: &Link| link.phase == Phase::Down;
            let left = soon("the loss", link.wait_for(is_down)).await;
            left.expect("the session is not over");
            // It may be refused.
            drop(soon("a change", self.other.submit(meanwhile.clone())).await);
            let mut reply = self.inner.submit(request);
            let first = poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await;
            assert!(first.is_pending(), "there is no connection");
            self.inject.come_back(session);
            soon("the reply to a late request", reply).await
        } else {
            soon("a reply or the loss", self.inner.submit(request)).await
        };
        soon("the fault", done).await;
        if !matches!(fault, Fault::Delay) {
            let is_back = |link: &Link| link.phase == Phase::Up && link.breaks > breaks;
            let back = soon("the next connection", link.wait_for(is_back)).await;
            back.expect("the session is not over");
        }
        reply.map_err(|error| match error {
            // Each has words of its own for it.
            TransportError::Lost(_) => TransportError::Lost("the connection broke".to_owned()),
            other => other,
        })
    }
}

/// Draws the faults of a program; the same for everyone who runs it.
fn plan(program: &Program) -> Vec<Option<Fault>> {
    let mut random = fastrand::Rng::with_seed(program.seed);
    let mut changes = program.other_writes().into_iter();
    // The first request creates the root.
    let mut plan = vec![None];
    for _ in 0..program.len() {
        plan.push(match random.u8(0..12) {
            0 => Some(Fault::CutBefore),
            1 => Some(Fault::CutAfter),
            2 => Some(Fault::CutOnReply),
            3 => Some(Fault::Delay),
            4 | 5 => changes.next().map(Fault::Away),
            _ => None,
        });
    }
    plan
}

/// A real server, a client, and a fault proxy for the first session.
struct Real {
    server: String,
    proxy: FaultProxy,
    client: Client,
    plan: Plan,
}

impl Real {
    async fn connect(&self, servers: &str, is_ann: bool) -> Box<dyn Transport> {
        let mut builder = Session::builder(servers).session_timeout(Duration::from_secs(20));
        if is_ann {
            builder = builder.digest_auth("ann", "pw");
        }
        if let Client::ZookeeperClient = self.client {
            builder = builder.client(ProtocolClient::ZookeeperClient);
        }
        let transport = builder.transport().await;
        transport.expect("the server grants a session")
    }
}

impl Open for Real {
    async fn open(&self, session: usize) -> Box<dyn Transport> {
        if session > 0 {
            return self.connect(&self.server, false).await;
        }
        Box::new(Faulty {
            inner: self
                .connect(&self.proxy.connect_string(), true)
                .await
                .into(),
            other: self.connect(&self.server, false).await.into(),
            inject: Arc::new(self.proxy.clone()),
            plan: Arc::clone(&self.plan),
        })
    }
}

struct Simulated {
    ensemble: zk_sim::Ensemble,
    plan: Plan,
}

impl Open for Simulated {
    async fn open(&self, session: usize) -> Box<dyn Transport> {
        if session > 0 {
            return Box::new(self.ensemble.connect().transport().await);
        }
        let ann = self.ensemble.connect().digest("ann", "pw");
        Box::new(Faulty {
            inner: Arc::new(ann.transport().await),
            other: Arc::new(self.ensemble.connect().transport().await),
            inject: Arc::new(Script(self.ensemble.clone())),
            plan: Arc::clone(&self.plan),
        })
    }
}

/// Runs a program; returns its outcomes, and after them the tree that it leaves.
async fn run(
    system: &impl Open,
    sessions: &mut Vec<Box<dyn Transport>>,
    next: &Plan,
    program: &Program,
) -> Vec<String> {
    let mut faults = plan(program);
    faults.reverse();
    *next.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    let mut lines = play(system, sessions, program).await;
    // The first session may have no permission.
    tree(&*sessions[1], &program.root, &program.root, &mut lines).await;
    lines
}

async fn simulated(program: &Program) -> Vec<String> {
    let next = Plan::default();
    let ensemble = zk_sim::Ensemble::builder()
        .servers(1)
        .release(Release::V3_9)
        .seed(program.seed)
        .build();
    let system = Simulated {
        ensemble,
        plan: Arc::clone(&next),
    };
    let mut sessions = open_all(&system).await;
    run(&system, &mut sessions, &next, program).await
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
        let get = Request::Get {
            path: path.clone(),
            watch: false,
        };
        let line = match soon("the data of a node", session.submit(get)).await {
            Ok(Response::Data { data, stat, .. }) => {
                let (version, children) = (stat.version, stat.cversion);
                let owner = stat.ephemeral_owner.is_some();
                let bytes = data.as_slice().len();
                format!("{bytes} bytes, v{version} c{children}, ephemeral {owner}")
            }
            other => format!("{other:?}"),
        };
        lines.push(format!("{name}: {line}"));
        let list = Request::List {
            path: path.clone(),
            watch: false,
        };
        let mut names = match soon("the children of a node", session.submit(list)).await {
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
fn journal(proxy: &FaultProxy, root: &NodePath) -> Vec<String> {
    let events = proxy.log().events();
    let lines = events.iter().filter_map(|event| match &event.kind {
        EventKind::Requested(request) if request.op == Op::Ping => None,
        EventKind::Requested(request) => {
            let paths = request.paths.join(" ");
            Some(format!("{} {paths}", request.op).replace(root.as_str(), "~"))
        }
        EventKind::Connected { .. } => Some(GRANTED.to_owned()),
        EventKind::SessionRefused => Some("the session was refused".to_owned()),
        EventKind::NotUnderstood { direction } => Some(format!("nonsense: {direction:?}")),
        _ => None,
    });
    lines.collect()
}

// covers: H8
#[tokio::test(flavor = "multi_thread")]
async fn faults_have_the_same_outcomes_on_both_clients_and_simulated() {
    let ensembles = futures_util::future::join_all([start(), start()]).await;
    let mut clients = Vec::new();
    for (ensemble, client) in ensembles
        .iter()
        .zip([Client::ZookeeperClient, Client::ZkWire])
    {
        let server = ensemble.connect_string();
        let address = server.parse().expect("one address");
        let system = Real {
            server,
            proxy: FaultProxy::start([address]).unwrap(),
            client,
            plan: Plan::default(),
        };
        let sessions = open_all(&system).await;
        clients.push((system, sessions));
    }
    let started = Instant::now();
    let mut operations = 0;
    let mut seen = [false; ALLOWED.len()];
    for seed in seeds(DEFAULT_PROGRAMS) {
        let program = Program::generate(seed).one_by_one();
        let expected = simulated_apart(&program);
        let runs = clients.iter_mut().map(|(system, sessions)| async {
            system.proxy.log().clear();
            let program = program.at_a_new_root();
            let lines = run(system, sessions, &system.plan, &program).await;
            (lines, journal(&system.proxy, &program.root))
        });
        let runs = futures_util::future::join_all(runs).await;
        let [(theirs, mut their_journal), (ours, mut our_journal)] =
            <[_; 2]>::try_from(runs).expect("there are two clients");
        for (lines, (system, _)) in [theirs, ours].iter().zip(&clients) {
            if let Some(difference) = difference(lines, &expected) {
                let (client, log) = (system.client, system.proxy.log());
                panic!(
                    "SEED={seed} differs through {client:?}:\n{difference}\n{:#?}\n{log}",
                    plan(&program)
                );
            }
        }
        for (allowed, is_seen) in ALLOWED.iter().zip(&mut seen) {
            let before = [their_journal.clone(), our_journal.clone()];
            (allowed.without)(&mut their_journal);
            (allowed.without)(&mut our_journal);
            let is_closer =
                before[0] != before[1] && before != [their_journal.clone(), our_journal.clone()];
            *is_seen |= is_closer;
        }
        if let Some(difference) = difference(&their_journal, &our_journal) {
            panic!(
                "SEED={seed}: what arrived differs, from zookeeper-client as the first and from zk-wire as the second:\n{difference}"
            );
        }
        operations += program.len();
    }
    println!("{operations} operations in {:?}", started.elapsed());
    for (allowed, is_seen) in ALLOWED.iter().zip(seen) {
        assert!(
            is_seen || is_partial(DEFAULT_PROGRAMS),
            "not seen, so it is no difference: {}",
            allowed.what
        );
    }
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

const SOON: Duration = Duration::from_secs(15);
const GRANTED: &str = "a session was granted";
const DEFAULT_PROGRAMS: u64 = 20;
