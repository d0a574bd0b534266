//! Several locks that are held as one.

use std::fmt;
use std::time::Instant;

use futures_util::future;
use zk_core::NodePath;
use zk_core::Transaction;

use crate::error::AcquireError;
use crate::error::Loss;
use crate::error::ReleaseError;
use crate::guard::Guard;

/// Guards that are worth something together only; at least one.
#[derive(Debug)]
pub(crate) struct Guards(Vec<Guard>);

impl Guards {
    /// # Panics
    ///
    /// Without any guard.
    pub(crate) fn new(guards: Vec<Guard>) -> Self {
        assert!(!guards.is_empty(), "whoever holds something has a guard");
        Self(guards)
    }

    pub(crate) fn as_slice(&self) -> &[Guard] {
        &self.0
    }

    /// Takes the last `count` of them away, unless none or nothing would be left.
    pub(crate) fn split_off(&mut self, count: usize) -> Option<Self> {
        let stay = self.0.len().checked_sub(count)?;
        (stay > 0 && count > 0).then(|| Self(self.0.split_off(stay)))
    }

    /// The first loss of any of them.
    pub(crate) fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let losses = self.0.iter().map(|guard| Box::pin(guard.lost()));
        let first = future::select_all(losses);
        async move { first.await.0 }
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.0.iter().all(Guard::is_trusted)
    }

    /// The earliest of their instants; `None` if one of them is lost.
    pub(crate) fn trusted_until(&self) -> Option<Instant> {
        let instants = self.0.iter().map(Guard::trusted_until);
        instants.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// Adds a check of each node.
    pub(crate) fn checked(&self, transaction: Transaction) -> Transaction {
        let paths = self.0.iter().map(Guard::path);
        paths.fold(transaction, Transaction::check)
    }

    /// Makes sure that all are trusted now, or tells which one is lost for good.
    pub(crate) async fn proved(&self) -> Result<(), Lost> {
        while !self.is_trusted() {
            for guard in &self.0 {
                let held = guard.held();
                if held.is_over() {
                    return Err(Lost::of(guard, held.lost_for_good().await));
                }
                let proved = async {
                    match held.proved().await {
                        Err(AcquireError::SessionLost { .. }) => Err(Loss::SessionLost),
                        Err(_) | Ok(()) => Ok(()),
                    }
                };
                let loss = tokio::select! {
                    biased;
                    loss = held.lost_for_good() => loss,
                    proved = proved => match proved {
                        Ok(()) => continue,
                        Err(loss) => loss,
                    },
                };
                return Err(Lost::of(guard, loss));
            }
        }
        Ok(())
    }

    /// Releases all at the same time and waits for that.
    pub(crate) async fn release(self) -> Result<(), ReleaseErrors> {
        let released = future::join_all(self.0.into_iter().map(Guard::release)).await;
        let errors: Vec<_> = released.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ReleaseErrors(errors))
        }
    }
}

/// Waits until one of these is lost for good; for ever if there are none.
pub(crate) async fn one_is_lost(guards: &[Guard]) -> Lost {
    let losses = guards
        .iter()
        .map(|guard| Box::pin(async move { Lost::of(guard, guard.held().lost_for_good().await) }));
    let losses: Vec<_> = losses.collect();
    if losses.is_empty() {
        return future::pending().await;
    }
    future::select_all(losses).await.0
}

/// One of several that was lost.
#[derive(Debug, Clone)]
pub(crate) struct Lost {
    pub(crate) node: NodePath,
    pub(crate) loss: Loss,
}

impl Lost {
    fn of(guard: &Guard, loss: Loss) -> Self {
        Self {
            node: guard.path().clone(),
            loss,
        }
    }
}

/// Some of what was held together was not released as it should; at least one.
///
/// What is not in it was released.
#[derive(Debug, Clone)]
pub struct ReleaseErrors(Vec<ReleaseError>);

impl ReleaseErrors {
    /// Returns what went wrong, for each node of which it did.
    pub fn errors(&self) -> &[ReleaseError] {
        &self.0
    }

    /// Tells whether something had been lost before the release, so that work may have overlapped with that of others.
    pub fn is_lost(&self) -> bool {
        let is_lost = |error: &ReleaseError| matches!(error, ReleaseError::Lost { .. });
        self.0.iter().any(is_lost)
    }
}

impl fmt::Display for ReleaseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            fmt::Display::fmt(error, f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ReleaseErrors {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.first()?.source()
    }
}
