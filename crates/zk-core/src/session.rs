//! One ZooKeeper session.

use std::sync::Arc;
use std::time::Duration;

use crate::acl::Acl;
use crate::connect_string::ConnectString;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::operation::Create;
use crate::operation::Delete;
use crate::operation::Exists;
use crate::operation::Get;
use crate::operation::GetAcl;
use crate::operation::GetStat;
use crate::operation::List;
use crate::operation::Set;
use crate::operation::SetAcl;
use crate::operation::Sync;
use crate::operation::Target;
use crate::path::NodePath;
use crate::path::ParsePathError;
use crate::stat::SessionId;
use crate::transport::Ending;
use crate::transport::Transport;

mod builder;

pub use builder::ConnectError;
pub use builder::SessionBuilder;

/// One ZooKeeper session, connected.
///
/// Clones share the session.
/// Between servers it moves by itself; when the ensemble expires it, it is lost for ever and never replaced.
///
/// Each operation takes a [`NodePath`] or a text that is parsed into one, and is sent when it is first polled.
/// Requests of one session are carried out in the order in which they were sent.
///
/// # Dropping
///
/// Dropping the last clone ends the session in the background, while the runtime lives: ephemeral nodes go soon after.
/// When the process dies, or the runtime ends at once, the ensemble ends the session after its timeout.
/// [`close`](Self::close) waits for the end.
#[derive(Debug, Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) servers: ConnectString,
    pub(crate) operation_timeout: Duration,
}

impl Session {
    /// Starts to describe a session to the ensemble at `connect`: `host:port,host:port/chroot`.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), zk_core::ConnectError> {
    /// use std::time::Duration;
    /// use zk_core::Session;
    ///
    /// let session = Session::builder("zk1,zk2:2182,[::1]/app")
    ///     .session_timeout(Duration::from_secs(15))
    ///     .connect_timeout(Duration::from_secs(5))
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(connect: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(connect.into())
    }

    pub(crate) fn over(
        transport: Box<dyn Transport>,
        servers: ConnectString,
        operation_timeout: Duration,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                transport,
                servers,
                operation_timeout,
            }),
        }
    }

    /// Returns the number by which the ensemble knows this session.
    pub fn id(&self) -> SessionId {
        self.shared.transport.session_id()
    }

    /// Returns the session timeout the server granted, which may differ from the one asked for.
    pub fn session_timeout(&self) -> Duration {
        self.shared.transport.session_timeout()
    }

    /// Returns the servers and the chroot of this session.
    pub fn servers(&self) -> &ConnectString {
        &self.shared.servers
    }

    /// Creates a node.
    pub fn create<P>(&self, path: P, data: impl Into<Vec<u8>>) -> Create
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Create::new(self.target(path), data.into())
    }

    /// Reads the data of a node.
    pub fn get<P>(&self, path: P) -> Get
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Get::new(self.target(path))
    }

    /// Replaces the data of a node.
    pub fn set<P>(&self, path: P, data: impl Into<Vec<u8>>) -> Set
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Set::new(self.target(path), data.into())
    }

    /// Looks whether a node exists.
    pub fn exists<P>(&self, path: P) -> Exists
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Exists::new(self.target(path))
    }

    /// Reads the stat of a node that must exist.
    pub fn stat<P>(&self, path: P) -> GetStat
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        GetStat::new(self.target(path))
    }

    /// Lists the children of a node.
    pub fn list<P>(&self, path: P) -> List
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        List::new(self.target(path))
    }

    /// Deletes a node.
    pub fn delete<P>(&self, path: P) -> Delete
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Delete::new(self.target(path))
    }

    /// Makes this session's server catch up with the leader.
    pub fn sync<P>(&self, path: P) -> Sync
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Sync::new(self.target(path))
    }

    /// Reads the access rules of a node.
    pub fn acl<P>(&self, path: P) -> GetAcl
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        GetAcl::new(self.target(path))
    }

    /// Replaces the access rules of a node.
    pub fn set_acl<P>(&self, path: P, acl: Acl) -> SetAcl
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        SetAcl::new(self.target(path), acl)
    }

    /// Waits until the session is over: expired, refused or closed.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// This is how to be told of it.
    /// An expiry is noticed when a server says so, or after 7/5 of the session timeout without any server.
    /// It never resolves once the runtime that connected the session has ended.
    pub async fn lost(&self) {
        self.shared.transport.ended().await;
    }

    /// Ends the session and waits until the server has acknowledged it, at most for the operation timeout.
    ///
    /// Ephemeral nodes are gone then.
    /// Requests in flight are answered first; later ones on any clone fail with
    /// [`SessionClosed`](ErrorKind::SessionClosed).
    /// Closing twice is no error.
    ///
    /// # Errors
    ///
    /// [`SessionExpired`](ErrorKind::SessionExpired) or [`AuthFailed`](ErrorKind::AuthFailed) when the session had
    /// ended before, and its ephemeral nodes with it.
    /// [`TimedOut`](ErrorKind::TimedOut) when no server acknowledged: the ensemble then ends the session after its
    /// timeout.
    ///
    /// # Cancel safety
    ///
    /// Safe once polled: the end of the session continues in the background. Only waiting for it is given up.
    ///
    /// # Session loss
    ///
    /// Reported as an error, see above.
    pub async fn close(&self) -> Result<(), Error> {
        let deadline = Deadline::after(self.shared.operation_timeout);
        self.shared.transport.close();
        match deadline.bound(self.shared.transport.ended()).await {
            Some(Ending::Closed) => Ok(()),
            Some(ending) => Err(Error::new(Operation::Close, None, ending.kind())),
            None => Err(Error::new(Operation::Close, None, ErrorKind::TimedOut)
                .attempts_made(1)
                .detail(format!(
                    "waited {:?} for {} to acknowledge the end of session {}",
                    deadline.allowed(),
                    self.shared.servers,
                    self.id()
                ))),
        }
    }

    fn target<P>(&self, path: P) -> Target
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Target::new(Arc::clone(&self.shared), path)
    }
}
