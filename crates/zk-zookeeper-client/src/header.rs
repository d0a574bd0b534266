//! Makes the header of a reply, which the client does not tell, from what it does.
//!
//! Pure: no I/O and no clock.

use zk_core::transport::{MultiResult, ReplyHeader, Request, Response, TransportError};
use zk_core::{ErrorKind, Stat};

/// Returns the header of a reply to a request that was sent when the connection had broken `breaks` times, or `None` if
/// there was no reply.
///
/// A header may say less than the server did, and never more:
///
/// - The zxid is one that the server has applied, because a node that it showed has it, or 0. It may be older than the
///   newest one. `zk-core` takes the greatest zxid of all replies for one that a later write exceeds, and compares the
///   zxids of replies where it knows the role of the server, which it never does here.
/// - The reply came over the connection that there was when the request was passed to the client, or over a later one:
///   without a connection, the client waits for the next. So it is attributed to that one. If the link has broken since,
///   `zk-core` sees a reply of an earlier link, and takes it for no proof of anything over the present one.
pub(crate) fn header(
    result: &Result<Response, TransportError>,
    breaks: u64,
    has_zxids: bool,
) -> Option<ReplyHeader> {
    let zxid = match result {
        Ok(response) if has_zxids => newest_zxid(response),
        // The client also refuses these by itself.
        Err(TransportError::Refused(
            ErrorKind::InvalidArgument | ErrorKind::InvalidAcl | ErrorKind::Unsupported,
            _,
        )) => return None,
        Ok(_)
        | Err(
            TransportError::Refused(..)
            | TransportError::RefusedAt { .. }
            | TransportError::Later(_)
            | TransportError::Server(_),
        ) => 0,
        Err(_) => return None,
    };
    Some(ReplyHeader { zxid, breaks })
}

/// Returns whether the stats in the reply to a request have zxids of transactions.
///
/// The `mzxid` of the ensemble's configuration is its version (`ZKDatabase.initConfigInZKDatabase`), which may be greater
/// than every transaction if the data of an ensemble was replaced and its configuration file was not.
pub(crate) fn has_zxids(request: &Request) -> bool {
    let (Request::GetData { path, .. }
    | Request::Exists { path, .. }
    | Request::GetChildren2 { path, .. }
    | Request::GetAcl { path }) = request
    else {
        return true;
    };
    path.as_str() != "/zookeeper/config"
}

/// Returns the greatest zxid in a reply, or 0.
fn newest_zxid(response: &Response) -> i64 {
    let newest = |stat: &Stat| stat.mzxid.max(stat.pzxid).max(stat.czxid);
    match response {
        Response::Created { stat, .. }
        | Response::Data { stat, .. }
        | Response::Children { stat, .. }
        | Response::Set(stat)
        | Response::Acl { stat, .. } => newest(stat),
        Response::Stat { stat, .. } => stat.as_ref().map_or(0, newest),
        Response::Committed(changed) => {
            let stats = changed.iter().filter_map(|changed| match changed {
                MultiResult::Created { stat, .. } => stat.as_ref(),
                MultiResult::Set(stat) => Some(stat),
                MultiResult::Checked | MultiResult::Deleted => None,
            });
            stats.map(newest).max().unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use zk_core::NodePath;

    use super::*;

    fn path(path: &str) -> NodePath {
        NodePath::parse(path).unwrap()
    }

    #[test]
    fn the_version_of_the_configuration_is_no_transaction() {
        let exists = |at: &str| Request::Exists {
            path: path(at),
            watch: false,
        };
        let config = "/zookeeper/config";
        for (request, expected) in [
            (exists(config), false),
            (exists("/app/zookeeper/config"), true),
            (exists("/zookeeper/config/a"), true),
            (exists("/a"), true),
            (Request::GetAcl { path: path(config) }, false),
            (Request::Sync { path: path(config) }, true),
        ] {
            assert_eq!(has_zxids(&request), expected, "{request:?}");
        }
    }

    #[test]
    fn a_header_has_no_zxid_that_the_reply_does_not_show() {
        let stat = |czxid, mzxid, pzxid| Stat {
            czxid,
            mzxid,
            pzxid,
            ..Stat::default()
        };
        let committed = vec![
            MultiResult::Checked,
            MultiResult::Set(stat(1, 8, 2)),
            MultiResult::Created {
                path: path("/a"),
                stat: Some(stat(7, 7, 7)),
            },
            MultiResult::Created {
                path: path("/b"),
                stat: None,
            },
        ];
        let none = || Response::Stat {
            stat: None,
            watch: None,
        };
        for (response, zxid) in [
            (Response::Set(stat(1, 5, 2)), 5),
            (Response::Set(stat(1, 5, 9)), 9),
            (Response::Committed(committed), 8),
            (none(), 0),
            (Response::Synced, 0),
            (Response::Deleted, 0),
        ] {
            let made = header(&Ok(response), 3, true).expect("there was a reply");
            assert_eq!((made.zxid, made.breaks), (zxid, 3));
        }
        let config = header(&Ok(Response::Set(stat(1, 5, 2))), 0, false);
        assert_eq!(config.map(|header| header.zxid), Some(0));
    }

    #[test]
    fn only_what_a_server_replied_has_a_header() {
        let refused = |kind| TransportError::Refused(kind, None);
        for (error, has_header) in [
            (refused(ErrorKind::NoNode), true),
            (refused(ErrorKind::BadVersion), true),
            (TransportError::Later(ErrorKind::Throttled), true),
            (refused(ErrorKind::InvalidArgument), false),
            (refused(ErrorKind::Unsupported), false),
            (TransportError::Lost(String::new()), false),
            (
                TransportError::Ended(zk_core::transport::SessionEnd::Expired),
                false,
            ),
        ] {
            let shown = format!("{error:?}");
            let made = header(&Err(error), 0, true);
            assert_eq!(made.is_some(), has_header, "{shown}");
        }
    }
}
