//! The asynchronous clients, each used as its documentation shows.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use zk_wire::{Acl, NewNode, NodeData, Reply, Request};
use zookeeper_client::{Acls, CreateMode, CreateOptions};

/// A session of an asynchronous client; clones share it.
pub(crate) trait AsyncClient: Clone + Send + Sync + Sized + 'static {
    /// Opens a session.
    fn connect(server: &str) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Returns the length of a node's data.
    fn get(&self, path: &str) -> impl Future<Output = anyhow::Result<usize>> + Send;

    /// Replaces the data of a node.
    fn set(&self, path: &str, data: &Bytes) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Creates an ephemeral node without data.
    fn create(&self, path: &str) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Creates an ephemeral node, and lists the children of a node without waiting for that; returns their number.
    fn create_and_list(
        &self,
        path: &str,
        parent: &str,
    ) -> impl Future<Output = anyhow::Result<usize>> + Send;

    /// Deletes a node.
    fn delete(&self, path: &str) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Ends the session, and waits until the server has ended it.
    fn close(self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

impl AsyncClient for zk_wire::Client {
    async fn connect(server: &str) -> anyhow::Result<Self> {
        let client = Self::from_connect_string(server, zk_wire::Config::new(SESSION_TIMEOUT))?;
        client.connected().await?;
        Ok(client)
    }

    async fn get(&self, path: &str) -> anyhow::Result<usize> {
        let request = Request::GetData {
            path: path.parse()?,
            watch: false,
        };
        match self.request(&request).await?.reply {
            Reply::Data { data, .. } => Ok(data.as_slice().len()),
            other => bail!("the reply to a get is {other:?}"),
        }
    }

    async fn set(&self, path: &str, data: &Bytes) -> anyhow::Result<()> {
        let request = Request::SetData {
            path: path.parse()?,
            data: data.clone().into(),
            version: None,
        };
        self.request(&request).await?;
        Ok(())
    }

    async fn create(&self, path: &str) -> anyhow::Result<()> {
        self.request(&create_request(path)?).await?;
        Ok(())
    }

    async fn create_and_list(&self, path: &str, parent: &str) -> anyhow::Result<usize> {
        let create = create_request(path)?;
        let list = Request::GetChildren {
            path: parent.parse()?,
            watch: false,
        };
        let (created, listed) = tokio::join!(self.request(&create), self.request(&list));
        created?;
        match listed?.reply {
            Reply::Children { names, .. } => Ok(names.len()),
            other => bail!("the reply to a list is {other:?}"),
        }
    }

    async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let request = Request::Delete {
            path: path.parse()?,
            version: None,
        };
        self.request(&request).await?;
        Ok(())
    }

    async fn close(self) -> anyhow::Result<()> {
        Self::close(&self).await;
        Ok(())
    }
}

fn create_request(path: &str) -> anyhow::Result<Request> {
    Ok(Request::Create(NewNode {
        path: path.parse()?,
        data: NodeData::default(),
        acl: Acl::open(),
        mode: zk_wire::CreateMode::Ephemeral,
    }))
}

impl AsyncClient for zk_core::Session {
    async fn connect(server: &str) -> anyhow::Result<Self> {
        let builder = Self::builder(server).session_timeout(SESSION_TIMEOUT);
        Ok(builder.connect().await?)
    }

    async fn get(&self, path: &str) -> anyhow::Result<usize> {
        Ok(self.get(path).await?.0.len())
    }

    async fn set(&self, path: &str, data: &Bytes) -> anyhow::Result<()> {
        self.set(path, data.to_vec()).await?;
        Ok(())
    }

    async fn create(&self, path: &str) -> anyhow::Result<()> {
        self.create(path, "").ephemeral().await?;
        Ok(())
    }

    async fn create_and_list(&self, path: &str, parent: &str) -> anyhow::Result<usize> {
        let create = self.create(path, "").ephemeral().into_future();
        let (created, listed) = tokio::join!(create, self.list(parent).into_future());
        created?;
        Ok(listed?.0.len())
    }

    async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.delete(path).await?;
        Ok(())
    }

    async fn close(self) -> anyhow::Result<()> {
        Ok(Self::close(&self).await?)
    }
}

impl AsyncClient for zookeeper_client::Client {
    async fn connect(server: &str) -> anyhow::Result<Self> {
        zk_bench::baseline::connect(server).await
    }

    async fn get(&self, path: &str) -> anyhow::Result<usize> {
        Ok(self.get_data(path).await?.0.len())
    }

    async fn set(&self, path: &str, data: &Bytes) -> anyhow::Result<()> {
        self.set_data(path, data, None).await?;
        Ok(())
    }

    async fn create(&self, path: &str) -> anyhow::Result<()> {
        self.create(path, b"", &EPHEMERAL).await?;
        Ok(())
    }

    async fn create_and_list(&self, path: &str, parent: &str) -> anyhow::Result<usize> {
        // Both are sent when they are called.
        let create = self.create(path, b"", &EPHEMERAL);
        let list = self.list_children(parent);
        let (created, listed) = tokio::join!(create, list);
        created?;
        Ok(listed?.len())
    }

    async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.delete(path, None).await?;
        Ok(())
    }

    async fn close(self) -> anyhow::Result<()> {
        let mut states = self.state_watcher();
        // The session ends in the background when the last handle is dropped.
        drop(self);
        let closing = async { while !states.changed().await.is_terminated() {} };
        let closed = tokio::time::timeout(SESSION_TIMEOUT, closing).await;
        closed.with_context(|| format!("the session was not closed within {SESSION_TIMEOUT:?}"))
    }
}

const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
