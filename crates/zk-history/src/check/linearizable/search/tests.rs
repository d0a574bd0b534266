use proptest::prelude::*;

use super::*;

const BUDGET: u64 = 1_000_000;

fn search(calls: &[Timed]) -> Linearized {
    linearize(calls, BUDGET)
}

const fn acquire(grant: usize, token: u64, invoked: u64, returned: u64) -> Timed {
    let token = Some(token);
    Timed::new(MutexOp::Acquire { grant, token }, invoked, Some(returned))
}

const fn end(grant: usize, invoked: u64, returned: Option<u64>) -> Timed {
    Timed::new(MutexOp::End { grant }, invoked, returned)
}

#[test]
fn an_order_within_the_times_is_found() {
    let calls = [
        acquire(1, 9, 0, 10),
        end(1, 11, Some(12)),
        acquire(0, 7, 1, 9),
        end(0, 2, Some(8)),
    ];
    assert_eq!(search(&calls), Linearized::Yes(vec![2, 3, 0, 1]));
    assert_eq!(search(&[]), Linearized::Yes(vec![]));
}

#[test]
fn a_grant_beside_another_is_found() {
    let calls = [acquire(0, 7, 0, 1), acquire(1, 9, 2, 3), end(0, 4, Some(5))];
    let (longest, stuck) = (vec![0], 1);
    assert_eq!(search(&calls), Linearized::No { longest, stuck });
}

#[test]
fn a_token_that_sinks_is_found() {
    let calls = [acquire(0, 9, 0, 1), end(0, 2, Some(3)), acquire(1, 7, 4, 5)];
    let (longest, stuck) = (vec![0, 1], 2);
    assert_eq!(search(&calls), Linearized::No { longest, stuck });
}

#[test]
fn a_call_without_return_may_take_effect_late_or_never() {
    let (first, second) = (acquire(0, 7, 0, 1), acquire(1, 9, 50, 51));
    let unknown = end(0, 2, None);
    let calls = [first.clone(), unknown.clone()];
    assert_eq!(search(&calls), Linearized::Yes(vec![0]));
    let calls = [first.clone(), unknown, second.clone()];
    assert_eq!(search(&calls), Linearized::Yes(vec![0, 1, 2]));
    let calls = [first, end(0, 60, None), second];
    assert!(matches!(search(&calls), Linearized::No { stuck: 2, .. }));
}

#[test]
fn a_search_that_takes_too_long_is_given_up() {
    let turns = (0..20).flat_map(|grant| {
        let acquire = MutexOp::Acquire { grant, token: None };
        [Timed::new(acquire, 0, Some(100)), end(grant, 0, Some(100))]
    });
    let calls: Vec<_> = turns.chain([end(99, 1, Some(100))]).collect();
    assert_eq!(linearize(&calls, 500), Linearized::GaveUp { steps: 500 });
}

#[test]
fn a_long_history_of_few_clients_takes_few_steps() {
    const GRANTS: u64 = 10_000;
    // Three clients with overlapping calls.
    let calls: Vec<_> = (0..GRANTS)
        .flat_map(|at| {
            let (grant, from) = (usize::try_from(at).unwrap(), 20 * at);
            [
                acquire(grant, at, from, from + 45),
                end(grant, from + 10, Some(from + 55)),
            ]
        })
        .collect();
    let found = linearize(&calls, 6 * GRANTS);
    assert!(matches!(found, Linearized::Yes(_)), "{found:?}");
}

/// Searches all orders of all sets that contain the completed operations.
fn by_trying_all(calls: &[Timed]) -> bool {
    fn go(calls: &[Timed], state: Mutex, left: &mut Vec<usize>) -> bool {
        if left.iter().all(|at| calls[*at].returned.is_none()) {
            return true;
        }
        (0..left.len()).any(|place| {
            let at = left[place];
            // No remaining operation may have ended before this one began.
            let first = left.iter().all(|other| {
                calls[*other]
                    .returned
                    .is_none_or(|end| calls[at].invoked <= end)
            });
            let Some(next) = state.after(calls[at].op).filter(|_| first) else {
                return false;
            };
            left.remove(place);
            let found = go(calls, next, left);
            left.insert(place, at);
            found
        })
    }
    let mut left = (0..calls.len()).collect();
    go(calls, Mutex::default(), &mut left)
}

/// Returns whether a found order is valid.
fn is_order(calls: &[Timed], order: &[usize]) -> bool {
    let mut state = Mutex::default();
    let mut latest_invoke = 0;
    for at in order {
        latest_invoke = latest_invoke.max(calls[*at].invoked);
        if calls[*at].returned.is_some_and(|end| end < latest_invoke) {
            return false;
        }
        match state.after(calls[*at].op) {
            Some(next) => state = next,
            None => return false,
        }
    }
    let required = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.returned.is_some());
    required.into_iter().all(|(at, _)| order.contains(&at))
}

fn time() -> impl Strategy<Value = (u64, Option<u64>)> {
    (
        0..20_u64,
        prop_oneof![4 => (0..12_u64).prop_map(Some), 1 => Just(None)],
    )
        .prop_map(|(from, lasts)| (from, lasts.map(|lasts| from + lasts)))
}

fn mutex_op() -> impl Strategy<Value = MutexOp> {
    prop_oneof![
        (0..3_usize, prop::option::of(0..4_u64))
            .prop_map(|(grant, token)| MutexOp::Acquire { grant, token }),
        (0..3_usize).prop_map(|grant| MutexOp::End { grant }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn locks_are_judged_as_by_trying_all_orders(
        calls in prop::collection::vec((mutex_op(), time()), 0..8),
    ) {
        let calls: Vec<_> = calls.into_iter().map(|(op, (from, to))| Timed::new(op, from, to)).collect();
        let expected = by_trying_all(&calls);
        match search(&calls) {
            Linearized::Yes(order) => {
                prop_assert!(expected);
                prop_assert!(is_order(&calls, &order));
            }
            Linearized::No { longest, stuck } => {
                prop_assert!(!expected);
                prop_assert!(!longest.contains(&stuck));
            }
            Linearized::GaveUp { .. } => prop_assert!(false, "so few calls need no so many steps"),
        }
    }
}
