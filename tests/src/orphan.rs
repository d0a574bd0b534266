//! Runs the orphan-contender scenario: a lock's node is created while its client moves to another server.
//!
//! The client's link breaks directly after its CREATE, which is not committed yet when the client reconnects to a
//! server that does not show it: a follower that lags, or the leader, which answers a `sync` of its own clients at once.
//! A client that searches for its node there finds none, creates a second one, and waits for its own first one: no
//! contender acquires the lock until that session ends.
//! The scenario works with any client, so that clients can be compared.

use std::time::Duration;

use anyhow::Context as _;
use tokio::time::Instant;
use zk_core::Session;
use zk_fault_proxy::{Clients, FaultProxy, Match, Route};
use zk_harness::{DataStore, Ensemble};
use zk_lock::{FairLock, Guard};

use crate::peers::PeerContender;

/// Where the CREATE is delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Slow {
    /// The client is connected to the leader, whose messages reach the followers late.
    FromLeader,
    /// The client is connected to a follower, whose messages reach the leader late.
    ToLeader,
    /// The client is connected to a follower. The messages of the leader reach the followers late, so that it waits for
    /// their acknowledgements, and the client reconnects to the leader.
    ForQuorum,
}

/// Three servers behind fault proxies, with links between them that can be delayed.
#[derive(Debug)]
pub struct Stage {
    ensemble: Ensemble,
    proxy: FaultProxy,
    observer: Session,
    played: u32,
}

/// A client with a lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum Contender {
    /// A contender of another client library, in its own process.
    Peer(PeerContender),
    /// Our contender, in this process.
    Ours {
        /// The session.
        session: Session,
        /// Its lock.
        lock: FairLock,
        /// The guard while the lock is held.
        guard: Option<Guard>,
    },
}

/// The result of one run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ending {
    /// The time until the lock was acquired; `None` if it was not.
    pub acquired: Option<Duration>,
    /// The client's error if it gave up.
    pub failed: Option<String>,
    /// The largest number of the contender's nodes at one time.
    pub nodes: usize,
    /// The number of CREATEs of a contender node.
    pub creates: usize,
}

impl Stage {
    /// Starts the servers.
    ///
    /// # Errors
    ///
    /// They do not start.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is left.
    pub async fn start(zookeeper: Option<&str>) -> anyhow::Result<Self> {
        let mut builder = Ensemble::builder()
            .servers(3)
            .data(DataStore::Memory)
            // A follower with a delay of 2.5 s must remain a member.
            .tick_time(Duration::from_millis(500))
            .sync_limit(30)
            .proxied(true)
            .quorum_links(true)
            .start_timeout(Duration::from_secs(120));
        if let Some(version) = zookeeper {
            builder = builder.zookeeper(version);
        }
        let ensemble = builder.start().await?;
        let proxy = ensemble.proxy()?;
        let observer = Session::builder(ensemble.direct_connect_string())
            .session_timeout(Duration::from_secs(30))
            .operation_timeout(Duration::from_secs(30))
            .connect()
            .await?;
        Ok(Self {
            ensemble,
            proxy,
            observer,
            played: 0,
        })
    }

    /// The version of the servers.
    pub fn version(&self) -> &str {
        self.ensemble.version()
    }

    /// Takes the servers down.
    ///
    /// # Errors
    ///
    /// They do not go.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: the servers are taken down all the same.
    pub async fn down(self) -> anyhow::Result<()> {
        drop(self.observer);
        Ok(self.ensemble.down().await?)
    }

    /// Runs the scenario once with the contender that `begin` creates for a connect string and a path.
    ///
    /// # Errors
    ///
    /// The scenario failed for another reason than the delayed CREATE.
    ///
    /// # Cancel safety
    ///
    /// The links stay slow; do not run the scenario again.
    pub async fn play(
        &mut self,
        slow: Slow,
        lag: Duration,
        begin: impl AsyncFnOnce(String, String) -> anyhow::Result<Contender>,
    ) -> anyhow::Result<Ending> {
        self.played += 1;
        let path = format!("/orphan-{}", self.played);
        // No container: the leader would delete it during the scenario, and creating it again takes several lags.
        self.observer.create(&path, "").await?;
        let leader = self.ensemble.wait_leader(WARM_UP).await?.id();
        let mut followers = (1..=3).filter(|id| *id != leader);
        let (one, other) = (
            followers.next().context("three servers")?,
            followers.next().context("three servers")?,
        );
        let from_leader = vec![(leader, one), (leader, other)];
        let (home, next, slow_ways) = match slow {
            Slow::FromLeader => (leader, other, from_leader),
            Slow::ToLeader => (one, other, vec![(one, leader)]),
            Slow::ForQuorum => (one, leader, from_leader),
        };

        self.proxy.route(Clients::All, Route::To(home))?;
        let mut contender = begin(self.ensemble.connect_string(), path.clone()).await?;
        let session = contender.session();
        // Once without a fault, so that the client is warm.
        anyhow::ensure!(
            contender.acquire(WARM_UP).await?,
            "a free lock is not acquired"
        );
        contender.release().await?;
        self.until_gone(&path).await?;

        self.proxy.route(Clients::All, Route::To(next))?;
        self.proxy.log().clear();
        let creates = Match::create(format!("{path}/**"));
        let rule = self
            .proxy
            .on(creates.clone().session(session))
            .once()
            .forward_then_cut();
        for (from, to) in &slow_ways {
            self.ensemble.links()?.one_way(*from, *to)?.delay(lag);
        }

        let began = Instant::now();
        let mut most = 0;
        let acquired = {
            // On a busy machine the create may be lost with its connection, and is sent twice.
            let acquiring = contender.acquire(lag * 8 + ENOUGH);
            let counting = async {
                let mut looks = tokio::time::interval(Duration::from_millis(20));
                loop {
                    looks.tick().await;
                    most = most.max(self.names(&path).await.unwrap_or_default().len());
                }
            };
            tokio::select! {
                acquired = acquiring => acquired,
                () = counting => unreachable!("it counts for ever"),
            }
        };
        let (acquired, failed) = match acquired {
            Ok(acquired) => (acquired, None),
            Err(error) => (false, Some(format!("{error:#}"))),
        };
        let acquired_after = acquired.then(|| began.elapsed());
        // The observer's server may lag as well.
        self.observer.sync(&path).with_quorum().await?;
        let ending = Ending {
            acquired: acquired_after,
            failed,
            nodes: most.max(self.names(&path).await?.len()),
            creates: self.proxy.log().count_forwarded(&creates),
        };
        rule.happened(ENOUGH).await?;
        rule.remove();
        self.ensemble.links()?.heal();
        self.proxy.route(Clients::All, Route::SameServer)?;
        if acquired {
            contender.release().await?;
        }
        // A failed client may fail again.
        if ending.failed.is_none() {
            contender.quit().await?;
        } else {
            drop(contender);
        }
        self.until_gone(&path).await?;
        Ok(ending)
    }

    async fn names(&self, path: &str) -> anyhow::Result<Vec<String>> {
        match self.observer.list(path).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn until_gone(&self, path: &str) -> anyhow::Result<()> {
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        let going = async {
            while !self.names(path).await?.is_empty() {
                looks.tick().await;
            }
            Ok::<_, anyhow::Error>(())
        };
        tokio::time::timeout(GONE, going)
            .await
            .with_context(|| format!("nodes below {path} are left after {GONE:?}"))?
    }
}

impl Contender {
    /// The timeout of our session. One whose commits take longer than 9/20 of it never has a valid lease and acquires no
    /// lock; with a lag of 2.5 s each way a commit takes 5 s.
    pub const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

    /// Ours: a session of its own, and a lock on `path`.
    ///
    /// # Errors
    ///
    /// The path is not valid.
    pub fn ours(session: &Session, path: &str) -> anyhow::Result<Self> {
        let session = session.with_operation_timeout(Duration::from_secs(30));
        let lock = FairLock::new(&session, path)?;
        Ok(Self::Ours {
            session,
            lock,
            guard: None,
        })
    }

    fn session(&self) -> i64 {
        match self {
            Self::Peer(peer) => peer.session_id(),
            Self::Ours { session, .. } => session.id().as_i64(),
        }
    }

    async fn acquire(&mut self, within: Duration) -> anyhow::Result<bool> {
        match self {
            Self::Peer(peer) => Ok(peer.acquire(within).await?.is_some()),
            Self::Ours { lock, guard, .. } => {
                let acquired = tokio::time::timeout(within, lock.acquire()).await;
                *guard = acquired.ok().transpose()?;
                Ok(guard.is_some())
            }
        }
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Peer(peer) => peer.release().await.map(|_at| ()),
            Self::Ours { guard, .. } => match guard.take() {
                Some(guard) => Ok(guard.release().await?),
                None => Ok(()),
            },
        }
    }

    async fn quit(self) -> anyhow::Result<()> {
        match self {
            Self::Peer(peer) => peer.quit().await,
            Self::Ours { session, .. } => Ok(session.close().await?),
        }
    }
}

/// The time limit of an acquisition without a fault.
const WARM_UP: Duration = Duration::from_secs(30);
/// The time limit of an acquisition with the fault: longer than any client takes to reconnect.
const ENOUGH: Duration = Duration::from_secs(8);
/// The time limit for the expiry of a session that its client could not close.
const GONE: Duration = Duration::from_secs(60);
