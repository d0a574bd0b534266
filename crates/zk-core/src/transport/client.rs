//! The transport over the `zookeeper_client` crate: the only module that names it.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use zookeeper_client as zk;

use super::CreateMode;
use super::Ending;
use super::Fault;
use super::Reply;
use super::Transport;
use crate::acl::Acl;
use crate::acl::AclEntry;
use crate::acl::Permissions;
use crate::connect_string::ConnectString;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::stat::SessionId;
use crate::stat::Stat;

/// One session of the client crate.
#[derive(Debug)]
pub(crate) struct ClientTransport {
    /// Taken by [`close`](Transport::close): the session ends when the last clone is gone.
    client: Mutex<Option<zk::Client>>,
    state: zk::StateWatcher,
    session_id: SessionId,
    session_timeout: Duration,
}

impl ClientTransport {
    /// Tries each server once and returns with the first session that one of them grants.
    ///
    /// The client's errors hide the cause, so whoever gives up has to find out on its own.
    pub(crate) async fn connect(
        servers: &ConnectString,
        session_timeout: Duration,
        digest: Option<&str>,
    ) -> Result<Self, Fault> {
        let mut connector = zk::Client::connector()
            .with_session_timeout(session_timeout)
            .with_connection_timeout(link_timeout(session_timeout, servers.servers().len()))
            .with_fail_eagerly();
        if let Some(digest) = digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        let client = connector
            .connect(&servers.to_string())
            .await
            .map_err(|error| fault(&error))?;
        Ok(Self {
            state: client.state_watcher(),
            session_id: SessionId::new(client.session_id().0),
            session_timeout: client.session_timeout(),
            client: Mutex::new(Some(client)),
        })
    }

    fn is_closing(&self) -> bool {
        self.client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }

    /// Runs a request on a clone of the client, which lives as long as the request.
    fn request<T, F>(&self, run: impl FnOnce(zk::Client) -> F) -> Reply<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, zk::Error>> + Send + 'static,
    {
        let client = self
            .client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match client {
            None => Box::pin(std::future::ready(Err(Fault::Ended(Ending::Closed)))),
            Some(client) => {
                let run = run(client);
                Box::pin(async move { run.await.map_err(|error| fault(&error)) })
            }
        }
    }
}

impl Transport for ClientTransport {
    fn session_id(&self) -> SessionId {
        self.session_id
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    fn connected(&self) -> Reply<()> {
        if self.is_closing() {
            return Box::pin(std::future::ready(Err(Fault::Ended(
                // A session that was lost before it was closed stays lost.
                match phase(self.state.peek_state()) {
                    Phase::Over(ending) => ending,
                    Phase::Up | Phase::Down => Ending::Closed,
                },
            ))));
        }
        let mut state = self.state.clone();
        Box::pin(async move {
            loop {
                match phase(state.peek_state()) {
                    Phase::Up => return Ok(()),
                    Phase::Over(ending) => return Err(Fault::Ended(ending)),
                    Phase::Down => state.changed().await,
                };
            }
        })
    }

    fn is_connected(&self) -> bool {
        matches!(phase(self.state.peek_state()), Phase::Up)
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = Ending> + Send>> {
        let mut state = self.state.clone();
        Box::pin(async move {
            loop {
                if let Phase::Over(ending) = phase(state.peek_state()) {
                    return ending;
                }
                state.changed().await;
            }
        })
    }

    fn create(
        &self,
        path: &NodePath,
        data: &[u8],
        mode: CreateMode,
        acl: &Acl,
    ) -> Reply<(NodePath, Stat)> {
        let (path, data, acl) = (path.clone(), data.to_vec(), to_acl(acl));
        self.request(|client| async move {
            let (wire_mode, ttl) = match mode {
                CreateMode::Persistent {
                    sequential: false,
                    ttl,
                } => (zk::CreateMode::Persistent, ttl),
                CreateMode::Persistent {
                    sequential: true,
                    ttl,
                } => (zk::CreateMode::PersistentSequential, ttl),
                CreateMode::Ephemeral { sequential: false } => (zk::CreateMode::Ephemeral, None),
                CreateMode::Ephemeral { sequential: true } => {
                    (zk::CreateMode::EphemeralSequential, None)
                }
                CreateMode::Container => (zk::CreateMode::Container, None),
            };
            let mut options = wire_mode.with_acls(zk::Acls::new(&acl));
            if let Some(ttl) = ttl {
                options = options.with_ttl(ttl);
            }
            let (stat, sequence) = client.create(path.as_str(), &data, &options).await?;
            let created = match mode {
                CreateMode::Persistent {
                    sequential: true, ..
                }
                | CreateMode::Ephemeral { sequential: true } => {
                    path.with_suffix(&sequence.to_string())
                }
                _ => path,
            };
            Ok((created, to_stat(&stat)))
        })
    }

    fn delete(&self, path: &NodePath, version: Option<i32>) -> Reply<()> {
        let path = path.clone();
        self.request(|client| async move { client.delete(path.as_str(), version).await })
    }

    fn get(&self, path: &NodePath) -> Reply<(Vec<u8>, Stat)> {
        let path = path.clone();
        self.request(|client| async move {
            let (data, stat) = client.get_data(path.as_str()).await?;
            Ok((data, to_stat(&stat)))
        })
    }

    fn set(&self, path: &NodePath, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        let (path, data) = (path.clone(), data.to_vec());
        self.request(|client| async move {
            Ok(to_stat(
                &client.set_data(path.as_str(), &data, version).await?,
            ))
        })
    }

    fn exists(&self, path: &NodePath) -> Reply<Option<Stat>> {
        let path = path.clone();
        self.request(|client| async move {
            Ok(client
                .check_stat(path.as_str())
                .await?
                .as_ref()
                .map(to_stat))
        })
    }

    fn list(&self, path: &NodePath) -> Reply<(Vec<String>, Stat)> {
        let path = path.clone();
        self.request(|client| async move {
            let (names, stat) = client.get_children(path.as_str()).await?;
            Ok((names, to_stat(&stat)))
        })
    }

    fn sync(&self, path: &NodePath) -> Reply<()> {
        let path = path.clone();
        self.request(|client| async move { client.sync(path.as_str()).await })
    }

    fn acl(&self, path: &NodePath) -> Reply<(Acl, Stat)> {
        let path = path.clone();
        self.request(|client| async move {
            let (entries, stat) = client.get_acl(path.as_str()).await?;
            Ok((from_acl(&entries), to_stat(&stat)))
        })
    }

    fn set_acl(&self, path: &NodePath, acl: &Acl, version: Option<i32>) -> Reply<Stat> {
        let (path, acl) = (path.clone(), to_acl(acl));
        self.request(|client| async move {
            Ok(to_stat(
                &client.set_acl(path.as_str(), &acl, version).await?,
            ))
        })
    }

    fn close(&self) {
        drop(
            self.client
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }
}

const SHORTEST_LINK_TIMEOUT: Duration = Duration::from_secs(1);

enum Phase {
    Up,
    Down,
    Over(Ending),
}

fn phase(state: zk::SessionState) -> Phase {
    match state {
        zk::SessionState::SyncConnected | zk::SessionState::ConnectedReadOnly => Phase::Up,
        zk::SessionState::Disconnected => Phase::Down,
        zk::SessionState::Expired => Phase::Over(Ending::Expired),
        zk::SessionState::AuthFailed => Phase::Over(Ending::AuthFailed),
        zk::SessionState::Closed => Phase::Over(Ending::Closed),
    }
}

/// How long a silent server is waited for before the next one is tried.
///
/// The client's own 2/5 of the session timeout leaves no time for a third server when two are hung.
/// It keeps to its own as long as this is more than 3/5 of the timeout that the server granted, which may be far more
/// than was asked for: a share of a short wish would break the connection at each pause of the server.
fn link_timeout(session_timeout: Duration, servers: usize) -> Duration {
    let share = session_timeout
        / u32::try_from(servers.max(1))
            .unwrap_or(u32::MAX)
            .saturating_mul(2);
    if servers > 1 {
        share.max(SHORTEST_LINK_TIMEOUT)
    } else {
        (session_timeout * 2 / 5).max(SHORTEST_LINK_TIMEOUT)
    }
}

fn fault(error: &zk::Error) -> Fault {
    let refused = |kind| Fault::Refused(kind, None);
    match error {
        zk::Error::NoNode => refused(ErrorKind::NoNode),
        zk::Error::NodeExists => refused(ErrorKind::NodeExists),
        zk::Error::BadVersion => refused(ErrorKind::BadVersion),
        zk::Error::NotEmpty => refused(ErrorKind::NotEmpty),
        zk::Error::NoChildrenForEphemerals => refused(ErrorKind::ParentIsEphemeral),
        zk::Error::NoAuth => refused(ErrorKind::NoAuth),
        zk::Error::InvalidAcl => refused(ErrorKind::InvalidAcl),
        zk::Error::QuotaExceeded => refused(ErrorKind::QuotaExceeded),
        zk::Error::NotReadOnly => refused(ErrorKind::ReadOnlyServer),
        zk::Error::Unimplemented | zk::Error::ReconfigDisabled => refused(ErrorKind::Unsupported),
        // The client's words for this answer of a server are "bad arguments: server error".
        zk::Error::BadArguments(why) if **why == "server error" => Fault::Refused(
            ErrorKind::InvalidArgument,
            Some("the server refuses it".to_owned()),
        ),
        zk::Error::BadArguments(_) | zk::Error::MarshallingError | zk::Error::NoWatcher => {
            Fault::Refused(ErrorKind::InvalidArgument, Some(error.to_string()))
        }
        zk::Error::Throttled => Fault::Later(ErrorKind::Throttled),
        zk::Error::SessionMoved => Fault::Later(ErrorKind::SessionMoved),
        zk::Error::UnexpectedErrorCode(_) => Fault::Server(error.to_string()),
        zk::Error::SessionExpired => Fault::Ended(Ending::Expired),
        zk::Error::AuthFailed => Fault::Ended(Ending::AuthFailed),
        zk::Error::ClientClosed => Fault::Ended(Ending::Closed),
        // A broken connection has many faces: FIN is `ConnectionLoss`, RST and silence are `Custom`, and a reply that
        // makes no sense is one of the others. Whatever a later version adds is safest taken as one more of them.
        _ => Fault::Lost(error.to_string()),
    }
}

fn to_stat(stat: &zk::Stat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        pzxid: stat.pzxid,
        ctime: to_time(stat.ctime),
        mtime: to_time(stat.mtime),
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: (stat.ephemeral_owner != 0).then(|| SessionId::new(stat.ephemeral_owner)),
        data_length: u32::try_from(stat.data_length).unwrap_or(0),
        num_children: u32::try_from(stat.num_children).unwrap_or(0),
    }
}

fn to_time(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

fn to_acl(acl: &Acl) -> Vec<zk::Acl> {
    let entry = |entry: &AclEntry| {
        let granted = PERMISSIONS
            .iter()
            .filter(|(ours, _)| entry.permissions().contains(*ours));
        let permissions = granted.fold(zk::Permission::NONE, |set, (_, theirs)| set | *theirs);
        zk::Acl::new(permissions, zk::AuthId::new(entry.scheme(), entry.id()))
    };
    acl.entries().iter().map(entry).collect()
}

fn from_acl(entries: &[zk::Acl]) -> Acl {
    Acl::new(entries.iter().map(|entry| {
        let granted = PERMISSIONS
            .iter()
            .filter(|(_, theirs)| entry.permission().has(*theirs));
        AclEntry::new(
            granted.fold(Permissions::NONE, |set, (ours, _)| set | *ours),
            entry.scheme(),
            entry.id(),
        )
    }))
}

const PERMISSIONS: [(Permissions, zk::Permission); 5] = [
    (Permissions::READ, zk::Permission::READ),
    (Permissions::WRITE, zk::Permission::WRITE),
    (Permissions::CREATE, zk::Permission::CREATE),
    (Permissions::DELETE, zk::Permission::DELETE),
    (Permissions::ADMIN, zk::Permission::ADMIN),
];

#[cfg(test)]
mod tests;
