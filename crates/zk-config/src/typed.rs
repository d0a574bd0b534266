//! The current value of a key or a subtree, decoded and read without a round trip.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_core::IntoNodePath;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::codec::Codec;
use zk_core::codec::DecodeError;

use crate::problem::Problem;
use crate::subtree::Subtree;

mod current;
mod value_state;

pub use current::Current;

use value_state::Source;
use value_state::Validation;
use value_state::ValueState;

/// The current value of a key or of a subtree. Clones share it.
///
/// Reading it takes no lock and sends no request.
/// It belongs to no session: a session that [follows](Self::follow) it keeps it current. When that session is lost the
/// value stays until the next session follows it.
/// A value that cannot be decoded, or that the validation refuses, leaves the last good value in place and is reported
/// as the [`problem`](Self::problem).
///
/// Each clone tracks for itself which value it has [seen](Self::changed).
///
/// ```no_run
/// # async fn serve(_: zk_core::Session) -> Result<(), zk_core::Error> { Ok(()) }
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_config::Typed;
/// use zk_core::codec::Text;
/// use zk_core::{RetryPolicy, Session};
///
/// let motto = Typed::<String>::node("/app/motto", Text)?
///     .validated(|motto| if motto.is_empty() { Err("it is empty".to_owned()) } else { Ok(()) })
///     .build();
/// let reader = motto.clone();
/// Session::builder("zk1:2181,zk2:2181,zk3:2181")
///     .supervise(RetryPolicy::default(), async |session| {
///         let _following = motto.follow(&session);
///         serve(session).await
///     })
///     .await?;
/// println!("{:?} {:?}", reader.current().as_deref(), reader.problem());
/// # Ok(())
/// # }
/// ```
pub struct Typed<T> {
    state: Arc<ValueState<T>>,
    seen: watch::Receiver<u64>,
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            seen: self.seen.clone(),
        }
    }
}

/// A builder of a [`Typed`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct TypedBuilder<T> {
    path: NodePath,
    source: Source<T>,
    validation: Option<Validation<T>>,
    default: Option<T>,
}

impl<T: Send + Sync + 'static> Typed<T> {
    /// Builds the value of one node.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn node<C>(path: impl IntoNodePath, codec: C) -> Result<TypedBuilder<T>, ParsePathError>
    where
        C: Codec<T> + 'static,
    {
        Self::made_by(path, move |data| Some(codec.decode(data?)))
    }

    /// Builds the value of one node; `make` may also return a value for a missing node.
    pub(crate) fn made_by(
        path: impl IntoNodePath,
        make: impl Fn(Option<&[u8]>) -> Option<Result<T, DecodeError>> + Send + Sync + 'static,
    ) -> Result<TypedBuilder<T>, ParsePathError> {
        Ok(TypedBuilder {
            path: path.into_node_path()?,
            source: Source::Node(Box::new(make)),
            validation: None,
            default: None,
        })
    }

    /// Builds one value from a node and everything below it.
    ///
    /// The nodes are read as they were together at one moment: keys that were published in one transaction are all new
    /// or all old.
    /// While they change faster than they can be read the value stays, and the problem is [`Problem::Contended`].
    /// A missing node is an empty subtree.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    ///
    /// # Cost
    ///
    /// For each session that follows it: a cache of the subtree, see [`zk_cache::TreeCache`].
    /// A change costs the read of the changed node, and a check of all nodes: one request for 64 of them, and one for each
    /// with more than 64 KiB or on servers before 3.6, pipelined. A created or deleted node costs two checks and one list.
    pub fn subtree(
        path: impl IntoNodePath,
        make: impl Fn(&Subtree) -> Result<T, DecodeError> + Send + Sync + 'static,
    ) -> Result<TypedBuilder<T>, ParsePathError> {
        Ok(TypedBuilder {
            path: path.into_node_path()?,
            source: Source::Subtree(Box::new(make)),
            validation: None,
            default: None,
        })
    }

    /// Lets a session keep the value current, until the session is lost or the returned handle is dropped.
    ///
    /// Several sessions may follow the value at the same time. An older value never replaces a newer one, and a problem
    /// of one session is no [problem](Self::problem) of the value while another session reads the current data.
    ///
    /// The task runs on the runtime of the session.
    pub fn follow(&self, session: &Session) -> FollowHandle {
        FollowHandle {
            task: ValueState::follow(&self.state, session),
        }
    }

    /// Returns the current value, or `None` before the first good one. Takes no lock.
    pub fn current(&self) -> Option<Arc<Current<T>>> {
        self.state.current()
    }

    /// Returns why the value may differ from the published one; `None` if it is the published one as far as is known.
    pub fn problem(&self) -> Option<Arc<Problem>> {
        self.state.problems().borrow().clone()
    }

    /// Returns a channel with the current [problem](Self::problem) and its changes.
    pub fn problems(&self) -> watch::Receiver<Option<Arc<Problem>>> {
        self.state.problems().subscribe()
    }

    /// Waits until there is a value.
    ///
    /// That may take for ever: add a timeout, and report the [`problem`](Self::problem) when it is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing happens.
    ///
    /// # Session loss
    ///
    /// Keeps waiting; another session may follow.
    pub async fn ready(&self) -> Arc<Current<T>> {
        let mut number = self.state.number().subscribe();
        loop {
            if let Some(current) = self.current() {
                return current;
            }
            next(&mut number).await;
        }
    }

    /// Waits for a value that this clone has not seen, and returns the newest one.
    ///
    /// Values that were replaced in between are skipped.
    /// A problem is not a value: this waits while the last good value stays.
    ///
    /// # Cancel safety
    ///
    /// Safe: no value is lost.
    ///
    /// # Session loss
    ///
    /// Keeps waiting; another session may follow.
    pub async fn changed(&mut self) -> Arc<Current<T>> {
        loop {
            next(&mut self.seen).await;
            if let Some(current) = self.current() {
                return current;
            }
        }
    }
}

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("path", self.state.path())
            .field("problem", &*self.state.problems().borrow())
            .finish_non_exhaustive()
    }
}

impl<T> TypedBuilder<T> {
    /// Sets a validation, which returns an error with the reason to refuse a value.
    ///
    /// It runs on the task of the session, and must not block.
    pub fn validated(
        mut self,
        validation: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.validation = Some(Box::new(validation));
        self
    }

    /// Sets the value until a good one was read. By default there is none.
    pub fn with_default(mut self, value: T) -> Self {
        self.default = Some(value);
        self
    }

    /// Builds the value. Nothing is read before a session [follows](Typed::follow) it.
    #[must_use]
    pub fn build(self) -> Typed<T> {
        let default = self.default.map(|value| {
            Arc::new(Current {
                value,
                revision: None,
            })
        });
        let state = ValueState::new(self.path, self.source, self.validation, default);
        Typed {
            seen: state.number().subscribe(),
            state: Arc::new(state),
        }
    }
}

impl<T> fmt::Debug for TypedBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedBuilder")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A handle of a session that follows a value; made by [`Typed::follow`].
///
/// # Dropping
///
/// The session stops following. The value stays, and its problem is [`Problem::Stale`].
#[derive(Debug)]
#[must_use = "dropping the handle stops following the value"]
pub struct FollowHandle {
    task: JoinHandle<()>,
}

impl Drop for FollowHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits for the next number. The caller has a handle, and so the sender lives.
async fn next(number: &mut watch::Receiver<u64>) {
    if number.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
