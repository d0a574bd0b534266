//! What the errors of all recipes have in common: their text with all sources, and their class.

use std::error::Error;
use std::fmt;

use zk_core::ErrorClass;

/// An error of a recipe, as a program prints it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    pub(crate) class: ErrorClass,
}

impl Failure {
    pub(crate) fn new(error: &dyn Error, class: ErrorClass) -> Self {
        Self {
            text: chain(error),
            class,
        }
    }

    /// Returns whether it says that repeating it is of no use because of this right to a node at `root` or below.
    pub(crate) fn is_lack_of(&self, right: &str, root: &str) -> bool {
        let right = right.to_uppercase();
        let named = self.rights();
        // An update needs both, whichever is missing.
        let is_named = named.iter().all(|one| *one == right)
            || named.contains(&&*right) && self.text.contains("READ and WRITE");
        self.is_lack_of_rights() && is_named && self.text.contains(root)
    }

    /// Returns whether it says that repeating it is of no use because of some right.
    pub(crate) fn is_lack_of_rights(&self) -> bool {
        self.class == ErrorClass::Outcome && !self.rights().is_empty()
    }

    /// Returns the rights that it names.
    fn rights(&self) -> Vec<&str> {
        let words = self.text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let rights = ["CREATE", "DELETE", "READ", "WRITE", "ADMIN"];
        words.filter(|word| rights.contains(word)).collect()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.text, self.class)
    }
}

/// Converts errors that return their class.
macro_rules! with_class {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let class = error.class();
                Self::new(&error, class)
            }
        }
    )*};
}

/// Converts errors about arguments, which are refused before anything is sent.
macro_rules! of_arguments {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(&error, ErrorClass::Outcome)
            }
        }
    )*};
}

with_class!(
    zk_barrier::EnterError,
    zk_barrier::LeaveError,
    zk_cache::CacheEnd,
    zk_config::PublishError,
    zk_core::Error,
    zk_core::PersistentNodeError,
    zk_counter::CounterError,
    zk_discovery::PickError,
    zk_discovery::QueryError,
    zk_discovery::RegisterError,
    zk_discovery::UpdateError,
    zk_group::SetPayloadError,
    zk_id::BlockError,
    zk_id::ClaimError,
    zk_id::NextError,
    zk_id::SequenceError,
    zk_id::ZxidError,
    zk_leader::ParticipantEnd,
    zk_leader::ResignError,
    zk_leader::StepDownError,
    zk_leader::TakeOverError<std::convert::Infallible>,
    zk_lock::AcquireError,
    zk_lock::DowngradeError,
    zk_lock::ReapError,
    zk_lock::ReleaseError,
    zk_lock::RevokeError,
    zk_lock::TakeLeaseError,
    zk_lock::UpgradeError,
    zk_lock::YieldError,
    zk_queue::CancelError,
    zk_queue::DeadLetterBatchError,
    zk_queue::DeadLetterError,
    zk_queue::NotSettled<String>,
    zk_queue::OfferError,
    zk_queue::SettleError,
    zk_queue::TakeError,
);

of_arguments!(
    zk_core::ParsePathError,
    zk_discovery::BuildError,
    zk_group::JoinError,
    zk_group::partitioner::StartError,
    zk_lock::MultiLockError,
    zk_lock::RwLockError,
    zk_queue::PathError,
);

/// Returns an error and its sources in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let source = error.source().map(|source| format!(": {}", chain(source)));
    error.to_string() + &source.unwrap_or_default()
}
