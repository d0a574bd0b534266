//! Counts the calls of one session that create the same ephemeral node at once.
//!
//! After a lost reply the owner of such a node shows the session that created it, but not which of these calls did.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use zk_wire::NodePath;

use super::lock;
use crate::outcome::Verdict;

/// The ephemeral nodes that calls of a session are creating under names that the caller chose.
#[derive(Debug, Default)]
pub(crate) struct ConcurrentCreates(Mutex<HashMap<NodePath, Creates>>);

/// The creates of one node.
#[derive(Debug, Default)]
struct Creates {
    calls: usize,
    /// The newest transaction in which one of the calls created the node.
    czxid: Option<i64>,
}

/// A create in progress. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct CreateInProgress {
    creates: Arc<ConcurrentCreates>,
    /// The node, if creates of its kind are counted.
    path: Option<NodePath>,
}

impl ConcurrentCreates {
    /// Begins to count a create of `path`, or of a node that is not counted.
    pub(crate) fn begin(self: &Arc<Self>, path: Option<NodePath>) -> CreateInProgress {
        if let Some(path) = &path {
            self.lock().entry(path.clone()).or_default().calls += 1;
        }
        CreateInProgress {
            creates: Arc::clone(self),
            path,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodePath, Creates>> {
        lock(&self.0)
    }
}

impl CreateInProgress {
    /// Returns whether this call created the node that the session created in transaction `czxid`, and not another call
    /// at the same time.
    pub(crate) fn judge(&self, czxid: i64) -> Verdict {
        let Some(path) = &self.path else {
            return Verdict::Applied;
        };
        let mut nodes = self.creates.lock();
        let creates = nodes.entry(path.clone()).or_default();
        match creates.czxid {
            Some(created) if created >= czxid => Verdict::NotApplied,
            _ if creates.calls > 1 => Verdict::Unknown,
            _ => Verdict::Applied,
        }
    }

    /// Records the transaction in which this call created the node.
    pub(crate) fn created(&self, czxid: i64) {
        if let Some(path) = &self.path {
            let mut nodes = self.creates.lock();
            let newest = &mut nodes.entry(path.clone()).or_default().czxid;
            *newest = (*newest).max(Some(czxid));
        }
    }
}

impl Drop for CreateInProgress {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let mut nodes = self.creates.lock();
            if let Some(creates) = nodes.get_mut(path) {
                creates.calls -= 1;
                if creates.calls == 0 {
                    nodes.remove(path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_ours_only_if_no_other_call_can_have_made_it() {
        let creates = Arc::new(ConcurrentCreates::default());
        let path = NodePath::parse("/a").unwrap();
        let mine = creates.begin(Some(path.clone()));
        assert_eq!(mine.judge(5), Verdict::Applied);
        let other = creates.begin(Some(path));
        assert_eq!(mine.judge(5), Verdict::Unknown);
        other.created(5);
        assert_eq!(mine.judge(5), Verdict::NotApplied);
        drop(other);
        assert_eq!(mine.judge(5), Verdict::NotApplied);
        assert_eq!(mine.judge(6), Verdict::Applied, "it was created again");
        assert_eq!(creates.begin(None).judge(5), Verdict::Applied);
        drop(mine);
        assert!(
            creates.lock().is_empty(),
            "nothing is kept of a call that has ended"
        );
    }
}
