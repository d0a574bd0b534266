//! The session that a shared value is written with, and the tokens that show the outcome of each write.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use zk_core::{Error, ErrorClass, IdempotencyTokens, NodePath, Session, SessionSource};

use crate::error::CounterError;

/// Writes a node with one session after the other.
#[derive(Debug)]
pub(crate) struct ValueWriter {
    path: NodePath,
    state: watch::Receiver<State>,
    task: AbortHandle,
}

#[derive(Debug, Clone)]
enum State {
    /// There is no session now.
    Waiting,
    Ready(Session, IdempotencyTokens),
    Ended,
}

impl ValueWriter {
    /// Starts to follow the sessions, and creates the node with the first one that can, if it does not exist.
    pub(crate) fn start(
        source: &SessionSource,
        path: NodePath,
        token: NodePath,
        initial: Vec<u8>,
    ) -> Self {
        let (sender, state) = watch::channel(State::Waiting);
        let follow = follow(source.clone(), path.clone(), token, initial, sender);
        Self {
            path,
            state,
            task: source.spawn(follow).abort_handle(),
        }
    }

    /// Writes with the current session, or with the next one if that is lost before the write was sent.
    ///
    /// `write` is given the time that is left.
    pub(crate) async fn write<T, F>(
        &self,
        limit: Duration,
        write: impl Fn(Session, IdempotencyTokens, Duration) -> F,
    ) -> Result<T, CounterError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let began = Instant::now();
        loop {
            let (session, tokens) = self.ready(began, limit).await?;
            let left = limit.saturating_sub(began.elapsed());
            match write(session.clone(), tokens, left).await {
                Ok(done) => return Ok(done),
                Err(error) if error.is_fatal() && !error.is_outcome_unknown() => {
                    // The state follows at once.
                    session.lost().await;
                }
                Err(error) => return Err(CounterError::Failed(error)),
            }
        }
    }

    async fn ready(
        &self,
        began: Instant,
        limit: Duration,
    ) -> Result<(Session, IdempotencyTokens), CounterError> {
        let path = || self.path.clone();
        let mut state = self.state.clone();
        let is_usable = |state: &State| match state {
            State::Waiting => false,
            State::Ready(session, _) => !session.state().is_lost(),
            State::Ended => true,
        };
        let until = began + limit.min(FAR);
        match timeout_at(until, state.wait_for(is_usable)).await {
            Ok(Ok(state)) => match &*state {
                State::Ready(session, tokens) => Ok((session.clone(), tokens.clone())),
                State::Waiting | State::Ended => Err(CounterError::Ended { path: path() }),
            },
            Ok(Err(_)) => Err(CounterError::Ended { path: path() }),
            Err(_) => Err(CounterError::TimedOut {
                path: path(),
                waited: limit,
            }),
        }
    }
}

impl Drop for ValueWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    mut source: SessionSource,
    path: NodePath,
    token: NodePath,
    initial: Vec<u8>,
    state: watch::Sender<State>,
) {
    let mut is_created = false;
    while let Some(session) = source.next().await {
        if !is_created {
            is_created = create(&session, &path, &initial).await;
        }
        let tokens = IdempotencyTokens::below_existing(&session, token.clone());
        state.send_replace(State::Ready(session.clone(), tokens));
        session.lost().await;
        state.send_replace(State::Waiting);
    }
    state.send_replace(State::Ended);
}

/// Creates the node if it does not exist. Whichever process does, it has the same data. Returns false if the session
/// ended first.
async fn create(session: &Session, path: &NodePath, initial: &[u8]) -> bool {
    loop {
        match session.create(path, initial).parents().await {
            Ok(_) => return true,
            Err(error) if error.is_node_exists() => return true,
            Err(error) if error.is_fatal() => return false,
            Err(error) if error.class() == ErrorClass::Outcome => {
                tracing::warn!(%path, %error, "the node of a shared value cannot be created");
                return true;
            }
            Err(_) => {
                session.pause(TRY_AGAIN).await;
            }
        }
    }
}

const TRY_AGAIN: Duration = Duration::from_millis(100);
/// A time limit that clocks can represent.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
