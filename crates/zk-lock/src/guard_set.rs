//! A set of guards that are held, checked and released together.

use std::fmt;
use std::time::Instant;

use futures_util::future;
use zk_core::NodePath;
use zk_core::Transaction;

use crate::error::AcquireError;
use crate::error::LockLoss;
use crate::error::ReleaseError;
use crate::guard::Guard;
use crate::retry::prove_alive;

/// Guards that are only useful together; at least one.
#[derive(Debug)]
pub(crate) struct GuardSet(Vec<Guard>);

impl GuardSet {
    /// # Panics
    ///
    /// If `guards` is empty.
    pub(crate) fn new(guards: Vec<Guard>) -> Self {
        assert!(!guards.is_empty(), "a guard set has at least one guard");
        Self(guards)
    }

    pub(crate) fn as_slice(&self) -> &[Guard] {
        &self.0
    }

    /// Splits off the last `count` guards; `None` if either part would be empty.
    pub(crate) fn split_off(&mut self, count: usize) -> Option<Self> {
        let stay = self.0.len().checked_sub(count)?;
        (stay > 0 && count > 0).then(|| Self(self.0.split_off(stay)))
    }

    /// Resolves with the first loss of any guard.
    pub(crate) fn lost(&self) -> impl Future<Output = LockLoss> + Send + use<> {
        let losses = self.0.iter().map(|guard| Box::pin(guard.lost()));
        let first = future::select_all(losses);
        async move { first.await.0 }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.0.iter().all(Guard::is_valid)
    }

    /// Returns the earliest instant of all guards; `None` if one of them is lost.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        let instants = self.0.iter().map(Guard::valid_until);
        instants.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// Adds a check of each guard's node.
    pub(crate) fn checked(&self, transaction: Transaction) -> Transaction {
        let paths = self.0.iter().map(Guard::path);
        paths.fold(transaction, Transaction::check)
    }

    /// Waits until all guards are valid, or returns the one that is lost for good.
    pub(crate) async fn prove_alive(&self) -> Result<(), LostGuard> {
        while !self.is_valid() {
            for guard in &self.0 {
                let held = guard.held();
                if held.is_over() {
                    return Err(LostGuard::of(guard, held.lost_for_good().await));
                }
                let proved = async {
                    match prove_alive(&held.session, &held.session_lease).await {
                        Err(AcquireError::SessionLost { .. }) => Err(LockLoss::SessionLost),
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
                return Err(LostGuard::of(guard, loss));
            }
        }
        Ok(())
    }

    /// Releases all guards concurrently and waits for the replies.
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

/// Waits until one of the guards is lost for good; pending forever if there are none.
pub(crate) async fn first_lost(guards: &[Guard]) -> LostGuard {
    let losses = guards.iter().map(|guard| {
        Box::pin(async move { LostGuard::of(guard, guard.held().lost_for_good().await) })
    });
    let losses: Vec<_> = losses.collect();
    if losses.is_empty() {
        return future::pending().await;
    }
    future::select_all(losses).await.0
}

/// The guard that was lost.
#[derive(Debug, Clone)]
pub(crate) struct LostGuard {
    pub(crate) node: NodePath,
    pub(crate) loss: LockLoss,
}

impl LostGuard {
    fn of(guard: &Guard, loss: LockLoss) -> Self {
        Self {
            node: guard.path().clone(),
            loss,
        }
    }
}

/// The errors of a release of several nodes; at least one.
///
/// The nodes without an error were released.
#[derive(Debug, Clone)]
pub struct ReleaseErrors(Vec<ReleaseError>);

impl ReleaseErrors {
    /// Returns the errors, at most one for each node.
    pub fn errors(&self) -> &[ReleaseError] {
        &self.0
    }

    /// Returns whether a node had been lost before the release, so that work may have overlapped with that of others.
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
