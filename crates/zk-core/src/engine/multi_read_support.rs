//! Remembers whether the servers of a session know multi-reads.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::error::ErrorKind;

/// What the replies to multi-reads have shown so far. It holds for the whole session.
///
/// A server before 3.6 refuses a multi-read, or closes the connection without a reply. As long as none was answered, a
/// lost reply therefore counts as a refusal: without that, such a server would cost a connection for each of them.
#[derive(Debug, Default)]
pub(crate) struct MultiReadSupport {
    was_answered: AtomicBool,
    is_missing: AtomicBool,
}

impl MultiReadSupport {
    /// Returns whether to send multi-reads.
    pub(crate) fn is_possible(&self) -> bool {
        !self.is_missing.load(Ordering::Relaxed)
    }

    /// Records how one ended.
    pub(crate) fn learn<T>(&self, result: &Result<T, Error>) {
        let is_missing = match result.as_ref().map_err(Error::kind) {
            Ok(_) => {
                self.was_answered.store(true, Ordering::Relaxed);
                false
            }
            Err(ErrorKind::Unsupported) => true,
            Err(ErrorKind::ConnectionLost) => !self.was_answered.load(Ordering::Relaxed),
            Err(_) => false,
        };
        if is_missing {
            self.is_missing.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;

    #[test]
    fn a_refusal_or_a_first_lost_reply_ends_multi_reads() {
        use ErrorKind::ConnectionLost;
        use ErrorKind::TimedOut;
        use ErrorKind::Unsupported;
        for (results, expected) in [
            (vec![], true),
            (vec![None], true),
            (vec![Some(Unsupported)], false),
            (vec![None, Some(Unsupported)], false),
            (vec![Some(ConnectionLost)], false),
            (vec![None, Some(ConnectionLost)], true),
            (vec![Some(TimedOut)], true),
            // Nothing takes it back.
            (vec![Some(ConnectionLost), None], false),
        ] {
            let support = MultiReadSupport::default();
            for kind in &results {
                support.learn(&match kind {
                    None => Ok(()),
                    Some(kind) => Err(Error::new(Operation::GetMany, None, *kind)),
                });
            }
            assert_eq!(support.is_possible(), expected, "{results:?}");
        }
    }
}
