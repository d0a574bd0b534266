//! The current value of a key or a subtree, decoded and read without a round trip.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_core::codec::{Codec, DecodeError};
use zk_core::{IntoNodePath, NodePath, ParsePathError, SessionSource};

use crate::problem::Problem;
use crate::snapshot_check::Extent;
use crate::subtree::Subtree;
use crate::value_file::format::FileSubject;
use crate::value_file::{FileProblem, ValueFile};

mod current;
mod value_state;

pub use current::Current;

use value_state::{ValueSource, ValueState};

/// The current value of a key or of a subtree. Clones share it.
///
/// Reading it takes no lock and sends no request.
/// It belongs to no session: a session that [follows](Self::follow) it keeps it current, or the application's sessions one
/// after the other. While there is none, the value stays, and its [`problem`](Self::problem) says so.
/// A value that cannot be decoded, or that the validation refuses, leaves the last good value in place and is reported
/// as the [`problem`](Self::problem).
///
/// Each clone tracks for itself which value it has [seen](Self::changed).
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_config::Typed;
/// use zk_core::codec::Text;
/// use zk_core::{RetryPolicy, Session};
///
/// let motto = Typed::<String>::node("/app/motto", Text)?
///     .validated(|motto| if motto.is_empty() { Err("it is empty".to_owned()) } else { Ok(()) })
///     .build();
/// let sessions = Session::builder("zk1:2181,zk2:2181,zk3:2181").sessions(RetryPolicy::default());
/// let _following = motto.follow(&sessions);
/// println!("{:?} {:?}", motto.ready().await, motto.problem());
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
    source: ValueSource<T>,
    default: Option<T>,
    /// With how long to wait for a session's value before the file is read.
    file: Option<(PathBuf, Duration)>,
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
        Self::decoded_by(path, move |data| Some(codec.decode(data?)))
    }

    /// Builds the value of one node; `decode` may also return a value for a missing node.
    pub(crate) fn decoded_by(
        path: impl IntoNodePath,
        decode: impl Fn(Option<&[u8]>) -> Option<Result<T, DecodeError>> + Send + Sync + 'static,
    ) -> Result<TypedBuilder<T>, ParsePathError> {
        let decode = move |nodes: &Subtree| decode(nodes.get(""));
        Ok(TypedBuilder::new(
            path.into_node_path()?,
            Extent::Node,
            decode,
        ))
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
        decode: impl Fn(&Subtree) -> Result<T, DecodeError> + Send + Sync + 'static,
    ) -> Result<TypedBuilder<T>, ParsePathError> {
        let decode = move |nodes: &Subtree| Some(decode(nodes));
        Ok(TypedBuilder::new(
            path.into_node_path()?,
            Extent::Subtree,
            decode,
        ))
    }

    /// Lets a session keep the value current, until the session is lost or the returned handle is dropped; or the
    /// application's [`Sessions`](zk_core::Sessions), one after the other, until there is no further one.
    ///
    /// Several sessions may follow the value at the same time. An older value never replaces a newer one, and a problem
    /// of one session is no [problem](Self::problem) of the value while another session reads the current data.
    ///
    /// The task runs on the runtime of the session.
    pub fn follow(&self, source: impl Into<SessionSource>) -> FollowHandle {
        let mut source = source.into();
        let state = Arc::clone(&self.state);
        let task = source.clone().spawn(async move {
            let follow = async {
                while let Some(session) = source.next().await {
                    state.follow(&session).await;
                    session.lost().await;
                }
            };
            tokio::join!(follow, state.load_if_unread());
        });
        FollowHandle { task }
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

    /// Returns the last problem with the [file](TypedBuilder::with_file) of the value, if there is one that was not
    /// followed by a success. Each is also logged with `tracing`, at level warn.
    pub fn file_problem(&self) -> Option<Arc<FileProblem>> {
        self.state.file_problem()
    }

    /// Waits until there is a value.
    ///
    /// That may take for ever: add a timeout, and report the [`problem`](Self::problem) when it is over.
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
    pub(crate) fn new(
        path: NodePath,
        extent: Extent,
        decode: impl Fn(&Subtree) -> Option<Result<T, DecodeError>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            source: ValueSource {
                path,
                extent,
                decode: Box::new(decode),
                validation: None,
            },
            default: None,
            file: None,
        }
    }

    /// Sets a validation, which returns an error with the reason to refuse a value.
    ///
    /// It runs on the task of the session, and must not block.
    pub fn validated(
        mut self,
        validation: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.source.validation = Some(Box::new(validation));
        self
    }

    /// Sets the value until a good one was read. By default there is none.
    pub fn with_default(mut self, value: T) -> Self {
        self.default = Some(value);
        self
    }

    /// Keeps the last good value in a file, with which the program starts if the servers cannot be reached. By default there
    /// is no file.
    ///
    /// The file is written after each change of the value: first under another name, which then replaces the file, so that
    /// a crash leaves the old or the new value. It contains the data of the nodes as they are, and on Unix only the user of
    /// the process can read it.
    ///
    /// If no session has read a good value `wait` after the first one [follows](Typed::follow), the value of the file
    /// becomes the current one: [`Current::saved_at`] says when it was written, and the [problem](Typed::problem) stays.
    /// It never replaces a value that was read, and is replaced by the first one, also by an older one if the server has
    /// caught up with the leader before: then the servers have been set up anew.
    /// So [`ready`](Typed::ready) takes about `wait` at most, once there is a file. For a start without servers, let
    /// [`Sessions`](zk_core::Sessions) follow the value.
    ///
    /// A file that is damaged, or of another path or kind of value, has no effect and is a
    /// [`file_problem`](Typed::file_problem). A missing one is none.
    ///
    /// Each process needs a file of its own. Its directory must exist.
    /// A change shortly before the end of the process may be missing in the file.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use zk_config::Typed;
    /// use zk_core::codec::Text;
    /// use zk_core::{RetryPolicy, Session};
    ///
    /// let motto = Typed::<String>::node("/app/motto", Text)?
    ///     .with_file("/var/lib/app/motto.zk", Duration::from_secs(5))
    ///     .build();
    /// let sessions = Session::builder("zk1:2181,zk2:2181,zk3:2181").sessions(RetryPolicy::default());
    /// let _following = motto.follow(&sessions);
    /// let now = motto.ready().await;
    /// if let Some(saved_at) = now.saved_at() {
    ///     println!("{} as of {saved_at:?}: {:?}", **now, motto.problem());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_file(mut self, file: impl Into<PathBuf>, wait: Duration) -> Self {
        self.file = Some((file.into(), wait));
        self
    }

    /// Builds the value. Nothing is read before a session [follows](Typed::follow) it.
    #[must_use]
    pub fn build(self) -> Typed<T> {
        let default = self.default.map(|value| {
            Arc::new(Current {
                value,
                revision: None,
                subtree: None,
                saved_at: None,
            })
        });
        let ValueSource { path, extent, .. } = &self.source;
        let file = self.file.map(|(file, wait)| {
            let subject = FileSubject::new(path.clone(), extent);
            ValueFile::new(file, wait, subject)
        });
        let state = ValueState::new(self.source, default, file);
        Typed {
            seen: state.number().subscribe(),
            state: Arc::new(state),
        }
    }
}

impl<T> fmt::Debug for TypedBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedBuilder")
            .field("path", &self.source.path)
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
