//! Single calls of the recipes, each prepared by users with all rights.

use std::pin::Pin;

use zk_core::Session;

use super::failure::Failure;

mod leader;
mod lock;
mod other;
mod queue;

/// A call whose rights are measured.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// What the document calls it.
    pub(crate) name: &'static str,
    /// The rights that it needs, in the letters of ZooKeeper's shell.
    pub(crate) rights: &'static str,
    /// What happens instead of an error without one of these.
    pub(crate) without: &'static str,
    /// Prepares it.
    pub(crate) prepare: fn(Users) -> Preparing,
}

pub(crate) type Preparing = Pin<Box<dyn Future<Output = Result<Prepared, Failure>> + Send>>;

/// A call that was prepared. Its future makes it.
pub(crate) type Prepared = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Who prepares a call, and where.
pub(crate) struct Users {
    /// The user who makes the call.
    pub(crate) session: Session,
    /// Another one, who keeps all rights.
    pub(crate) other: Session,
    /// The path of the recipe, whose parent exists.
    pub(crate) path: String,
}

/// All calls, in the order of the document.
pub(crate) fn all() -> impl Iterator<Item = Call> {
    let all = [other::CORE, lock::CALLS, leader::CALLS, queue::CALLS];
    let all = all.into_iter().chain([other::CALLS]);
    all.flatten().copied()
}

impl Call {
    const fn new(
        name: &'static str,
        rights: &'static str,
        prepare: fn(Users) -> Preparing,
    ) -> Self {
        Self {
            name,
            rights,
            without: "",
            prepare,
        }
    }

    /// Says what happens without a right instead of an error.
    const fn without(self, without: &'static str) -> Self {
        Self { without, ..self }
    }
}

/// Ends the preparation with the call, which owns what it needs.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it is the end of a preparation, which may fail before"
)]
fn call<T, E: Into<Failure>>(
    call: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<Prepared, Failure> {
    Ok(Box::pin(
        async move { call.await.map(drop).map_err(Into::into) },
    ))
}

/// Waits for two, unless one of them fails.
async fn both<A, B, E: Into<Failure>, F: Into<Failure>>(
    one: impl Future<Output = Result<A, E>>,
    other: impl Future<Output = Result<B, F>>,
) -> Result<(A, B), Failure> {
    let one = async { one.await.map_err(Into::into) };
    let other = async { other.await.map_err(Into::into) };
    tokio::try_join!(one, other)
}

/// Waits for the first, while the second goes on, which may fail.
async fn first<A, B, E: Into<Failure>, F: Into<Failure>>(
    first: impl Future<Output = Result<A, E>>,
    second: impl Future<Output = Result<B, F>>,
) -> Result<A, Failure> {
    let second = async {
        match second.await {
            Ok(_) => std::future::pending().await,
            Err(error) => Err(error.into()),
        }
    };
    tokio::select! {
        biased;
        done = first => done.map_err(Into::into),
        failed = second => failed,
    }
}
