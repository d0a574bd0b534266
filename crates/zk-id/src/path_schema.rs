//! What a node is used for, written in its data, so that nobody uses it for something that does not go together.

use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;

use crate::error::ClaimError;
use crate::error::excerpt;

/// Makes sure that the node is there and that all its users mean the same by it.
///
/// A node without data is taken for nobody's yet: somebody has made it, perhaps for its access rules.
pub(crate) async fn settle(
    session: &Session,
    path: &NodePath,
    wanted: &str,
) -> Result<(), ClaimError> {
    for _ in 0..ROUNDS {
        let missed = match session.get(path).await {
            Ok((data, _)) if data == wanted.as_bytes() => return Ok(()),
            Ok((data, stat)) if data.is_empty() => {
                let set = session.set(path, wanted).version(stat.version);
                set.idempotent().await.map(drop)
            }
            Ok((data, _)) => {
                return Err(ClaimError::OtherUse {
                    path: path.clone(),
                    found: excerpt(&data),
                    wanted: wanted.to_owned(),
                });
            }
            Err(error) if error.is_no_node() => {
                let create = session.create(path, wanted).parents();
                create.idempotent().await.map(drop)
            }
            Err(error) => Err(error),
        };
        match missed {
            Ok(()) => return Ok(()),
            // Somebody else was faster: see what it has written, when the server shows it.
            Err(error) if is_overtaken(error.kind()) => session.sync(path).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(ClaimError::Disturbed { path: path.clone() })
}

/// Whether a write was refused because somebody else was faster.
pub(crate) fn is_overtaken(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NodeExists
            | ErrorKind::BadVersion
            | ErrorKind::NoNode
            | ErrorKind::OutcomeUnknown
    )
}

/// How often others may be faster.
pub(crate) const ROUNDS: u32 = 16;
