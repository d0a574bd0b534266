//! A process of the application: a worker, that stands for election as the master as well.
//!
//! It lives through any number of sessions. Everything that it has in ZooKeeper belongs to one session, and is built
//! again with the next one; nothing is carried over, so that there is nothing to repair.

use std::ops::ControlFlow;
use std::time::Duration;

use zk_config::Typed;
use zk_core::RetryPolicy;
use zk_core::Session;
use zk_core::SessionBuilder;
use zk_core::SuperviseError;
use zk_leader::ElectionOptions;
use zk_leader::End;
use zk_leader::Lease;
use zk_leader::Selector;

use crate::master::Master;
use crate::settings;
use crate::settings::Settings;
use crate::stop::Stop;
use crate::tell::Teller;
use crate::tree::Tree;
use crate::worker::Worker;

/// A process.
#[derive(Debug, Clone)]
pub struct Node {
    tree: Tree,
    settings: Typed<Settings>,
    teller: Teller,
}

impl Node {
    /// Describes a process. Nothing happens yet.
    pub fn new(tree: Tree, teller: Teller) -> Self {
        Self {
            settings: Settings::live(&tree),
            tree,
            teller,
        }
    }

    /// Runs with one session after the other until it is asked to stop.
    ///
    /// # Errors
    ///
    /// What another session will not change.
    ///
    /// # Cancel safety
    ///
    /// Safe: what it had is done by others when its session has ended.
    ///
    /// # Session loss
    ///
    /// It goes on with the next one.
    pub async fn run(&self, sessions: SessionBuilder, stop: &Stop) -> anyhow::Result<()> {
        let serving = sessions.supervise(RetryPolicy::default(), |session| {
            self.teller
                .say(format_args!("has session {}", session.id()));
            async move { self.serve(&session, stop).await }
        });
        tokio::select! {
            biased;
            served = serving => served.map_err(|error| match error {
                SuperviseError::Body(error) => error,
                SuperviseError::Connect(error) => error.into(),
                lost => anyhow::anyhow!("{lost}"),
            }),
            // There may be no session at all.
            () = async { stop.asked().await; pause(GRACE).await } => {
                self.teller.say(format_args!("gives up, after {GRACE:?}"));
                Ok(())
            }
            () = settings::tell_changes(self.settings.clone(), &self.teller) => Ok(()),
        }
    }

    /// Runs with one session, until it is asked to stop or the session is lost.
    ///
    /// # Errors
    ///
    /// What will not pass, and the loss of the session.
    ///
    /// # Cancel safety
    ///
    /// Safe: what it had is done by others when its session has ended.
    ///
    /// # Session loss
    ///
    /// An error.
    pub async fn serve(&self, session: &Session, stop: &Stop) -> anyhow::Result<()> {
        // Without a server the session is given up before that: an operation ends with an answer or with the session,
        // and never for want of patience in between.
        let session = session.with_operation_timeout(session.session_timeout() * 2);
        for path in self.tree.foundations() {
            match session.create(path, "").parents().idempotent().await {
                Err(error) if !error.is_node_exists() => return Err(error.into()),
                _ => {}
            }
        }
        let _following = self.settings.follow(&session);
        let master = Master::new(&session, &self.tree, &self.settings, &self.teller);
        let worker = Worker::new(&session, &self.tree, &self.settings, &self.teller);
        let options = ElectionOptions::default().with_id(self.teller.name());
        let selector = Selector::with_options(&session, self.tree.election(), &options)?;
        let handle = selector.handle().clone();
        let master = &master;
        let lead = async |lease: Lease| match master.lead(&lease).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        };
        let leading = async {
            match selector.run(lead).await {
                // The master could not go on.
                Ok(error) => Err(error),
                Err(End::Left) => Ok(()),
                Err(end) => Err(end.into()),
            }
        };
        let working = async {
            worker.work(stop).await?;
            handle.leave().await;
            Ok(())
        };
        // The one that fails ends the other one.
        let ((), ()) = tokio::try_join!(Box::pin(leading), Box::pin(working))?;
        self.teller.say(format_args!("ends"));
        // What is left in the background is waited for; the answers are known by now.
        drop(session.close().await);
        Ok(())
    }
}

async fn pause(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

/// How long a process that is asked to stop may take.
const GRACE: Duration = Duration::from_secs(30);
