//! Decides which entries of a history are genuine.
//!
//! The node of an entry is created in the transaction that replaces the revision. So its `czxid` is the next revision of
//! the key, which a client that may create nodes, but not write the key, cannot choose. The revisions are proven one by one,
//! from the one that the key has now backwards: an entry is genuine if it was created together with a revision that is
//! proven, and proves its own.
//!
//! A removal is a transaction as well, but leaves no revision behind. It writes the directory of the history instead,
//! whose `mzxid` proves the removal until the next one.
//!
//! Pure: no I/O and no clock.

use std::collections::HashSet;

use zk_core::Stat;

use crate::history::EntryName;

/// An entry as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundEntry {
    pub(crate) name: EntryName,
    /// The stat of its node.
    pub(crate) stat: Stat,
}

/// What proves that an entry is genuine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence {
    /// The key before the entries were listed, if it existed.
    pub(crate) before: Option<Stat>,
    /// The directory of the history.
    pub(crate) directory: Stat,
    /// The key after the entries were listed, if it existed.
    pub(crate) after: Option<Stat>,
}

impl Evidence {
    /// Returns the transaction that removed the key, if the directory shows it.
    ///
    /// A directory that was never written shows none. If the key exists, it was created again since.
    fn removal(&self) -> Option<i64> {
        let removed = self.directory.mzxid;
        let is_before = |key: Stat| removed < key.czxid;
        (self.directory.version > 0 && self.after.is_none_or(is_before)).then_some(removed)
    }
}

/// Returns for each entry whether it is genuine.
pub(crate) fn verify(entries: &[FoundEntry], evidence: &Evidence) -> Vec<bool> {
    let key = [evidence.before, evidence.after];
    let revisions = key.into_iter().flatten().map(|stat| stat.mzxid);
    let mut proven: HashSet<i64> = revisions.chain(evidence.removal()).collect();
    let mut newest_first: Vec<usize> = (0..entries.len()).collect();
    newest_first.sort_by_key(|at| std::cmp::Reverse(entries[*at].stat.czxid));
    let mut genuine = vec![false; entries.len()];
    for at in newest_first {
        let FoundEntry { name, stat } = entries[at];
        // Its data was never changed, and a revision is older than the one that replaces it.
        let is_consistent = stat.mzxid == stat.czxid && name.revision < stat.czxid;
        if is_consistent && proven.contains(&stat.czxid) {
            genuine[at] = true;
            proven.insert(name.revision);
        }
    }
    genuine
}

#[cfg(test)]
mod tests {
    use zk_core::SessionId;

    use super::*;

    fn stat(czxid: i64, mzxid: i64) -> Stat {
        let mut stat = Stat::default();
        (stat.czxid, stat.mzxid) = (czxid, mzxid);
        stat
    }

    /// An entry of a revision that was created by a transaction.
    fn entry(revision: i64, czxid: i64) -> FoundEntry {
        FoundEntry {
            name: EntryName::new(revision, SessionId::from_i64(1), 0),
            stat: stat(czxid, czxid),
        }
    }

    /// A directory that was last written by a transaction, or never.
    fn directory(removal: Option<i64>) -> Stat {
        let mut directory = stat(1, removal.unwrap_or(1));
        directory.version = i32::from(removal.is_some());
        directory
    }

    fn verified(entries: &[FoundEntry], key: Option<Stat>, removal: Option<i64>) -> Vec<i64> {
        let evidence = Evidence {
            before: key,
            directory: directory(removal),
            after: key,
        };
        let genuine = verify(entries, &evidence);
        let genuine = entries.iter().zip(genuine).filter(|(_, is)| *is);
        genuine.map(|(entry, _)| entry.name.revision).collect()
    }

    #[test]
    fn each_entry_was_created_with_the_next_revision() {
        let all = [entry(10, 20), entry(20, 30), entry(30, 40)];
        assert_eq!(verified(&all, Some(stat(10, 40)), None), [10, 20, 30]);
        // Older ones may have been deleted.
        assert_eq!(verified(&all[1..], Some(stat(10, 40)), None), [20, 30]);
        assert_eq!(verified(&all, None, None), [0_i64; 0]);
    }

    #[test]
    fn no_choice_of_a_name_makes_a_planted_entry_genuine() {
        let all = [entry(10, 20), entry(20, 30)];
        for revision in (0..40).chain([i64::MAX]) {
            for czxid in 31..40 {
                let with = [all[0], all[1], entry(revision, czxid)];
                let found = verified(&with, Some(stat(10, 30)), None);
                assert_eq!(found, [10, 20], "{revision} by {czxid}");
            }
        }
    }

    #[test]
    fn planted_entries_that_name_each_other_are_not_genuine() {
        let all = [entry(10, 20), entry(20, 31), entry(31, 33), entry(33, 35)];
        assert_eq!(verified(&all, Some(stat(10, 20)), None), [10]);
    }

    #[test]
    fn an_entry_whose_data_was_changed_is_not_genuine() {
        let mut changed = entry(10, 20);
        changed.stat.mzxid = 25;
        assert_eq!(verified(&[changed], Some(stat(10, 20)), None), [0_i64; 0]);
    }

    #[test]
    fn entries_before_a_foreign_write_are_not_proven() {
        // Nothing shows what revision 30 was replaced with, before 50 was written.
        let all = [entry(10, 20), entry(20, 30), entry(40, 50)];
        assert_eq!(verified(&all, Some(stat(10, 50)), None), [40]);
    }

    #[test]
    fn a_removal_proves_what_it_replaced_also_after_the_key_was_created_again() {
        let removed = [entry(10, 20), entry(20, 30)];
        assert_eq!(verified(&removed, None, Some(30)), [10, 20]);
        let again = [entry(10, 20), entry(20, 30), entry(40, 50)];
        assert_eq!(verified(&again, Some(stat(40, 50)), Some(30)), [10, 20, 40]);
        // The directory was written after the key was created: that was no removal.
        assert_eq!(verified(&removed, Some(stat(10, 20)), Some(30)), [10]);
    }

    #[test]
    fn a_publication_while_the_entries_are_listed_proves_its_entry() {
        let all = [entry(10, 20), entry(20, 30)];
        for (before, after) in [(20, 30), (30, 30), (20, 20)] {
            let evidence = Evidence {
                before: Some(stat(10, before)),
                directory: directory(None),
                after: Some(stat(10, after)),
            };
            assert_eq!(verify(&all, &evidence), [true, after == 30], "{before}");
        }
    }
}
