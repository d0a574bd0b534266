//! Reads the instances of a service once, without following it.

use std::sync::Arc;

use zk_core::{Error, ErrorClass, ErrorKind, ParsePathError};

use crate::decoder::Decoder;
use crate::instance_list::InstanceList;
use crate::layout::{Layout, ReadFormat};
use crate::provider::{DEFAULT_MAX_BYTES, DEFAULT_MAX_NODES, DEFAULT_MOST_BYTES};
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
    /// The service has more nodes than are read at once.
    #[error("it has {count} nodes, and at most {limit} are read at once; follow it, with a limit")]
    TooManyNodes {
        /// The number of nodes.
        count: usize,
        /// The limit: 100,000.
        limit: usize,
    },
    /// The nodes of the service have more data than is read at once.
    #[error(
        "its nodes have more than the {limit} bytes that are read at once; follow it, with a limit"
    )]
    TooManyBytes {
        /// The limit: 256 MiB.
        limit: usize,
    },
}

impl QueryError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::InvalidPath(_) | Self::TooManyNodes { .. } | Self::TooManyBytes { .. } => {
                ErrorClass::Outcome
            }
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
    /// [`QueryError::TooManyNodes`] and [`QueryError::TooManyBytes`] if it is larger than the default limits of
    /// [`ProviderOptions`](crate::ProviderOptions): with higher ones it can be followed.
    ///
    /// # Cost
    ///
    /// One round trip to list the nodes, and those of [`get_many`](zk_core::Session::get_many): one request for eight
    /// nodes, and one for each node on servers before 3.6, of 256 nodes in parallel. No watch is left, and nothing is kept in memory.
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
        if names.len() > DEFAULT_MAX_NODES {
            let (count, limit) = (names.len(), DEFAULT_MAX_NODES);
            return Err(QueryError::TooManyNodes { count, limit });
        }
        let mut paths = Vec::with_capacity(names.len());
        for name in &names {
            paths.push(parent.join(name)?);
        }
        let mut bytes = 0;
        for paths in paths.chunks(READ_TOGETHER) {
            let nodes = self.session.get_many(paths).await?;
            for (path, node) in paths.iter().cloned().zip(nodes) {
                match node {
                    Ok((data, stat)) => {
                        bytes += data.len();
                        decoder.put(path, &data, &stat);
                    }
                    // It is gone since the list was read.
                    Err(error) if error.is_no_node() => {}
                    Err(error) if error.kind() == ErrorKind::NoAuth => decoder.put_unreadable(path),
                    Err(error) => return Err(error.into()),
                }
            }
            if bytes > DEFAULT_MAX_BYTES {
                let limit = DEFAULT_MAX_BYTES;
                return Err(QueryError::TooManyBytes { limit });
            }
        }
        decoder.set_synchronized();
        Ok(decoder.list())
    }
}

/// With values of 1 MiB, as many bytes as a query reads.
const READ_TOGETHER: usize = 256;
