//! Drives a session of `zk-wire` over in-memory streams, which break where a test says.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use zk_sim::Ensemble;
use zk_wire::session::{Event, Outcome, Probe, Session, Ticket};
use zk_wire::{Config, Host, Loss, Reply, Request, Server};

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Never,
    /// When the client has written this many bytes.
    Written(usize),
    /// When the client has read this many bytes.
    Read(usize),
}

/// A mistake that a test must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlantedBug {
    None,
    /// A frame of which a part is written counts as written.
    PartCountsAsWhole,
    /// The request that sets the watches again is lost.
    LosesSetWatches,
}

/// A session of `zk-wire` and its connection.
pub(crate) struct Client {
    ensemble: Ensemble,
    pub(crate) session: Session,
    begin: Instant,
    stream: Option<DuplexStream>,
    servers: JoinSet<()>,
    /// Where the next connection is cut.
    pub(crate) cut: Cut,
    /// The most bytes of one read or write.
    step: usize,
    bug: PlantedBug,
    /// Everything that was written to the current connection, or to the last one.
    pub(crate) written: Vec<u8>,
    /// The number of bytes that were read from it.
    pub(crate) read: usize,
    events: Vec<Event>,
}

impl Client {
    pub(crate) fn new(ensemble: &Ensemble, step: usize, bug: PlantedBug) -> Self {
        Self::with_config(ensemble, step, bug, config())
    }

    pub(crate) fn with_config(
        ensemble: &Ensemble,
        step: usize,
        bug: PlantedBug,
        config: Config,
    ) -> Self {
        let servers = (1..=ensemble.servers()).map(|server| {
            let port = u16::try_from(server).expect("there are few servers");
            let name = "simulated".to_owned();
            Server {
                host: Host { name, port },
                address: ([10, 0, 0, 1], port).into(),
            }
        });
        Self {
            ensemble: ensemble.clone(),
            session: Session::with_servers(servers.collect(), config, Duration::ZERO),
            begin: Instant::now(),
            stream: None,
            servers: JoinSet::new(),
            cut: Cut::Never,
            step,
            bug,
            written: Vec::new(),
            read: 0,
            events: Vec::new(),
        }
    }

    pub(crate) fn submit(&mut self, request: &Request) -> Ticket {
        self.session.submit(request).expect("the session is alive")
    }

    /// Returns the outcome of a request, if it has one.
    pub(crate) fn outcome(&self, ticket: Ticket) -> Option<&Outcome> {
        self.events.iter().find_map(|event| match event {
            Event::Answered(of, outcome) if *of == ticket => Some(outcome),
            _ => None,
        })
    }

    /// Returns how often a watch has fired.
    pub(crate) fn fired(&self, ticket: Ticket) -> usize {
        let is_it =
            |event: &&Event| matches!(event, Event::Fired { ticket: of, .. } if *of == ticket);
        self.events.iter().filter(is_it).count()
    }

    /// Returns how often the session was connected.
    pub(crate) fn epochs(&self) -> usize {
        let is_it = |event: &&Event| matches!(event, Event::Connected { .. });
        self.events.iter().filter(is_it).count()
    }

    /// Returns whether its last connection is to a read-only server; `None` if it never had one.
    pub(crate) fn is_read_only(&self) -> Option<bool> {
        let connected = |event: &Event| match event {
            Event::Connected { read_only, .. } => Some(*read_only),
            _ => None,
        };
        self.events.iter().rev().find_map(connected)
    }

    /// Returns whether the session is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.events.last(), Some(Event::Over(_)))
    }

    /// Carries out a request.
    pub(crate) async fn call(&mut self, request: &Request) -> Reply {
        let ticket = self.submit(request);
        self.until("a reply", |client| client.outcome(ticket).is_some())
            .await;
        match self.outcome(ticket) {
            Some(Outcome::Done { reply, .. }) => reply.clone(),
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Drives the session until a condition holds.
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(LONGEST_WAIT, async {
            while !holds(self) {
                self.step().await;
            }
        });
        let waited = waited.await;
        assert!(
            waited.is_ok(),
            "no {what} within {LONGEST_WAIT:?}: {:?}, {:?}",
            self.session,
            self.events
        );
    }

    /// Drives the session until nothing has happened for a while.
    pub(crate) async fn until_idle(&mut self) {
        let mut seen = usize::MAX;
        while seen != self.events.len() {
            seen = self.events.len();
            let quiet = async {
                loop {
                    self.step().await;
                }
            };
            let _quiet = tokio::time::timeout(Duration::from_millis(100), quiet).await;
        }
    }

    /// Breaks the connection.
    pub(crate) fn break_connection(&mut self) {
        if self.stream.take().is_some() {
            let now = self.now();
            let why = Loss::Broken("cut by the test".to_owned());
            self.session.connection_lost(&why, now);
            self.take_events();
        }
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn take_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.events.push(event);
        }
    }

    /// Asks the servers what the session wants to know of them.
    async fn ask_servers(&mut self) {
        while let Some(probe) = self.session.poll_probe() {
            let mut stream = self.dial(probe.server());
            let asked = async {
                stream.write_all(Probe::WORD.as_bytes()).await.ok()?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.ok()?;
                Some(answer)
            };
            let answer = tokio::time::timeout(Probe::TIMEOUT, asked).await;
            let now = self.now();
            self.session
                .probed(&probe, answer.ok().flatten().as_deref(), now);
        }
    }

    /// Does one thing: connects, writes, reads, or waits.
    async fn step(&mut self) {
        self.cut_if_due().await;
        let now = self.now();
        if self.stream.is_none() {
            if let Some(server) = self.session.poll_dial(now) {
                self.connect(&server, now);
            } else {
                self.wait().await;
            }
        } else if self.write(now).await {
            // The server may see a part of what was written.
            tokio::task::yield_now().await;
        } else {
            self.read_or_wait().await;
        }
        self.ask_servers().await;
        self.take_events();
        if !self.session.wants_connection() {
            self.stream = None;
        }
        self.cut_if_due().await;
    }

    async fn cut_if_due(&mut self) {
        let is_cut = match self.cut {
            Cut::Never => false,
            Cut::Written(at) => self.written.len() >= at,
            Cut::Read(at) => self.read >= at,
        };
        if is_cut && self.stream.is_some() {
            self.cut = Cut::Never;
            // What the server has received, it carries out.
            tokio::task::yield_now().await;
            self.break_connection();
        }
    }

    fn dial(&mut self, server: &Server) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (ensemble, server) = (self.ensemble.clone(), usize::from(server.host.port));
        self.servers.spawn(async move {
            // The client sees how it ends.
            let _ended = ensemble.serve(server, far).await;
        });
        near
    }

    fn connect(&mut self, server: &Server, now: Duration) {
        self.stream = Some(self.dial(server));
        self.written.clear();
        self.read = 0;
        self.session.dialed(now);
    }

    /// Writes a part of what there is; returns whether there was anything.
    async fn write(&mut self, now: Duration) -> bool {
        let mut bytes = Vec::new();
        let mut skipped = 0;
        for slice in self.session.transmit() {
            let is_set_watches = slice.get(4..8) == Some(&SET_WATCHES);
            if is_set_watches && self.bug == PlantedBug::LosesSetWatches && bytes.is_empty() {
                skipped = slice.len();
                break;
            }
            if is_set_watches && self.bug == PlantedBug::LosesSetWatches {
                break;
            }
            bytes.extend_from_slice(slice);
        }
        if skipped > 0 {
            self.session.transmitted(skipped, now);
            return true;
        }
        let mut most = self.step;
        if let Cut::Written(at) = self.cut {
            most = most.min(at - self.written.len());
        }
        let whole = bytes.len();
        bytes.truncate(most);
        let Some(stream) = &mut self.stream else {
            return false;
        };
        if bytes.is_empty() {
            return false;
        }
        stream.write_all(&bytes).await.unwrap_or_default();
        let counted = match self.bug {
            PlantedBug::PartCountsAsWhole => whole,
            PlantedBug::None | PlantedBug::LosesSetWatches => bytes.len(),
        };
        self.session.transmitted(counted, now);
        self.written.extend(bytes);
        true
    }

    async fn read_or_wait(&mut self) {
        let mut most = self.step;
        if let Cut::Read(at) = self.cut {
            most = most.min(at - self.read);
        }
        let mut buffer = vec![0; most];
        let due = self.session.poll_timeout().map(|at| self.begin + at);
        let Some(stream) = &mut self.stream else {
            return;
        };
        let due = due.unwrap_or_else(|| Instant::now() + LONGEST_WAIT);
        let read = tokio::time::timeout_at(due, stream.read(&mut buffer)).await;
        let now = self.now();
        match read {
            Err(_) => self.session.handle_timeout(now),
            Ok(Ok(read @ 1..)) => {
                self.read += read;
                self.session.buffer().extend_from_slice(&buffer[..read]);
                self.session.received(now);
            }
            Ok(_) => self.break_connection(),
        }
    }

    async fn wait(&mut self) {
        let due = self.session.poll_timeout().map(|at| self.begin + at);
        let due = due.unwrap_or_else(|| Instant::now() + LONGEST_WAIT);
        let never = std::future::pending::<()>();
        let _late = tokio::time::timeout_at(due, never).await;
        let now = self.now();
        self.session.handle_timeout(now);
    }
}

/// The settings of a client whose choices are always the same.
pub(crate) fn config() -> Config {
    let mut config = Config::new(SESSION_TIMEOUT);
    config.seed = Some(7);
    config
}

pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The number of a request that sets watches again.
const SET_WATCHES: [u8; 4] = (-8_i32).to_be_bytes();
