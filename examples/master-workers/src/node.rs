//! A process of the application: a worker that is also a candidate for the master.
//!
//! It survives any number of sessions. All its state in ZooKeeper belongs to one session and is rebuilt with the next
//! one; nothing is carried over, so nothing needs repair.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use zk_config::Typed;
use zk_core::{Error, ErrorClass, RetryPolicy, RunError, Session, SessionBuilder};
use zk_discovery::{RegisterError, Registry};
use zk_id::ClaimError;
use zk_leader::{ElectionOptions, LeaderLease, ParticipantEnd, Selector};

use crate::member::Member;
use crate::pause::pause;
use crate::reporter::Reporter;
use crate::settings::{self, Settings};
use crate::status_endpoint::StatusEndpoint;
use crate::stop::Stop;
use crate::tree::Tree;

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
    /// Describes a process without starting it.
    pub fn new(tree: Tree, reporter: Reporter) -> Self {
        Self {
            settings: Settings::live(&tree),
            tree,
            reporter,
            status_endpoint: None,
            grace: Duration::from_secs(30),
        }
    }

    /// Sets how long it may take to finish its current tasks after a stop request. The default is 30 seconds.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the endpoint at which other processes query its last action.
    #[must_use]
    pub fn with_status_endpoint(mut self, endpoint: StatusEndpoint) -> Self {
        self.status_endpoint = Some(Arc::new(endpoint));
        self
    }

    /// Runs with one session after the other until it is asked to stop.
    ///
    /// # Errors
    ///
    /// An error that another session would not change, or that it did not finish in time after a stop request.
    ///
    /// # Session loss
    ///
    /// It continues with the next session, unless it was asked to stop: without a session it has no tasks to finish.
    pub async fn run(&self, sessions: SessionBuilder, stop: &Stop) -> anyhow::Result<()> {
        let newest = watch::Sender::new(None::<Session>);
        let serving = async {
            loop {
                let served = sessions
                    .clone()
                    .supervise(RetryPolicy::default(), |session| {
                        self.reporter
                            .report(format_args!("has session {}", session.id()));
                        newest.send_replace(Some(session.clone()));
                        async move { self.serve(&session, stop).await }
                    });
                match served.await {
                    // `serve` has closed the session, which ends this supervision.
                    Err(RunError::Body(error)) if may_pass(&error) => pause(PAUSE).await,
                    served => return served,
                }
            }
        };
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
                RunError::Body(error) => error,
                RunError::Ended(end) => end.into(),
                other => anyhow::anyhow!("{other}"),
            }),
            () = has_none => {
                self.reporter.report(format_args!("ends without a session"));
                Ok(())
            }
            () = is_late => {
                let session = newest.borrow().clone();
                if let Some(session) = session {
                    // Other workers take over its tasks once the session is closed.
                    drop(timeout(CLOSE_TIMEOUT, session.close()).await);
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
    /// A permanent error, or the loss of the session. If another session may help, this one is closed.
    pub async fn serve(&self, session: &Session, stop: &Stop) -> anyhow::Result<()> {
        let served = Box::pin(self.live(session, stop)).await;
        match &served {
            Ok(()) => self.reporter.report(format_args!("ends")),
            Err(error) if may_pass(error) => self.reporter.report(format_args!(
                "begins anew with another session, as {error:#}"
            )),
            Err(_) => return served,
        }
        // Waits for background clean-up; the results are known by now.
        drop(session.close().await);
        if served.is_err() {
            // Without a server the session ends when it expires.
            session.lost().await;
        }
        served
    }

    /// Runs all parts of the process with one session.
    async fn live(&self, session: &Session, stop: &Stop) -> anyhow::Result<()> {
        // Without a server the session is lost before this timeout, so an operation ends with a reply or with the
        // session.
        // The timeout applies if servers keep replying that they cannot serve, or if each connection breaks before a
        // reply.
        let session = session.with_operation_timeout(session.session_timeout() * 2);
        let member = Member {
            session: session.clone(),
            tree: self.tree.clone(),
            settings: self.settings.clone(),
            reporter: self.reporter.clone(),
        };
        member.create_missing().await?;
        let _following = self.settings.follow(&session);
        let options = ElectionOptions::default().with_id(self.reporter.name());
        let selector = Selector::with_options(&session, &self.tree.election, &options)?;
        let handle = selector.handle().clone();
        let lead = async |lease: LeaderLease| match member.lead(&lease).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        };
        let leading = async {
            match selector.run(lead).await {
                // The master failed.
                Ok(error) => Err(error),
                Err(ParticipantEnd::Left) => Ok(()),
                Err(end) => Err(end.into()),
            }
        };
        let working = async {
            member.work(stop).await?;
            handle.leave().await;
            Ok(())
        };
        tokio::select! {
            biased;
            // A failure of one part ends the other.
            done = async { tokio::try_join!(Box::pin(leading), Box::pin(working)) } => {
                let ((), ()) = done?;
            }
            error = self.stay_registered(&session) => return Err(error),
        }
        Ok(())
    }
}

impl Node {
    /// Serves the status endpoint, if there is one.
    async fn answer(&self) {
        match &self.status_endpoint {
            Some(endpoint) => endpoint.answer(&self.reporter).await,
            None => std::future::pending().await,
        }
    }

    /// Stays registered while the session lives. The node of an earlier session has a different name and expires by
    /// itself.
    async fn stay_registered(&self, session: &Session) -> anyhow::Error {
        let Some(endpoint) = &self.status_endpoint else {
            return std::future::pending().await;
        };
        let (registry, instance) = match (
            Registry::new(session, &self.tree.services),
            endpoint.instance(&self.reporter),
        ) {
            (Ok(registry), Ok(instance)) => (registry, instance),
            (Err(error), _) => return error.into(),
            (_, Err(error)) => return error.into(),
        };
        registry.keep_registered(&instance).await.into()
    }
}

/// Returns whether another session may avoid an error that occurred in a live session.
fn may_pass(error: &anyhow::Error) -> bool {
    let class = None
        .or_else(|| error.downcast_ref().map(Error::class))
        .or_else(|| error.downcast_ref().map(zk_cache::CacheEnd::class))
        .or_else(|| error.downcast_ref().map(ParticipantEnd::class))
        .or_else(|| error.downcast_ref().map(RegisterError::class))
        .or_else(|| match error.downcast_ref()? {
            // If all numbers are taken, the operator has to act.
            ClaimError::Failed(error) => Some(error.class()),
            _ => None,
        });
    class == Some(ErrorClass::Recoverable)
}

/// The pause before it begins anew.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a late process waits for a server to acknowledge the end of its session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
