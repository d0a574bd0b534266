//! Requests to step down, as a leader receives them.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use zk_core::Error;
use zk_lock::RevocationRequest;

use crate::error::LeadershipLoss;
use crate::lease::{LeaderLease, LeadershipState};

/// A request to step down, as the leader receives it from
/// [`LeaderLease::step_down_requested`](crate::LeaderLease::step_down_requested).
///
/// # Dropping
///
/// Leaves the request unanswered. The requester waits until its deadline.
#[must_use = "the requester waits for an answer"]
pub struct StepDownRequest {
    request: RevocationRequest,
    leadership: Arc<LeadershipState>,
}

impl LeaderLease {
    /// Returns a future that resolves with the next request to step down: by whom, why and until when.
    ///
    /// The leader receives requests if a [policy](crate::ElectionOptions::with_step_down) is set; this function is for
    /// [`StepDownPolicy::Application`](crate::StepDownPolicy::Application).
    /// Each request is returned once; call this again for the next one. A leader that does not call it is not affected.
    /// The future does not borrow the lease. It is cancel safe: no request is lost.
    ///
    /// Requesters are not authenticated: any client that may write the node of the leader's inbox may use any name.
    ///
    /// # Errors
    ///
    /// Why the leadership is over.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn step() {}
    /// # async fn is_convenient() -> bool { true }
    /// # async fn demo(lease: zk_leader::LeaderLease) -> Result<(), Box<dyn std::error::Error>> {
    /// loop {
    ///     tokio::select! {
    ///         request = lease.step_down_requested() => {
    ///             // The leadership is over.
    ///             let Ok(request) = request else { break };
    ///             if is_convenient().await {
    ///                 request.accept().await?;
    ///                 break;
    ///             }
    ///             request.refuse("two minutes more").await?;
    ///         }
    ///         () = step() => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn step_down_requested(
        &self,
    ) -> impl Future<Output = Result<StepDownRequest, LeadershipLoss>> + Send + use<> {
        let leadership = Arc::clone(self.state());
        async move { leadership.step_down_requested().await }
    }
}

impl StepDownRequest {
    pub(crate) const fn new(request: RevocationRequest, leadership: Arc<LeadershipState>) -> Self {
        Self {
            request,
            leadership,
        }
    }

    /// Returns the name that the requester gives.
    pub fn by(&self) -> Option<&str> {
        self.request.by()
    }

    /// Returns the reason, if one was given.
    pub fn reason(&self) -> Option<&str> {
        self.request.reason()
    }

    /// Returns until when the requester waits, counted from when the request was seen here.
    pub fn deadline(&self) -> Option<Instant> {
        self.request.deadline()
    }

    /// Answers that the leader resigns, and makes it resign, as with
    /// [`ParticipantHandle::resign`](crate::ParticipantHandle::resign).
    ///
    /// A participant of a latch resigns at once: finish the leader's work before. The task of a selector continues until
    /// it ends, for its [grace](crate::ElectionOptions::with_grace) at most.
    ///
    /// # Errors
    ///
    /// If the answer cannot be written. The leader resigns all the same, which the requester notices.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The leader resigns from the first poll on, with or without an answer.
    ///
    /// # Cost
    ///
    /// A read and a write, and those of the resignation.
    pub async fn accept(self) -> Result<(), Error> {
        self.leadership.request_resign();
        match self.request.accept().await {
            // The leader has resigned by now, and its inbox is gone.
            Err(error) if error.is_no_node() => Ok(()),
            answered => answered,
        }
    }

    /// Answers that the leader does not resign now, and why.
    ///
    /// # Errors
    ///
    /// If the answer cannot be written, for example because the leadership is over.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the answer is either written or not.
    ///
    /// # Cost
    ///
    /// A read and a write.
    pub async fn refuse(self, reason: &str) -> Result<(), Error> {
        self.request.refuse(reason).await
    }
}

impl fmt::Debug for StepDownRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepDownRequest")
            .field("by", &self.by())
            .field("reason", &self.reason())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
