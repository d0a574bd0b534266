//! The guards of readers and writers.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::RwQueues;
use crate::error::{ReleaseError, YieldError};
use crate::fencing_token::FencingToken;
use crate::guard::{Guard, impl_lock_guard};
use crate::labels::LockKind;
use crate::measure::HoldStart;

/// Implements what the two guards have in common.
macro_rules! impl_rw_guard {
    ($guard:ident, $kind:ident) => {
        impl_lock_guard!($guard, FencingToken, fencing_token);

        impl $guard {
            pub(super) fn new(queues: &Arc<RwQueues>, guard: Guard) -> Self {
                let queues = Arc::clone(queues);
                guard.measure(HoldStart::now(LockKind::$kind));
                Self { queues, guard }
            }

            /// Releases the lock and waits until the ensemble has deleted its node, see [`Guard::release`].
            ///
            /// # Errors
            ///
            /// The errors of [`Guard::release`].
            ///
            /// # Cost
            ///
            /// One round trip. A writer, or the last reader before one, wakes the contenders that are next.
            pub async fn release(self) -> Result<(), ReleaseError> {
                self.guard.release().await
            }

            /// Lets the waiters have the lock before it is held again, see [`Guard::yield_now`].
            ///
            /// # Errors
            ///
            /// The errors of [`Guard::yield_now`], which has the same cancel safety and cost. After any error the lock
            /// is not held.
            pub async fn yield_now(self) -> Result<Self, YieldError> {
                let Self { queues, guard } = self;
                let guard = guard.yield_now().await?;
                Ok(Self { queues, guard })
            }
        }

        impl Deref for $guard {
            type Target = Guard;

            fn deref(&self) -> &Guard {
                &self.guard
            }
        }

        impl fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut tuple = f.debug_tuple(stringify!($guard));
                tuple.field(&self.guard).finish()
            }
        }
    };
}

/// A read/write lock held for reading: other readers may hold it too, but no writer.
///
/// It dereferences to [`Guard`].
/// The [fencing token](Guard::fencing_token) of a reader is higher than that of every writer ahead of it and lower than
/// that of every writer behind it. A downgraded writer keeps its token.
///
/// # Dropping
///
/// The same as for a [`Guard`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadGuard {
    pub(super) queues: Arc<RwQueues>,
    pub(super) guard: Guard,
}

/// A read/write lock held for writing, exclusively.
///
/// It dereferences to [`Guard`].
///
/// # Dropping
///
/// The same as for a [`Guard`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard {
    pub(super) queues: Arc<RwQueues>,
    pub(super) guard: Guard,
}

impl_rw_guard!(ReadGuard, Read);
impl_rw_guard!(WriteGuard, Write);
