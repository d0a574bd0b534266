//! Where services are registered.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use tokio::time::Instant;
use tokio::time::timeout;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::SessionId;
use zk_core::codec::EncodeError;

use crate::clock::registration_time;
use crate::conflict_policy::ConflictAction;
use crate::conflict_policy::ConflictContext;
use crate::conflict_policy::WhenTaken;
use crate::curator::Curator;
use crate::error::RegisterError;
use crate::instance::Instance;
use crate::instance::ServiceType;
use crate::instance::check_name;
use crate::layout::Format;
use crate::layout::Layout;
use crate::layout::ReadFormat;
use crate::provider::ProviderOptions;
use crate::provider::Providers;
use crate::redact::redact;
use crate::registration::Registration;

/// The services below a base path, over one session.
///
/// Clones share it.
/// Use one for each session and base: two of them in one process do not know of each other, see [`register`](Self::register).
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_discovery::{Instance, Registry};
///
/// let registry = Registry::new(&session, "/services")?;
/// let instance = Instance::builder("orders", ()).address("10.0.0.7").port(8080).build()?;
/// let registration = registry.register(instance).await?;
/// registration.update(|instance| instance.set_enabled(false)).await?;
/// registration.unregister().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Registry<L = Curator> {
    pub(crate) session: Session,
    base: NodePath,
    layout: Arc<L>,
    when_taken: WhenTaken,
    previous: Arc<[SessionId]>,
    reserved: Arc<ReservedPaths>,
}

/// The nodes that are registered, or about to be.
#[derive(Debug, Default)]
struct ReservedPaths(Mutex<BTreeSet<NodePath>>);

impl Registry {
    /// Makes a registry below `base`, in [Curator's layout](Curator).
    ///
    /// # Errors
    ///
    /// When `base` is no path.
    pub fn new<B>(session: &Session, base: B) -> Result<Self, ParsePathError>
    where
        B: TryInto<NodePath>,
        B::Error: Into<ParsePathError>,
    {
        Ok(Self {
            session: session.clone(),
            base: base.try_into().map_err(Into::into)?,
            layout: Arc::new(Curator::new()),
            when_taken: WhenTaken::WaitFor(2 * session.session_timeout()),
            previous: Arc::new([]),
            reserved: Arc::default(),
        })
    }
}

impl<L: Layout> Registry<L> {
    /// Sets the layout; default [`Curator`].
    #[must_use]
    pub fn with_layout<M: Layout>(self, layout: M) -> Registry<M> {
        Registry {
            session: self.session,
            base: self.base,
            layout: Arc::new(layout),
            when_taken: self.when_taken,
            previous: self.previous,
            reserved: self.reserved,
        }
    }

    /// Sets what to do when the node of an instance belongs to another session; default to wait for twice the session
    /// timeout.
    #[must_use]
    pub const fn with_taken(mut self, when: WhenTaken) -> Self {
        self.when_taken = when;
        self
    }

    /// Names sessions that this process had before, and that are over for it.
    ///
    /// A node of theirs is removed rather than waited for: whoever knows that its session is lost need not wait until the
    /// ensemble has found out as well.
    /// Never name the session of another process, which may be alive.
    #[must_use]
    pub fn succeeding(mut self, previous: impl IntoIterator<Item = SessionId>) -> Self {
        self.previous = previous.into_iter().collect();
        self
    }

    /// Returns the path below which the services are.
    pub fn base(&self) -> &NodePath {
        &self.base
    }

    /// Returns the view of the session that it uses.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Registers an instance, and answers what keeps it registered.
    ///
    /// Its node goes with the session, so that nobody finds the instance once the process is gone.
    /// While the connection is broken the node stays as it is: nothing is removed or made again.
    ///
    /// Where there is a node already, see [`with_taken`](Self::with_taken) and [`succeeding`](Self::succeeding); one of
    /// another session is never overwritten.
    /// When an answer is lost, the data of the node tells whether this call has made it: the registration time is another
    /// one for each create of this process, see [`Format::encode`].
    ///
    /// # Errors
    ///
    /// [`RegisterError::Taken`] when the node is somebody else's, or of this registry already.
    /// [`RegisterError::Failed`] when the ensemble did not do it within the session's operation timeout, or the instance
    /// is larger than servers take.
    ///
    /// # Cancel safety
    ///
    /// Safe: a node that was made, or will be by a request that has left, is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`RegisterError::SessionLost`].
    ///
    /// # Cost
    ///
    /// One round trip, two more for each parent that is missing; a watch for as long as it is registered.
    pub async fn register<P>(&self, instance: Instance<P>) -> Result<Registration<P>, RegisterError>
    where
        L: Format<P>,
        P: Send + 'static,
    {
        if instance.service_type != ServiceType::Dynamic {
            return Err(RegisterError::NotDynamic(instance.service_type));
        }
        let parent = self.layout.parent(&self.base, &instance.name)?;
        let new = NewInstance::new(&*self.layout, parent, instance)?;
        let (instance, node, reservation) = self.create_node(new).await?;
        let format: Arc<dyn Format<P>> = Arc::<L>::clone(&self.layout);
        Ok(Registration::new(instance, node, format, reservation))
    }

    /// Makes the node, as soon as there is none of anybody else.
    async fn create_node<P>(
        &self,
        mut new: NewInstance<'_, L, P>,
    ) -> Result<(Instance<P>, OwnedNode, PathReservation), RegisterError>
    where
        L: Format<P>,
        P: Send + 'static,
    {
        let session = &self.session;
        let mut waiting = ConflictWait::new();
        let mut reservation: Option<PathReservation> = None;
        loop {
            // Anew for each create: what an earlier one of this call may still make is removed, and told by its data.
            let (path, data) = new.write()?;
            if reservation
                .as_ref()
                .is_none_or(|reservation| reservation.path != path)
            {
                let taken = PathReservation::take(&self.reserved, path.clone());
                let owner = Some(session.id());
                reservation = Some(taken.ok_or_else(|| RegisterError::Taken {
                    path: path.clone(),
                    owner,
                })?);
            }
            if !new.is_distinguishable {
                // What is being removed would be found by its data, and that is the same.
                drop(timeout(session.operation_timeout(), session.settled()).await);
            }
            let create = session.create(&path, data).container_parents();
            if let Some(node) = create.claimed().await?
                && let Some(reservation) = reservation.take()
            {
                return Ok((new.instance, node, reservation));
            }
            self.resolve_conflict(&path, &mut waiting).await?;
        }
    }

    /// Waits until nothing is in the way of a node any more, or refuses.
    async fn resolve_conflict(
        &self,
        path: &NodePath,
        waiting: &mut ConflictWait,
    ) -> Result<(), RegisterError> {
        let session = &self.session;
        // A server that lags does not know it yet.
        let (synced, found) = tokio::join!(
            biased;
            session.sync(path).into_future(),
            session.exists(path).into_future(),
        );
        synced?;
        let Some(stat) = found? else {
            return Ok(());
        };
        let context = ConflictContext {
            session: session.id(),
            previous: &self.previous,
            policy: self.when_taken,
            has_settled: waiting.settled == Some(stat.czxid),
            waited: waiting.since.elapsed(),
        };
        match context.decide(stat.ephemeral_owner) {
            ConflictAction::Refuse => {
                return Err(RegisterError::Taken {
                    path: path.clone(),
                    owner: stat.ephemeral_owner,
                });
            }
            ConflictAction::Settle => {
                let gone = session.wait_for_deletion(path).created_by(stat.czxid);
                // When nothing is being removed any more, this node was not.
                let settled = async {
                    tokio::select! {
                        biased;
                        _ = gone.into_future() => {}
                        () = session.settled() => {}
                    }
                };
                drop(timeout(session.operation_timeout(), settled).await);
                waiting.settled = Some(stat.czxid);
            }
            ConflictAction::Remove => match session.delete(path).created_by(stat.czxid).await {
                Err(error) if !error.is_no_node() => return Err(error.into()),
                _ => {}
            },
            ConflictAction::Wait(limit) => {
                tracing::info!(path = %redact(path.as_str()), owner = ?stat.ephemeral_owner, "waiting until another session's node is gone");
                let breaks = session.counters().connection_losses;
                let wait = session.wait_for_deletion(path).created_by(stat.czxid);
                match wait.timeout(limit).await {
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::TimedOut | ErrorKind::NotConnected
                        ) => {}
                    other => other?,
                }
                if session.counters().connection_losses != breaks {
                    waiting.since = Instant::now();
                }
            }
        }
        Ok(())
    }

    /// Returns the names of all services, in order, also of those that have no instance.
    ///
    /// # Errors
    ///
    /// When the ensemble does not answer. That the base does not exist is none.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// One round trip. All names come in one answer.
    pub async fn services(&self) -> Result<Vec<String>, Error> {
        let names = match self.session.list(&self.base).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let services = names.iter().filter_map(|name| self.layout.service(name));
        let mut services: Vec<_> = services.collect();
        services.sort();
        Ok(services)
    }

    /// Follows the instances of a service, with default options.
    ///
    /// # Errors
    ///
    /// When there can be no such service.
    pub fn providers<P>(&self, service: &str) -> Result<Providers<P>, ParsePathError>
    where
        L: ReadFormat<P>,
        P: Send + Sync + 'static,
    {
        self.providers_with(service, ProviderOptions::default())
    }

    /// Follows the instances of a service.
    ///
    /// # Errors
    ///
    /// When there can be no such service.
    pub fn providers_with<P>(
        &self,
        service: &str,
        options: ProviderOptions,
    ) -> Result<Providers<P>, ParsePathError>
    where
        L: ReadFormat<P>,
        P: Send + Sync + 'static,
    {
        let parent = self.layout.parent(&self.base, service)?;
        let format: Arc<dyn ReadFormat<P>> = Arc::<L>::clone(&self.layout);
        Ok(Providers::start(
            &self.session,
            service,
            &parent,
            format,
            options,
        ))
    }
}

impl<L: fmt::Debug> fmt::Debug for Registry<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("session", &self.session.id())
            .field("base", &self.base)
            .field("layout", &self.layout)
            .field("when_taken", &self.when_taken)
            .field("previous", &self.previous)
            .finish_non_exhaustive()
    }
}

/// An instance that is about to be registered.
struct NewInstance<'a, L, P> {
    layout: &'a L,
    parent: NodePath,
    instance: Instance<P>,
    /// Whether two registrations of it are written differently.
    is_distinguishable: bool,
}

impl<'a, L: Format<P>, P> NewInstance<'a, L, P> {
    fn new(
        layout: &'a L,
        parent: NodePath,
        mut instance: Instance<P>,
    ) -> Result<Self, RegisterError> {
        let mut write = || {
            instance.registered = Some(registration_time());
            layout.encode(&instance)
        };
        let is_distinguishable = write()? != write()?;
        Ok(Self {
            layout,
            parent,
            instance,
            is_distinguishable,
        })
    }

    /// Writes it with a registration time that no other one has.
    fn write(&mut self) -> Result<(NodePath, Vec<u8>), RegisterError> {
        self.instance.registered = Some(registration_time());
        let entry = self.layout.encode(&self.instance)?;
        // With a slash in it, it would be a path.
        check_name(&entry.name)
            .map_err(|problem| EncodeError::new("the name of a node", problem))?;
        let path = self.parent.join(&entry.name)?;
        self.instance.id = entry.name;
        Ok((path, entry.data))
    }
}

/// How a claim has waited so far.
struct ConflictWait {
    since: Instant,
    /// The transaction of a node of this session that was waited for.
    settled: Option<i64>,
}

impl ConflictWait {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            settled: None,
        }
    }
}

/// The reservation of an instance in this registry, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct PathReservation {
    reserved: Arc<ReservedPaths>,
    path: NodePath,
}

impl PathReservation {
    fn take(reserved: &Arc<ReservedPaths>, path: NodePath) -> Option<Self> {
        let mut paths = reserved.0.lock().unwrap_or_else(PoisonError::into_inner);
        paths.insert(path.clone()).then(|| Self {
            reserved: Arc::clone(reserved),
            path,
        })
    }
}

impl Drop for PathReservation {
    fn drop(&mut self) {
        let mut paths = self
            .reserved
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        paths.remove(&self.path);
    }
}
