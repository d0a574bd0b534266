use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;

use super::*;

const fn task(number: u32) -> TaskId {
    TaskId::new(number)
}

const fn worker(number: u32) -> WorkerName {
    WorkerName::new(number, 7)
}

fn view(waiting: &[u32], workers: &[u32], assigned: &[(u32, &[u32])]) -> View {
    View {
        waiting: waiting.iter().copied().map(task).collect(),
        workers: workers.iter().copied().map(worker).collect(),
        assigned: assigned
            .iter()
            .map(|(name, tasks)| (worker(*name), tasks.iter().copied().map(task).collect()))
            .collect(),
    }
}

fn assign(number: u32, to: u32) -> Step {
    Step::Assign {
        task: task(number),
        to: worker(to),
    }
}

/// What the ensemble would have after these steps.
fn after(view: &View, steps: &[Step]) -> View {
    let mut view = view.clone();
    for step in steps {
        match step {
            Step::Assign { task, to } => {
                assert!(view.waiting.remove(task), "{step:?} of nothing");
                assert!(view.workers.contains(to), "{step:?} to an unknown worker");
                let has = view.assigned.get_mut(to).expect("it has a node");
                assert!(has.insert(*task));
            }
            Step::TakeBack { task, from } => {
                let had = view.assigned.get_mut(from).expect("it had some");
                assert!(had.remove(task), "{step:?} of nothing");
                assert!(view.waiting.insert(*task), "{step:?} twice");
            }
            Step::Forget { worker } => {
                let had = view.assigned.remove(worker).expect("there is one");
                assert!(had.is_empty(), "{step:?} with its tasks");
                assert!(!view.workers.contains(worker), "{step:?} that lives");
            }
        }
    }
    view
}

#[test]
fn the_oldest_tasks_go_to_whoever_has_the_fewest() {
    let view = view(&[5, 3, 4, 9], &[1, 2], &[(1, &[1]), (2, &[])]);
    assert_eq!(
        plan(&view, 9),
        [assign(3, 2), assign(4, 1), assign(5, 2), assign(9, 1)]
    );
    assert_eq!(plan(&view, 2), [assign(3, 2), assign(4, 1), assign(5, 2)]);
    assert_eq!(plan(&view, 1), [assign(3, 2)]);
    assert_eq!(plan(&view, 0), []);
}

#[test]
fn without_workers_tasks_wait() {
    assert_eq!(plan(&view(&[1, 2], &[], &[]), 4), []);
}

#[test]
fn a_worker_without_a_node_for_its_tasks_is_assigned_none() {
    let view = view(&[1, 2], &[1, 2], &[(2, &[])]);
    assert_eq!(plan(&view, 4), [assign(1, 2), assign(2, 2)]);
}

#[test]
fn what_a_dead_worker_had_is_taken_back_before_it_is_forgotten() {
    let first = view(&[], &[2], &[(1, &[4, 5]), (2, &[])]);
    let steps = plan(&first, 4);
    let back = |number| Step::TakeBack {
        task: task(number),
        from: worker(1),
    };
    assert_eq!(steps, [back(4), back(5)]);
    let second = after(&first, &steps);
    let forget = Step::Forget { worker: worker(1) };
    assert_eq!(plan(&second, 4), [forget, assign(4, 2), assign(5, 2)]);
}

#[test]
fn a_task_on_its_way_is_left_alone() {
    assert_eq!(plan(&view(&[1], &[1], &[(1, &[1])]), 4), []);
    assert_eq!(plan(&view(&[1], &[2], &[(1, &[1])]), 4), []);
}

fn any_view() -> impl Strategy<Value = View> {
    let workers =
        || (0_u32..4, 0_u64..2).prop_map(|(number, lease)| WorkerName::new(number, lease));
    let tasks = || btree_set((0_u32..12).prop_map(TaskId::new), 0..8);
    (
        tasks(),
        btree_set(workers(), 0..5),
        btree_map(workers(), tasks(), 0..5),
    )
        .prop_map(|(waiting, workers, assigned)| View {
            waiting,
            workers,
            assigned,
        })
}

/// As the ensemble has it, where a task is in one place.
fn any_truth() -> impl Strategy<Value = View> {
    any_view().prop_map(|mut view| {
        let mut seen = view.waiting.clone();
        for tasks in view.assigned.values_mut() {
            tasks.retain(|task| seen.insert(*task));
        }
        view
    })
}

proptest! {
    #[test]
    fn no_task_is_in_two_steps_and_no_worker_gets_more_than_the_most(view in any_view(), most in 0_usize..5) {
        let steps = plan(&view, most);
        let mut moved = BTreeSet::new();
        let mut given: BTreeMap<WorkerName, usize> = BTreeMap::new();
        for step in &steps {
            match step {
                Step::Assign { task, to } => {
                    prop_assert!(view.waiting.contains(task) && view.workers.contains(to));
                    prop_assert!(view.assigned.contains_key(to), "{step:?}");
                    prop_assert!(moved.insert(*task), "{step:?}");
                    *given.entry(*to).or_default() += 1;
                }
                Step::TakeBack { task, from } => {
                    prop_assert!(!view.workers.contains(from) && view.assigned[from].contains(task));
                    // In the two nodes of two dead workers at once it is only in an old snapshot.
                    prop_assert!(!view.waiting.contains(task));
                }
                Step::Forget { worker } => {
                    prop_assert!(!view.workers.contains(worker) && view.assigned[worker].is_empty());
                }
            }
        }
        for (to, given) in given {
            let had = view.assigned.get(&to).map_or(0, BTreeSet::len);
            prop_assert!(had + given <= most, "{to} has {had} and is given {given}");
        }
    }

    #[test]
    fn nothing_is_lost_and_three_rounds_are_enough(truth in any_truth(), most in 0_usize..5) {
        let all = |view: &View| -> BTreeSet<TaskId> {
            view.waiting.iter().chain(view.assigned.values().flatten()).copied().collect()
        };
        let mut now = truth.clone();
        for _ in 0..3 {
            now = after(&now, &plan(&now, most));
            prop_assert_eq!(all(&now), all(&truth));
        }
        prop_assert_eq!(plan(&now, most), []);
        prop_assert!(now.assigned.keys().all(|worker| now.workers.contains(worker)));
        let has_room = now.workers.iter().any(|worker| {
            now.assigned.get(worker).is_some_and(|tasks| tasks.len() < most)
        });
        prop_assert!(now.waiting.is_empty() || !has_room, "{now:?}");
    }
}
