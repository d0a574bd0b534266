//! Reads the instances of a service once, without following it.

use std::sync::Arc;

use zk_core::{Error, ErrorClass, ErrorKind, ParsePathError};

use crate::decoder::Decoder;
use crate::instance_list::InstanceList;
use crate::layout::{Layout, ReadFormat};
use crate::provider::DEFAULT_MOST_BYTES;
use crate::registry::Registry;

/// The instances of a service were not read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The service does not form a valid node path.
    #[error("the service has no valid node path")]
    InvalidPath(#[from] ParsePathError),
    /// The ensemble did not return the instances, or refuses to.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl QueryError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::InvalidPath(_) => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }
}

impl<L: Layout> Registry<L> {
    /// Reads the instances of a service once.
    ///
    /// Use it for tools and for rare requests. To pick instances, follow the service with
    /// [`providers`](Self::providers), which sends no request for a pick.
    ///
    /// Nodes that are not valid instances, that are larger than 1 MiB, or that the session may not read, are
    /// [quarantined](InstanceList::quarantined). A service without a node has no instances.
    /// The list is what the session's server has, which may lag behind: [`sync`](zk_core::Session::sync) the
    /// [base](Self::base) before if it must contain what another process has just registered.
    /// It is not a snapshot: an instance that comes or goes meanwhile may be in it or not.
    ///
    /// # Errors
    ///
    /// [`QueryError::InvalidPath`] if `service` cannot be the name of a service, and [`QueryError::Failed`] if the
    /// ensemble does not reply within the session's operation timeout, or the session may not list the service.
    ///
    /// # Cost
    ///
    /// One round trip to list the nodes, and those of [`get_many`](zk_core::Session::get_many): one request for eight
    /// nodes, and one for each node on servers before 3.6. No watch is left, and nothing is kept in memory.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(registry: zk_discovery::Registry) -> Result<(), zk_discovery::QueryError> {
    /// let orders = registry.query::<String>("orders").await?;
    /// for instance in orders.instances() {
    ///     println!("{:?}:{:?}", instance.address(), instance.port());
    /// }
    /// for entry in orders.quarantined() {
    ///     println!("{} is ignored: {}", entry.path(), entry.reason());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn query<P>(&self, service: &str) -> Result<InstanceList<P>, QueryError>
    where
        L: ReadFormat<P>,
        P: Send + Sync + 'static,
    {
        let parent = self.layout.parent(&self.base, service)?;
        let format: Arc<dyn ReadFormat<P>> = Arc::<L>::clone(&self.layout);
        let mut decoder = Decoder::new(service, &parent, format, DEFAULT_MOST_BYTES);
        let names = match self.session.list(&parent).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut paths = Vec::with_capacity(names.len());
        for name in &names {
            paths.push(parent.join(name)?);
        }
        let nodes = self.session.get_many(&paths).await?;
        for (path, node) in paths.into_iter().zip(nodes) {
            match node {
                Ok((data, stat)) => decoder.put(path, &data, &stat),
                // It is gone since the list was read.
                Err(error) if error.is_no_node() => {}
                Err(error) if error.kind() == ErrorKind::NoAuth => decoder.put_unreadable(path),
                Err(error) => return Err(error.into()),
            }
        }
        decoder.set_synchronized();
        Ok(decoder.list())
    }
}
