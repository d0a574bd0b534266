//! Remembers whether the servers of a session know multi-reads.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::error::{Error, ErrorKind};

/// What the replies to multi-reads have shown so far. It holds for the whole session.
///
/// A server before 3.6 refuses a multi-read, or closes the connection without a reply. As long as none was answered, two
/// lost replies therefore count as a refusal: without that, such a server would cost a connection for each of them.
#[derive(Debug, Default)]
pub(crate) struct MultiReadSupport {
    was_answered: AtomicBool,
    was_refused: AtomicBool,
    lost: AtomicU8,
}

impl MultiReadSupport {
    /// Returns whether to send multi-reads.
    pub(crate) fn is_possible(&self) -> bool {
        let is_answered = self.was_answered.load(Ordering::Relaxed);
        let has_no_answer = !is_answered && self.lost.load(Ordering::Relaxed) >= 2;
        !self.was_refused.load(Ordering::Relaxed) && !has_no_answer
    }

    /// Records that the servers have none, as far as another request shows.
    pub(crate) fn refuse(&self) {
        self.was_refused.store(true, Ordering::Relaxed);
    }

    /// Records how one ended.
    pub(crate) fn learn<T>(&self, result: &Result<T, Error>) {
        match result.as_ref().map_err(Error::kind) {
            Ok(_) => self.was_answered.store(true, Ordering::Relaxed),
            Err(ErrorKind::Unsupported) => self.refuse(),
            Err(ErrorKind::ConnectionLost) => {
                let add = |lost: u8| Some(lost.saturating_add(1));
                let _before = self
                    .lost
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;

    #[test]
    fn a_refusal_or_two_lost_replies_end_multi_reads() {
        use ErrorKind::{ConnectionLost, TimedOut, Unsupported};
        for (results, expected) in [
            (vec![], true),
            (vec![None], true),
            (vec![Some(Unsupported)], false),
            (vec![None, Some(Unsupported)], false),
            (vec![Some(ConnectionLost)], true),
            (vec![Some(ConnectionLost); 2], false),
            (vec![Some(ConnectionLost); 300], false),
            (vec![None, Some(ConnectionLost), Some(ConnectionLost)], true),
            (vec![Some(TimedOut); 3], true),
            // An answer shows that the losses had another reason, and takes back no refusal.
            (vec![Some(ConnectionLost), Some(ConnectionLost), None], true),
            (vec![Some(Unsupported), None], false),
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
