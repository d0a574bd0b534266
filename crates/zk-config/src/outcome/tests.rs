//! Every short course of events around a transaction, and what is told of each.

use std::collections::BTreeMap;

use super::*;

/// A node and its parent, as a server keeps them.
#[derive(Debug, Clone, Default)]
struct World {
    zxid: i64,
    parent: Option<Stat>,
    nodes: BTreeMap<&'static str, Found>,
    /// Which revision was replaced by whom, by key.
    history: Vec<(&'static str, i64, bool)>,
    /// What our transaction takes for the revisions it replaces.
    read: BTreeMap<&'static str, i64>,
}

/// What somebody does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    /// Our transaction, if its steps can be carried out.
    Ours,
    /// Somebody else writes or creates.
    Write(&'static str, &'static [u8]),
    /// Somebody else deletes.
    Delete(&'static str),
}

impl World {
    fn start(keys: &[&'static str]) -> Self {
        let mut parent = Stat::zeroed();
        parent.czxid = 1;
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

    /// Does one thing to one node, as a part of the transaction of now.
    fn step(&mut self, key: &'static str, data: Option<&[u8]>, is_ours: bool) {
        let zxid = self.zxid;
        if let Some(found) = self.nodes.get(key) {
            // A node that was made anew may have the version that was read, too.
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
                let mut stat = Stat::zeroed();
                (stat.czxid, stat.mzxid) = (zxid, zxid);
                let data = data.to_vec();
                self.nodes.insert(key, Found { data, stat });
                self.child_changed();
            }
            (None, Some(_)) => {
                self.nodes.remove(key);
                self.child_changed();
            }
            (None, None) => {}
        }
    }

    /// Whether it was applied.
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

/// Every sequence of up to `length` acts of others, with ours at each place or nowhere.
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

/// Plays every course of events on a plan and counts the verdicts: applied, not applied, unknown.
fn play(
    there: &[&'static str],
    plan: &[(&'static str, Option<&'static [u8]>, Step)],
    has_history: bool,
    is_any_writer_right: bool,
) -> [usize; 3] {
    let others = [
        Act::Write("a", b"new"),
        Act::Write("a", b"other"),
        Act::Delete("a"),
        Act::Write("b", b"new"),
    ];
    let mut counts = [0; 3];
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
        let mark = |key: &'static str, step: Step| {
            let Some(before) = start.nodes.get(key) else {
                return Mark::None;
            };
            let has = |is_ours| world.history.contains(&(key, before.stat.mzxid, is_ours));
            match (has_history && step.replaces(), has(true), has(false)) {
                (true, true, _) => Mark::Ours,
                (true, false, true) => Mark::Others,
                _ => Mark::None,
            }
        };
        let traces: Vec<_> = plan
            .iter()
            .map(|(key, wanted, step)| Trace {
                step: *step,
                wanted: *wanted,
                before: start.nodes.get(key),
                parent_before: start.parent.as_ref(),
                after: world.nodes.get(key),
                parent_after: world.parent.as_ref(),
                mark: mark(key, *step),
            })
            .collect();
        let verdict = judge(&traces, is_any_writer_right);
        let what = format!("{course:?} on {plan:?}: {verdict:?}");
        match verdict {
            Verdict::Applied => {
                let is_so = plan.iter().all(|(key, wanted, step)| {
                    !step.is_change()
                        || world.nodes.get(key).map(|found| found.data.as_slice()) == *wanted
                });
                assert!(was_applied || (is_any_writer_right && is_so), "{what}");
            }
            Verdict::NotApplied => assert!(!was_applied, "{what}"),
            Verdict::Unknown => {}
        }
        // Without anybody else it is always known.
        if course.iter().all(|act| *act == Act::Ours) && !matches!(plan[0].2, Step::Check { .. }) {
            let known = if was_applied {
                Verdict::Applied
            } else {
                Verdict::NotApplied
            };
            let is_twin = was_applied && !has_history && !is_any_writer_right;
            assert_eq!(
                verdict,
                if is_twin { Verdict::Unknown } else { known },
                "{what}"
            );
        }
        counts[verdict as usize] += 1;
    }
    counts
}

const NEW: Option<&[u8]> = Some(b"new");
const SET: Step = Step::Set { version: 0 };

// covers: G1
#[test]
fn verdict_is_never_wrong_whoever_else_writes() {
    let delete = Step::Delete { version: 0 };
    let check = Step::Check { version: 0 };
    for is_any_writer_right in [false, true] {
        for has_history in [false, true] {
            // A create has nothing to keep, so that history tells nothing of it.
            if !has_history || is_any_writer_right {
                play(
                    &[],
                    &[("a", NEW, Step::Create)],
                    has_history,
                    is_any_writer_right,
                );
            }
            play(&["a"], &[("a", NEW, SET)], has_history, is_any_writer_right);
            play(
                &["a"],
                &[("a", None, delete)],
                has_history,
                is_any_writer_right,
            );
            play(
                &["a", "b"],
                &[("a", NEW, SET), ("b", NEW, SET)],
                has_history,
                is_any_writer_right,
            );
            play(
                &["a"],
                &[("a", NEW, SET), ("b", NEW, Step::Create)],
                has_history,
                is_any_writer_right,
            );
            play(
                &["a", "b"],
                &[("a", NEW, SET), ("b", NEW, check)],
                has_history,
                is_any_writer_right,
            );
        }
    }
}

// covers: G1
#[test]
fn history_leaves_nothing_unknown_of_what_it_keeps() {
    let [_, _, unknown] = play(&["a"], &[("a", NEW, SET)], true, false);
    assert_eq!(unknown, 0);
    let [_, _, unknown] = play(&["a"], &[("a", NEW, SET)], false, false);
    assert!(unknown > 0);
}
