//! Records in the data of a node what the node is used for, so that incompatible uses of one path are refused.

use zk_core::{ErrorKind, NodePath, Session};

use crate::error::{ClaimError, excerpt};

/// Makes sure that the node exists and that its data is `schema`.
///
/// A node without data is adopted: an operator may have created it, for example to set its ACL.
pub(crate) async fn ensure_schema(
    session: &Session,
    path: &NodePath,
    schema: &str,
) -> Result<(), ClaimError> {
    for _ in 0..MAX_ATTEMPTS {
        let written = match session.get(path).await {
            Ok((data, _)) if data == schema.as_bytes() => return Ok(()),
            Ok((data, stat)) if data.is_empty() => {
                let set = session.set(path, schema).version(stat.version);
                set.idempotent().await.map(drop)
            }
            Ok((data, _)) => {
                return Err(ClaimError::SchemaMismatch {
                    path: path.clone(),
                    found: excerpt(&data),
                    expected: schema.to_owned(),
                });
            }
            Err(error) if error.is_no_node() => {
                let create = session.create(path, schema).parents();
                create.idempotent().await.map(drop)
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => return Ok(()),
            // Another client was faster: read what it has written, once the server has it.
            Err(error) if is_conflict(error.kind()) => session.sync(path).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(ClaimError::Contended { path: path.clone() })
}

/// Returns whether a conditional write failed because another client may have been faster.
pub(crate) fn is_conflict(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NodeExists
            | ErrorKind::BadVersion
            | ErrorKind::NoNode
            | ErrorKind::OutcomeUnknown
    )
}

/// How often a write is attempted while other clients are faster.
pub(crate) const MAX_ATTEMPTS: u32 = 16;
