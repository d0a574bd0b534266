//! What an application has with each of its sessions: made again after a loss.

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::sessions::{Sessions, SessionsEnd};

/// What belongs to one session, and may be lost while the session lives.
///
/// Do not implement it for what guards something, such as the guard of a lock: an application that lost a lock has to end
/// its work before it acquires the lock again.
pub trait SessionBound: Send + Sync + 'static {
    /// Why it was lost.
    type Loss: Display + Send;

    /// Waits until it is lost.
    fn lost(&self) -> impl Future<Output = Self::Loss> + Send;
}

/// A value that is made again whenever it or its session is lost; created by [`Sessions::keep`].
///
/// Clones share it.
///
/// # Dropping
///
/// When the last clone is dropped, the value is not made again, and is dropped as soon as nothing else uses it.
pub struct Kept<T> {
    shared: Arc<Shared<T>>,
}

/// Dropped with the last handle; the task does not hold it.
struct Shared<T> {
    state: watch::Receiver<State<T>>,
    task: AbortHandle,
}

struct State<T> {
    value: Option<Arc<T>>,
    problem: Option<Arc<str>>,
    end: Option<SessionsEnd>,
}

impl Sessions {
    /// Makes a value with the current session, and again whenever the value or the session is lost, until the returned
    /// handle is dropped.
    ///
    /// An attempt that fails while the session lives is repeated after a second, then after ever longer pauses up to half a
    /// minute, without an end; [`Kept::problem`] says why.
    /// A running attempt is dropped when its session is lost.
    ///
    /// ```no_run
    /// # struct Member;
    /// # impl zk_core::SessionBound for Member {
    /// #     type Loss = &'static str;
    /// #     async fn lost(&self) -> &'static str { "" }
    /// # }
    /// # use zk_core::SessionBound as _;
    /// # async fn join(_: &zk_core::Session) -> Result<Member, zk_core::Error> { Ok(Member) }
    /// # async fn demo(sessions: zk_core::Sessions) -> Result<(), zk_core::SessionsEnd> {
    /// let member = sessions.keep(async |session| join(&session).await);
    /// let now = member.ready().await?;
    /// println!("lost: {}", now.lost().await);
    /// let next = member.next_after(&now).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep<T, E, F>(&self, make: impl FnMut(Session) -> F + Send + 'static) -> Kept<T>
    where
        T: SessionBound,
        E: Display + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let sender = watch::Sender::new(State {
            value: None,
            problem: None,
            end: None,
        });
        let state = sender.subscribe();
        let task = self.spawn(keep(self.clone(), make, sender));
        Kept {
            shared: Arc::new(Shared {
                state,
                task: task.abort_handle(),
            }),
        }
    }
}

impl<T> Kept<T> {
    /// Returns the value, or `None` while there is none. It may be lost by now.
    pub fn current(&self) -> Option<Arc<T>> {
        self.shared.state.borrow().value.clone()
    }

    /// Returns why there is no value; `None` if there is one, or if nothing has failed yet.
    pub fn problem(&self) -> Option<Arc<str>> {
        self.shared.state.borrow().problem.clone()
    }

    /// Waits until there is a value, and returns it. It may be lost by now, and be replaced in a moment; a caller that knows
    /// of a loss waits for the [next one](Self::next_after).
    ///
    /// That may take for ever: add a timeout, and report the [`problem`](Self::problem) when it is over.
    ///
    /// # Errors
    ///
    /// If there will be no further session.
    pub async fn ready(&self) -> Result<Arc<T>, SessionsEnd> {
        self.first(|_| true).await
    }

    /// Waits until there is another value than `previous`, which was lost, and returns it. As for [`ready`](Self::ready),
    /// add a timeout.
    ///
    /// # Errors
    ///
    /// If there will be no further session.
    pub async fn next_after(&self, previous: &Arc<T>) -> Result<Arc<T>, SessionsEnd> {
        self.first(|value| !Arc::ptr_eq(value, previous)).await
    }

    /// Waits for a value that is wanted.
    async fn first(&self, is_wanted: impl Fn(&Arc<T>) -> bool) -> Result<Arc<T>, SessionsEnd> {
        let mut state = self.shared.state.clone();
        loop {
            {
                let state = state.borrow_and_update();
                if let Some(value) = state.value.as_ref().filter(|value| is_wanted(value)) {
                    return Ok(Arc::clone(value));
                }
                if let Some(end) = &state.end {
                    return Err(end.clone());
                }
            }
            if state.changed().await.is_err() {
                return Err(SessionsEnd::Closed);
            }
        }
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.borrow();
        f.debug_struct("Kept")
            .field("has_value", &state.value.is_some())
            .field("problem", &state.problem)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A value that others can take until this is dropped.
struct Published<'a, T> {
    state: &'a watch::Sender<State<T>>,
    value: Arc<T>,
}

impl<'a, T> Published<'a, T> {
    fn new(state: &'a watch::Sender<State<T>>, value: T) -> Self {
        let value = Arc::new(value);
        state.send_modify(|state| {
            state.value = Some(Arc::clone(&value));
            state.problem = None;
        });
        Self { state, value }
    }
}

impl<T> Drop for Published<'_, T> {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.value = None);
    }
}

/// Makes the value with one session after the other.
async fn keep<T, E, F>(
    sessions: Sessions,
    mut make: impl FnMut(Session) -> F,
    state: watch::Sender<State<T>>,
) where
    T: SessionBound,
    E: Display,
    F: Future<Output = Result<T, E>>,
{
    let end = loop {
        let session = match sessions.session().await {
            Ok(session) => session,
            Err(end) => break end,
        };
        tokio::select! {
            biased;
            _ = session.lost() => {}
            never = keep_with(&session, &mut make, &state) => match never {},
        }
    };
    state.send_modify(|state| state.end = Some(end));
}

/// Makes the value again and again.
async fn keep_with<T, E, F>(
    session: &Session,
    make: &mut impl FnMut(Session) -> F,
    state: &watch::Sender<State<T>>,
) -> Infallible
where
    T: SessionBound,
    E: Display,
    F: Future<Output = Result<T, E>>,
{
    let mut attempts = 0;
    loop {
        let problem: Arc<str> = match make(session.clone()).await {
            Ok(value) => {
                attempts = 0;
                let published = Published::new(state, value);
                published.value.lost().await.to_string().into()
            }
            Err(error) => error.to_string().into(),
        };
        tracing::warn!(session = %session.id(), %problem, "there is no value of this session, making it again");
        state.send_modify(|state| state.problem = Some(problem));
        attempts += 1;
        let chance = || session.handle().engine().chance();
        let pause = PAUSES.pause(attempts, Duration::ZERO, chance);
        session.pause(pause.unwrap_or_default()).await;
    }
}

const PAUSES: RetryPolicy =
    RetryPolicy::exponential(Duration::from_secs(1)).capped(Duration::from_secs(30));
