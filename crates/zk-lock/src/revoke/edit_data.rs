//! Changes the data of a node as a whole, however often others change it meanwhile.

use zk_core::{Error, ErrorKind, NodePath, Session};

/// Changes the data of a node, and repeats that after concurrent changes and lost replies.
///
/// Nothing is changed if `change` returns `None`, or if another node has the path by now.
pub(super) async fn edit_data(
    session: &Session,
    path: &NodePath,
    czxid: i64,
    change: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<(), Error> {
    loop {
        let (data, stat) = session.get(path).await?;
        let Some(changed) = change(&data).filter(|_| stat.czxid == czxid) else {
            return Ok(());
        };
        match session.set(path, changed).version(stat.version).await {
            Ok(_) => return Ok(()),
            // A concurrent change, or our own write whose reply was lost: read again.
            Err(error) if error.kind() == ErrorKind::BadVersion => {}
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => {}
            Err(error) => return Err(error),
        }
    }
}
