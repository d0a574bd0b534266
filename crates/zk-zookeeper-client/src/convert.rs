//! Converts the client's values to those of `zk-core`, and back.

use zk_core::transport::{CreateMode, SessionEnd, TransportError};
use zk_core::{Acl, AclEntry, ErrorKind, Permissions, SessionId, Stat};
use zookeeper_client as zk;

pub(crate) fn fault(error: &zk::Error) -> TransportError {
    let refused = |kind| TransportError::Refused(kind, None);
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
        zk::Error::BadArguments(why) if **why == "server error" => TransportError::Refused(
            ErrorKind::InvalidArgument,
            Some("the server refuses it".to_owned()),
        ),
        zk::Error::BadArguments(_) | zk::Error::MarshallingError | zk::Error::NoWatcher => {
            TransportError::Refused(ErrorKind::InvalidArgument, Some(error.to_string()))
        }
        zk::Error::Throttled => TransportError::Later(ErrorKind::Throttled),
        zk::Error::SessionMoved => TransportError::Later(ErrorKind::SessionMoved),
        zk::Error::UnexpectedErrorCode(_) => TransportError::Server(error.to_string()),
        zk::Error::SessionExpired => TransportError::Ended(SessionEnd::Expired),
        zk::Error::AuthFailed => TransportError::Ended(SessionEnd::AuthFailed),
        zk::Error::ClientClosed => TransportError::Ended(SessionEnd::Closed),
        // A broken connection has many faces: FIN is `ConnectionLoss`, RST and silence are `Custom`, and a reply that
        // makes no sense is one of the others. Whatever a later version adds is safest taken as one more of them.
        _ => TransportError::Lost(error.to_string()),
    }
}

pub(crate) fn to_stat(stat: &zk::Stat) -> Stat {
    let owner = stat.ephemeral_owner;
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        pzxid: stat.pzxid,
        ctime: Stat::time(stat.ctime),
        mtime: Stat::time(stat.mtime),
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: (owner != 0).then(|| SessionId::from_i64(owner)),
        data_length: u32::try_from(stat.data_length).unwrap_or(0),
        num_children: u32::try_from(stat.num_children).unwrap_or(0),
    }
}

pub(crate) fn to_acl(acl: &Acl) -> Vec<zk::Acl> {
    let entry = |entry: &AclEntry| {
        let granted = PERMISSIONS
            .iter()
            .filter(|(ours, _)| entry.permissions().contains(*ours));
        let permissions = granted.fold(zk::Permission::NONE, |set, (_, theirs)| set | *theirs);
        zk::Acl::new(permissions, zk::AuthId::new(entry.scheme(), entry.id()))
    };
    acl.entries().iter().map(entry).collect()
}

pub(crate) fn from_acl(entries: &[zk::Acl]) -> Acl {
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

pub(crate) fn create_options(mode: CreateMode, acl: &[zk::Acl]) -> zk::CreateOptions<'_> {
    let theirs = match mode {
        CreateMode::Persistent | CreateMode::PersistentWithTtl(_) => zk::CreateMode::Persistent,
        CreateMode::PersistentSequential | CreateMode::PersistentSequentialWithTtl(_) => {
            zk::CreateMode::PersistentSequential
        }
        CreateMode::Ephemeral => zk::CreateMode::Ephemeral,
        CreateMode::EphemeralSequential => zk::CreateMode::EphemeralSequential,
        CreateMode::Container => zk::CreateMode::Container,
    };
    let options = theirs.with_acls(zk::Acls::new(acl));
    match mode.ttl() {
        Some(ttl) => options.with_ttl(ttl),
        None => options,
    }
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
