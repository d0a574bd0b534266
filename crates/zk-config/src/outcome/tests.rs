//! Judges a transaction after every short sequence of writes around it.

use std::collections::BTreeMap;

use super::*;

/// A model server: some nodes and their parent.
#[derive(Debug, Clone, Default)]
struct World {
    zxid: i64,
    parent: Option<Stat>,
    nodes: BTreeMap<&'static str, NodeContent>,
    /// Each replaced revision: the key, the revision, and whether our transaction replaced it.
    history: Vec<(&'static str, i64, bool)>,
    /// The revisions that our transaction has read.
    read: BTreeMap<&'static str, i64>,
}

/// A write to the model server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    /// Our transaction, if its steps are possible.
    Ours,
    /// Another client writes or creates.
    Write(&'static str, &'static [u8]),
    /// Another client deletes.
    Delete(&'static str),
}

impl World {
    fn start(keys: &[&'static str]) -> Self {
        let parent = Stat {
            czxid: 1,
            ..Stat::default()
        };
        let mut world = Self {
            zxid: 10,
            parent: Some(parent),
            ..Self::default()
        };
        for key in keys {
            world.step(key, Some(b"old"), false);
        }
        world
    }

    fn child_changed(&mut self) {
        let zxid = self.zxid;
        let parent = self.parent.as_mut().unwrap();
        parent.pzxid = zxid;
        parent.cversion += 1;
    }

    /// Changes one node as part of the current transaction.
    fn step(&mut self, key: &'static str, data: Option<&[u8]>, is_ours: bool) {
        let zxid = self.zxid;
        if let Some(found) = self.nodes.get(key) {
            // A node that was created again may have the same version.
            let revision = if is_ours {
                self.read[key]
            } else {
                found.stat.mzxid
            };
            self.history.push((key, revision, is_ours));
        }
        match (data, self.nodes.get_mut(key)) {
            (Some(data), Some(found)) => {
                found.data = data.to_vec();
                found.stat.version += 1;
                found.stat.mzxid = zxid;
            }
            (Some(data), None) => {
                let mut stat = Stat::default();
                (stat.czxid, stat.mzxid) = (zxid, zxid);
                let data = data.to_vec();
                self.nodes.insert(key, NodeContent { data, stat });
                self.child_changed();
            }
            (None, Some(_)) => {
                self.nodes.remove(key);
                self.child_changed();
            }
            (None, None) => {}
        }
    }

    /// Returns whether our transaction was applied.
    fn act(&mut self, act: Act, plan: &[(&'static str, Option<&'static [u8]>, Step)]) -> bool {
        self.zxid += 1;
        match act {
            Act::Write(key, data) => self.step(key, Some(data), false),
            Act::Delete(key) => self.step(key, None, false),
            Act::Ours => {
                let is_possible = plan.iter().all(|(key, _, step)| {
                    let version = self.nodes.get(key).map(|found| found.stat.version);
                    match *step {
                        Step::Nothing => true,
                        Step::Create => version.is_none(),
                        Step::Check { version: wanted }
                        | Step::Set { version: wanted }
                        | Step::Delete { version: wanted } => version == Some(wanted),
                    }
                });
                if is_possible {
                    for (key, data, step) in plan {
                        if step.is_change() {
                            self.step(key, *data, true);
                        }
                    }
                }
                return is_possible;
            }
        }
        false
    }
}

/// Every sequence of up to `length` writes of others, with ours at each position or absent.
fn courses(others: &[Act], length: usize) -> Vec<Vec<Act>> {
    let mut all = vec![vec![]];
    for _ in 0..length {
        let longer: Vec<_> = all
            .iter()
            .flat_map(|course| {
                others.iter().map(move |act| {
                    let mut course: Vec<Act> = course.clone();
                    course.push(*act);
                    course
                })
            })
            .collect();
        all.extend(longer);
        all.dedup();
    }
    let with_ours: Vec<_> = all
        .iter()
        .flat_map(|course| {
            (0..=course.len()).map(|at| {
                let mut course = course.clone();
                course.insert(at, Act::Ours);
                course
            })
        })
        .collect();
    all.into_iter().chain(with_ours).collect()
}

/// Judges a plan after every sequence, and counts the verdicts that the outcome is unknown.
fn play(
    there: &[&'static str],
    plan: &[(&'static str, Option<&'static [u8]>, Step)],
    has_history: bool,
    accepts_same_effect: bool,
) -> usize {
    let others = [
        Act::Write("a", b"new"),
        Act::Write("a", b"other"),
        Act::Delete("a"),
        Act::Write("b", b"new"),
    ];
    let mut unknown = 0;
    for course in courses(&others, 3) {
        let start = World::start(there);
        let mut world = start.clone();
        world.read = start
            .nodes
            .iter()
            .map(|(key, found)| (*key, found.stat.mzxid))
            .collect();
        let mut was_applied = false;
        for act in &course {
            was_applied |= world.act(*act, plan);
        }
        let history = |key: &'static str, step: Step| {
            let Some(before) = start.nodes.get(key) else {
                return HistoryEvidence::Missing;
            };
            let has = |is_ours| world.history.contains(&(key, before.stat.mzxid, is_ours));
            match (has_history && step.replaces(), has(true), has(false)) {
                (true, true, _) => HistoryEvidence::Own,
                (true, false, true) => HistoryEvidence::Other,
                _ => HistoryEvidence::Missing,
            }
        };
        let keys: Vec<_> = plan
            .iter()
            .map(|(key, wanted, step)| WriteEvidence {
                step: *step,
                wanted: *wanted,
                before: start.nodes.get(key),
                parent_before: start.parent.as_ref(),
                after: world.nodes.get(key),
                parent_after: world.parent.as_ref(),
                history: history(key, *step),
            })
            .collect();
        let verdict = match judge(&keys) {
            Verdict::SameEffect if accepts_same_effect => Verdict::Applied,
            Verdict::SameEffect => Verdict::Unknown,
            verdict => verdict,
        };
        let what = format!("{course:?} on {plan:?}: {verdict:?}");
        match verdict {
            Verdict::Applied => {
                let is_so = plan.iter().all(|(key, wanted, step)| {
                    !step.is_change()
                        || world.nodes.get(key).map(|found| found.data.as_slice()) == *wanted
                });
                assert!(was_applied || (accepts_same_effect && is_so), "{what}");
            }
            Verdict::NotApplied => assert!(!was_applied, "{what}"),
            Verdict::SameEffect | Verdict::Unknown => {}
        }
        // Without other writers the outcome is always known.
        if course.iter().all(|act| *act == Act::Ours) && !matches!(plan[0].2, Step::Check { .. }) {
            let known = if was_applied {
                Verdict::Applied
            } else {
                Verdict::NotApplied
            };
            let is_ambiguous = was_applied && !has_history && !accepts_same_effect;
            assert_eq!(
                verdict,
                if is_ambiguous {
                    Verdict::Unknown
                } else {
                    known
                },
                "{what}"
            );
        }
        unknown += usize::from(verdict == Verdict::Unknown);
    }
    unknown
}

const NEW: Option<&[u8]> = Some(b"new");
const SET: Step = Step::Set { version: 0 };

#[test]
fn a_verdict_is_never_wrong_whatever_others_write() {
    let delete = Step::Delete { version: 0 };
    let check = Step::Check { version: 0 };
    for accepts_same_effect in [false, true] {
        for has_history in [false, true] {
            // A create replaces nothing, so that the history does not show it.
            if !has_history || accepts_same_effect {
                play(
                    &[],
                    &[("a", NEW, Step::Create)],
                    has_history,
                    accepts_same_effect,
                );
            }
            play(&["a"], &[("a", NEW, SET)], has_history, accepts_same_effect);
            play(
                &["a"],
                &[("a", None, delete)],
                has_history,
                accepts_same_effect,
            );
            play(
                &["a", "b"],
                &[("a", NEW, SET), ("b", NEW, SET)],
                has_history,
                accepts_same_effect,
            );
            play(
                &["a"],
                &[("a", NEW, SET), ("b", NEW, Step::Create)],
                has_history,
                accepts_same_effect,
            );
            play(
                &["a", "b"],
                &[("a", NEW, SET), ("b", NEW, check)],
                has_history,
                accepts_same_effect,
            );
        }
    }
}

#[test]
fn with_a_history_every_replacement_is_known() {
    let unknown = play(&["a"], &[("a", NEW, SET)], true, false);
    assert_eq!(unknown, 0);
    let unknown = play(&["a"], &[("a", NEW, SET)], false, false);
    assert!(unknown > 0);
}
