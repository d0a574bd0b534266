//! Registers instances below a base path, and opens providers that follow them.

use std::fmt;
use std::sync::Arc;

use tokio::time::{Instant, timeout};
use zk_core::codec::EncodeError;
use zk_core::{
    Create, Error, ErrorKind, IntoNodePath, NodePath, ParsePathError, Session, SessionId, Stat,
};

use crate::clock::registration_time;
use crate::conflict_policy::{ConflictAction, ConflictContext, WhenTaken};
use crate::curator::Curator;
use crate::error::RegisterError;
use crate::instance::{Instance, ServiceType, check_name};
use crate::layout::{Format, Layout, ReadFormat};
use crate::provider::{ProviderOptions, Providers};
use crate::redact::redact;
use crate::registration::{RegisteredNode, Registration};
use crate::reserved_paths::{PathReservation, ReservedPaths};

/// The services below a base path, accessed through one session.
///
/// Clones share state.
/// Use one registry per session and base: two registries of one process are unaware of each other, see
/// [`register`](Self::register).
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
    pub(crate) base: NodePath,
    pub(crate) layout: Arc<L>,
    when_taken: WhenTaken,
    previous: Arc<[SessionId]>,
    reserved: Arc<ReservedPaths>,
}

impl Registry {
    /// Creates a registry below `base`, in [Curator's layout](Curator).
    ///
    /// # Errors
    ///
    /// If `base` is not a valid node path.
    pub fn new(session: &Session, base: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            base: base.into_node_path()?,
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

    /// Sets what to do when the node of an instance belongs to another session; default: wait for twice the session
    /// timeout.
    #[must_use]
    pub const fn with_taken(mut self, when: WhenTaken) -> Self {
        self.when_taken = when;
        self
    }

    /// Sets the earlier sessions of this process, which it has given up.
    ///
    /// Their nodes are removed at once: a process that knows that its session is lost need not wait until the ensemble
    /// expires it.
    /// Never pass the session of another process, which may be alive.
    #[must_use]
    pub fn succeeding(mut self, previous: impl IntoIterator<Item = SessionId>) -> Self {
        self.previous = previous.into_iter().collect();
        self
    }

    /// Returns the base path.
    pub fn base(&self) -> &NodePath {
        &self.base
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Registers an instance, and returns the [`Registration`] that keeps it registered.
    ///
    /// The node of a [dynamic](ServiceType::Dynamic) instance is ephemeral, so that consumers no longer find the
    /// instance once the session has expired. That of a [static or permanent](ServiceType::Static) one is persistent.
    /// While the connection is broken the node stays unchanged: it is neither removed nor created again.
    ///
    /// If the node exists already, [`with_taken`](Self::with_taken) and [`succeeding`](Self::succeeding) decide; a node
    /// of another live session is never overwritten.
    /// A persistent node that describes the same static or permanent instance, apart from the registration time, is the
    /// one of an earlier call, and registered: a process that starts again finds its own. With another description the
    /// call fails.
    /// If a reply is lost, the data of the node identifies whether this call created it: the registration time differs
    /// for each create of this process, see [`Format::encode`].
    ///
    /// # Errors
    ///
    /// [`RegisterError::Taken`] if the node belongs to another session or describes another instance.
    /// [`RegisterError::AlreadyRegistered`] if this registry or a clone of it has registered it already.
    /// [`RegisterError::Failed`] if the ensemble did not create it within the session's operation timeout, or the
    /// instance exceeds the servers' size limit.
    ///
    /// # Cancel safety
    ///
    /// Safe: a node that was created, or that a request in flight will create, is removed in the background.
    /// That of a static or permanent instance stays; register it again.
    ///
    /// # Session loss
    ///
    /// [`RegisterError::SessionLost`]. A static or permanent instance may be registered.
    ///
    /// # Cost
    ///
    /// One round trip, and two more for each missing parent; one watch while registered.
    pub async fn register<P>(&self, instance: Instance<P>) -> Result<Registration<P>, RegisterError>
    where
        L: Format<P>,
        P: Send + 'static,
    {
        let service_type = instance.service_type;
        if service_type == ServiceType::DynamicSequential {
            return Err(RegisterError::UnsupportedType(service_type));
        }
        let parent = self.layout.parent(&self.base, &instance.name)?;
        let new = NewInstance::new(&*self.layout, parent, instance)?;
        let (instance, node, reservation) = if service_type.is_persistent() {
            self.create_persistent_node(new).await?
        } else {
            self.create_node(new).await?
        };
        let format: Arc<dyn Format<P>> = Arc::<L>::clone(&self.layout);
        Ok(Registration::new(instance, node, format, reservation))
    }

    /// Creates the ephemeral node once no other node is in its place.
    async fn create_node<P>(
        &self,
        mut new: NewInstance<'_, L, P>,
    ) -> Result<(Instance<P>, RegisteredNode, PathReservation), RegisterError>
    where
        L: Format<P>,
        P: Send + 'static,
    {
        let session = &self.session;
        let mut waiting = ConflictWait::new();
        let mut reservation: Option<PathReservation> = None;
        loop {
            // Encoded again for each create: a node that an earlier create of this call still makes is recognised by
            // its data and removed.
            let (path, data) = new.write()?;
            if reservation
                .as_ref()
                .is_none_or(|reservation| *reservation.path() != path)
            {
                reservation = Some(self.reserve(&path)?);
            }
            if !new.is_distinguishable {
                // A node in removal has the same data and would be mistaken for this one.
                drop(timeout(session.operation_timeout(), session.settled()).await);
            }
            let create = self.create(&path, data);
            if let Some(node) = create.claimed().await?
                && let Some(reservation) = reservation.take()
            {
                return Ok((new.instance, RegisteredNode::Owned(node), reservation));
            }
            self.resolve_conflict(&path, &mut waiting).await?;
        }
    }

    /// Creates the persistent node once no ephemeral one is in its place, or finds the one that describes the instance.
    async fn create_persistent_node<P>(
        &self,
        mut new: NewInstance<'_, L, P>,
    ) -> Result<(Instance<P>, RegisteredNode, PathReservation), RegisterError>
    where
        L: Format<P>,
        P: Send + 'static,
    {
        let session = &self.session;
        let mut waiting = ConflictWait::new();
        let (path, data) = new.write()?;
        let reservation = self.reserve(&path)?;
        let stat = loop {
            let create = self.create(&path, data.as_slice());
            match create.idempotent().await {
                Ok((_, stat)) => break stat,
                Err(error) if error.is_node_exists() => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(stat) = self.find_same(&path, &mut new).await? {
                break stat;
            }
            self.resolve_conflict(&path, &mut waiting).await?;
        };
        let node = RegisteredNode::Persistent {
            session: session.clone(),
            path,
            stat,
        };
        Ok((new.instance, node, reservation))
    }

    /// Returns the create of an instance's node, with parents of the kind that the layout needs.
    fn create(&self, path: &NodePath, data: impl Into<Vec<u8>>) -> Create {
        let create = self.session.create(path, data);
        if self.layout.has_persistent_parent() {
            create.parents()
        } else {
            create.container_parents()
        }
    }

    /// Returns the stat of a persistent node that describes the instance, and takes over its registration time.
    async fn find_same<P>(
        &self,
        path: &NodePath,
        new: &mut NewInstance<'_, L, P>,
    ) -> Result<Option<Stat>, RegisterError>
    where
        L: Format<P>,
        P: Send + 'static,
    {
        // A lagging server may not show the node yet.
        let (synced, found) = tokio::join!(
            biased;
            self.session.sync(path).into_future(),
            self.session.get(path).into_future(),
        );
        synced?;
        let (data, stat) = match found {
            Err(error) if error.is_no_node() => return Ok(None),
            found => found?,
        };
        if stat.ephemeral_owner.is_some() {
            return Ok(None);
        }
        Ok(new.is_described_by(path, &data)?.then_some(stat))
    }

    /// Reserves the path of an instance within this registry.
    fn reserve(&self, path: &NodePath) -> Result<PathReservation, RegisterError> {
        let reservation = PathReservation::take(&self.reserved, path.clone());
        reservation.ok_or_else(|| RegisterError::AlreadyRegistered { path: path.clone() })
    }

    /// Waits until the path is free, or fails.
    async fn resolve_conflict(
        &self,
        path: &NodePath,
        waiting: &mut ConflictWait,
    ) -> Result<(), RegisterError> {
        let session = &self.session;
        // A lagging server may not show the node yet.
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
                // If the node is still there after all removals, it was not among them.
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

    /// Returns the sorted names of all services, including those without instances.
    ///
    /// # Errors
    ///
    /// If the ensemble does not reply. A missing base is not an error.
    ///
    /// # Cost
    ///
    /// One round trip; a single reply contains all names.
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
    /// If `service` cannot be the name of a service.
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
    /// If `service` cannot be the name of a service.
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

/// An instance that is being registered.
struct NewInstance<'a, L, P> {
    layout: &'a L,
    parent: NodePath,
    instance: Instance<P>,
    /// Whether two registrations of it have different node names or data.
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

    /// Encodes it with a unique registration time.
    fn write(&mut self) -> Result<(NodePath, Vec<u8>), RegisterError> {
        self.instance.registered = Some(registration_time());
        let entry = self.layout.encode(&self.instance)?;
        // A name with a slash would be a path.
        check_name(&entry.name)
            .map_err(|problem| EncodeError::new("the name of a node", problem))?;
        let path = self.parent.join(&entry.name)?;
        self.instance.id = entry.name;
        Ok((path, entry.data))
    }

    /// Returns whether a node describes this instance, apart from the registration time, which is taken over then.
    fn is_described_by(&mut self, path: &NodePath, data: &[u8]) -> Result<bool, RegisterError> {
        let name = path.name().unwrap_or_default();
        let Ok(found) = self.layout.decode(&self.instance.name, name, data) else {
            return Ok(false);
        };
        let ours = std::mem::replace(&mut self.instance.registered, found.registered);
        // Other clients may write the same in another way.
        let is_same = self.layout.encode(&self.instance)? == self.layout.encode(&found)?;
        if !is_same {
            self.instance.registered = ours;
        }
        Ok(is_same)
    }
}

/// How long a registration has waited for another node.
struct ConflictWait {
    since: Instant,
    /// The `czxid` of the node of this session that was waited for.
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
