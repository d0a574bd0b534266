//! A process of the application: a worker, that stands for election as the master as well.
//!
//! It lives through any number of sessions. Everything that it has in ZooKeeper belongs to one session, and is built
//! again with the next one; nothing is carried over, so that there is nothing to repair.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use zk_config::Typed;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::RetryPolicy;
use zk_core::Session;
use zk_core::SessionBuilder;
use zk_core::SuperviseError;
use zk_discovery::RegisterError;
use zk_discovery::Registry;
use zk_id::ClaimError;
use zk_leader::ElectionOptions;
use zk_leader::LeaderLease;
use zk_leader::ParticipantEnd;
use zk_leader::Selector;

use crate::bootstrap::create_missing;
use crate::master::Master;
use crate::pause::pause;
use crate::reporter::Reporter;
use crate::settings;
use crate::settings::Settings;
use crate::status_endpoint::StatusEndpoint;
use crate::stop::Stop;
use crate::tree::Tree;
use crate::worker::Worker;

/// A process.
#[derive(Debug, Clone)]
pub struct Node {
    tree: Tree,
    settings: Typed<Settings>,
    reporter: Reporter,
    status_endpoint: Option<Arc<StatusEndpoint>>,
    grace: Duration,
}

impl Node {
    /// Describes a process. Nothing happens yet.
    pub fn new(tree: Tree, reporter: Reporter) -> Self {
        Self {
            settings: Settings::live(&tree),
            tree,
            reporter,
            status_endpoint: None,
            grace: Duration::from_secs(30),
        }
    }

    /// Sets how long it may take to finish what it works at when it is asked to stop. The default is 30 seconds.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Gives it a endpoint, by which others find it and ask what it did last.
    #[must_use]
    pub fn with_status_endpoint(mut self, endpoint: StatusEndpoint) -> Self {
        self.status_endpoint = Some(Arc::new(endpoint));
        self
    }

    /// Runs with one session after the other until it is asked to stop.
    ///
    /// # Errors
    ///
    /// What another session will not change, and that it was not done in time when it was asked to stop.
    ///
    /// # Cancel safety
    ///
    /// Safe: what it had is done by others when its session has ended.
    ///
    /// # Session loss
    ///
    /// It goes on with the next one, unless it is asked to stop: without a session it has nothing to finish.
    pub async fn run(&self, sessions: SessionBuilder, stop: &Stop) -> anyhow::Result<()> {
        let newest = watch::Sender::new(None::<Session>);
        let serving = sessions.supervise(RetryPolicy::default(), |session| {
            self.reporter
                .report(format_args!("has session {}", session.id()));
            newest.send_replace(Some(session.clone()));
            async move { self.serve(&session, stop).await }
        });
        let has_none = async {
            stop.asked().await;
            let session = newest.borrow().clone();
            if let Some(session) = session {
                session.lost().await;
            }
        };
        let is_late = async {
            stop.asked().await;
            pause(self.grace).await;
        };
        tokio::select! {
            biased;
            served = serving => served.map_err(|error| match error {
                SuperviseError::Body(error) => error,
                SuperviseError::Connect(error) => error.into(),
                lost => anyhow::anyhow!("{lost}"),
            }),
            () = has_none => {
                self.reporter.report(format_args!("ends without a session"));
                Ok(())
            }
            () = is_late => {
                let session = newest.borrow().clone();
                if let Some(session) = session {
                    // Others have what it worked at as soon as that is closed.
                    drop(timeout(FAREWELL, session.close()).await);
                }
                anyhow::bail!("it was not done {:?} after it was asked to end", self.grace)
            }
            () = settings::report_changes(self.settings.clone(), &self.reporter) => Ok(()),
            () = self.answer() => Ok(()),
        }
    }

    /// Runs with one session, until it is asked to stop or the session is lost.
    ///
    /// # Errors
    ///
    /// What will not pass, and the loss of the session. Where another session may help, this one is closed.
    ///
    /// # Cancel safety
    ///
    /// Safe: what it had is done by others when its session has ended.
    ///
    /// # Session loss
    ///
    /// An error.
    pub async fn serve(&self, session: &Session, stop: &Stop) -> anyhow::Result<()> {
        let served = Box::pin(self.live(session, stop)).await;
        match &served {
            Ok(()) => self.reporter.report(format_args!("ends")),
            Err(error) if may_pass(error) => self.reporter.report(format_args!(
                "begins anew with another session, as {error:#}"
            )),
            Err(_) => return served,
        }
        // What is left in the background is waited for; the answers are known by now.
        drop(session.close().await);
        if served.is_err() {
            // Without a server it is closed when it has expired.
            session.lost().await;
        }
        served
    }

    /// Does all that a process does with one session.
    async fn live(&self, session: &Session, stop: &Stop) -> anyhow::Result<()> {
        // Without a server the session is given up before that: an operation ends with an answer, or with the session.
        // It ends for want of patience where servers answer for so long that they cannot, or where each connection breaks
        // before the answer comes.
        let session = session.with_operation_timeout(session.session_timeout() * 2);
        create_missing(&session, &self.tree).await?;
        let _following = self.settings.follow(&session);
        let master = Master::new(&session, &self.tree, &self.settings, &self.reporter);
        let worker = Worker::new(&session, &self.tree, &self.settings, &self.reporter);
        let options = ElectionOptions::default().with_id(self.reporter.name());
        let selector = Selector::with_options(&session, self.tree.election(), &options)?;
        let handle = selector.handle().clone();
        let master = &master;
        let lead = async |lease: LeaderLease| match master.lead(&lease).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        };
        let leading = async {
            match selector.run(lead).await {
                // The master could not go on.
                Ok(error) => Err(error),
                Err(ParticipantEnd::Left) => Ok(()),
                Err(end) => Err(end.into()),
            }
        };
        let working = async {
            worker.work(stop).await?;
            handle.leave().await;
            Ok(())
        };
        tokio::select! {
            biased;
            // The one that fails ends the other one.
            done = async { tokio::try_join!(Box::pin(leading), Box::pin(working)) } => {
                let ((), ()) = done?;
            }
            error = self.stay_registered(&session) => return Err(error),
        }
        Ok(())
    }
}

impl Node {
    /// Answers at the endpoint, if there is one.
    async fn answer(&self) {
        match &self.status_endpoint {
            Some(endpoint) => endpoint.answer(&self.reporter).await,
            None => std::future::pending().await,
        }
    }

    /// Is registered for as long as the session lives; a node of an earlier session goes by itself, as the name of each
    /// is another one.
    async fn stay_registered(&self, session: &Session) -> anyhow::Error {
        let Some(endpoint) = &self.status_endpoint else {
            return std::future::pending().await;
        };
        let (registry, instance) = match (
            Registry::new(session, self.tree.services()),
            endpoint.instance(&self.reporter),
        ) {
            (Ok(registry), Ok(instance)) => (registry, instance),
            (Err(error), _) => return error.into(),
            (_, Err(error)) => return error.into(),
        };
        registry.keep_registered(&instance).await.into()
    }
}

/// Tells whether the next session may not meet an error, although its own is alive.
fn may_pass(error: &anyhow::Error) -> bool {
    let class = None
        .or_else(|| error.downcast_ref().map(Error::class))
        .or_else(|| error.downcast_ref().map(zk_cache::CacheEnd::class))
        .or_else(|| error.downcast_ref().map(ParticipantEnd::class))
        .or_else(|| error.downcast_ref().map(RegisterError::class))
        .or_else(|| match error.downcast_ref()? {
            // That all numbers are taken is for whoever starts processes.
            ClaimError::Failed(error) => Some(error.class()),
            _ => None,
        });
    class == Some(ErrorClass::Recoverable)
}

/// How long a process that is late waits for a server to hear of its end.
const FAREWELL: Duration = Duration::from_secs(2);
