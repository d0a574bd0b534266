use proptest::prelude::*;

use super::*;

const BUDGET: u64 = 1_000_000;

fn register(calls: &[Timed<RegisterOp>]) -> Linearized {
    linearize(&RegisterModel::default(), calls, BUDGET)
}

const fn write(value: u64, invoked: u64, returned: u64) -> Timed<RegisterOp> {
    Timed::new(RegisterOp::Write(Some(value)), invoked, Some(returned))
}

const fn read(value: u64, invoked: u64, returned: u64) -> Timed<RegisterOp> {
    Timed::new(RegisterOp::Read(Some(value)), invoked, Some(returned))
}

// covers: H9
#[test]
fn an_order_within_the_times_is_found() {
    let calls = [
        write(1, 0, 10),
        read(2, 1, 9),
        write(2, 2, 8),
        read(1, 11, 12),
    ];
    assert_eq!(register(&calls), Linearized::Yes(vec![2, 1, 0, 3]));
    assert_eq!(register(&[]), Linearized::Yes(vec![]));
}

// covers: H9
#[test]
fn a_read_of_what_was_overwritten_is_found() {
    let calls = [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)];
    assert_eq!(
        register(&calls),
        Linearized::No {
            longest: vec![0, 1],
            stuck: 2
        }
    );
}

#[test]
fn reads_that_see_two_writes_in_two_orders_are_found() {
    let calls = [
        write(1, 0, 100),
        write(2, 0, 100),
        read(1, 1, 2),
        read(2, 3, 4),
        read(1, 5, 6),
    ];
    assert!(matches!(register(&calls), Linearized::No { .. }));
}

#[test]
fn a_call_without_return_may_take_effect_late_or_never() {
    let unknown = Timed::new(RegisterOp::Write(Some(1)), 0, None);
    let none = Timed::new(RegisterOp::Read(None), 50, Some(51));
    let calls = [unknown.clone(), none.clone()];
    assert_eq!(register(&calls), Linearized::Yes(vec![1]));
    let calls = [unknown.clone(), none.clone(), read(1, 60, 61)];
    assert_eq!(register(&calls), Linearized::Yes(vec![1, 0, 2]));
    let calls = [unknown, read(1, 40, 41), none];
    assert!(matches!(register(&calls), Linearized::No { .. }));
}

#[test]
fn a_compare_and_set_needs_what_it_expects() {
    let cas = |from, to, at| Timed::new(RegisterOp::Cas(Some(from), Some(to)), at, Some(at + 1));
    let calls = [write(1, 0, 1), cas(1, 2, 10), cas(2, 3, 20)];
    assert_eq!(register(&calls), Linearized::Yes(vec![0, 1, 2]));
    let calls = [write(1, 0, 1), cas(1, 2, 10), cas(1, 3, 20)];
    assert!(matches!(register(&calls), Linearized::No { stuck: 2, .. }));
}

#[test]
fn a_search_that_takes_too_long_is_given_up() {
    let calls: Vec<_> = (0..20).map(|value| write(value, 0, 100)).collect();
    let calls: Vec<_> = calls.into_iter().chain([read(99, 1, 100)]).collect();
    assert_eq!(
        linearize(&RegisterModel::default(), &calls, 500),
        Linearized::GaveUp { steps: 500 }
    );
}

#[test]
fn a_long_history_of_few_clients_takes_few_steps() {
    const CALLS: u64 = 20_000;
    // Three clients with overlapping calls.
    let calls: Vec<_> = (0..CALLS)
        .map(|at| {
            if at % 3 == 0 {
                write(at, 10 * at, 10 * at + 25)
            } else {
                read(at - at % 3, 10 * at, 10 * at + 25)
            }
        })
        .collect();
    let found = linearize(&RegisterModel::default(), &calls, 3 * CALLS);
    assert!(matches!(found, Linearized::Yes(_)), "{found:?}");
}

#[test]
fn places_beyond_a_word_of_bits_are_put_back_one_by_one() {
    const PLACES: usize = 150;
    let mut forms = vec![Taken::default()];
    for place in 0..PLACES {
        let mut next = forms[place].clone();
        next.insert(place);
        forms.push(next);
    }
    assert_eq!(forms[PLACES].all_before, 128);
    let mut taken = forms[PLACES].clone();
    for place in (0..PLACES).rev() {
        taken.remove(place);
        assert_eq!(taken, forms[place], "without {place}");
    }
}

/// Searches all orders of all sets that contain the completed operations.
fn by_trying_all<M: Model>(model: &M, calls: &[Timed<M::Op>]) -> bool {
    fn go<M: Model>(
        model: &M,
        calls: &[Timed<M::Op>],
        state: &M::State,
        left: &mut Vec<usize>,
    ) -> bool {
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
            let Some(next) = model.step(state, &calls[at].op).filter(|_| first) else {
                return false;
            };
            left.remove(place);
            let found = go(model, calls, &next, left);
            left.insert(place, at);
            found
        })
    }
    let mut left = (0..calls.len()).collect();
    go(model, calls, &model.initial(), &mut left)
}

/// Returns whether a found order is valid.
fn is_order<M: Model>(model: &M, calls: &[Timed<M::Op>], order: &[usize]) -> bool {
    let mut state = model.initial();
    let mut latest_invoke = 0;
    for at in order {
        latest_invoke = latest_invoke.max(calls[*at].invoked);
        if calls[*at].returned.is_some_and(|end| end < latest_invoke) {
            return false;
        }
        match model.step(&state, &calls[*at].op) {
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

fn register_op() -> impl Strategy<Value = RegisterOp> {
    let value = || prop_oneof![Just(None), (0..3_u64).prop_map(Some)];
    prop_oneof![
        value().prop_map(RegisterOp::Read),
        value().prop_map(RegisterOp::Write),
        (value(), value()).prop_map(|(from, to)| RegisterOp::Cas(from, to)),
    ]
}

fn mutex_op() -> impl Strategy<Value = MutexOp> {
    prop_oneof![
        (0..3_usize, prop::option::of(0..4_u64))
            .prop_map(|(grant, token)| MutexOp::Acquire { grant, token }),
        (0..3_usize).prop_map(|grant| MutexOp::End { grant }),
    ]
}

fn agrees<M: Model>(model: &M, calls: &[Timed<M::Op>]) -> Result<(), TestCaseError> {
    let found = linearize(model, calls, BUDGET);
    let expected = by_trying_all(model, calls);
    match found {
        Linearized::Yes(order) => {
            prop_assert!(expected);
            prop_assert!(is_order(model, calls, &order));
        }
        Linearized::No { longest, stuck } => {
            prop_assert!(!expected);
            prop_assert!(!longest.contains(&stuck));
        }
        Linearized::GaveUp { .. } => prop_assert!(false, "so few calls need no so many steps"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    // covers: H9
    #[test]
    fn registers_are_judged_as_by_trying_all_orders(
        calls in prop::collection::vec((register_op(), time()), 0..8),
    ) {
        let calls: Vec<_> = calls.into_iter().map(|(op, (from, to))| Timed::new(op, from, to)).collect();
        agrees(&RegisterModel::default(), &calls)?;
    }

    #[test]
    fn mutexes_are_judged_as_by_trying_all_orders(
        calls in prop::collection::vec((mutex_op(), time()), 0..8),
    ) {
        let calls: Vec<_> = calls.into_iter().map(|(op, (from, to))| Timed::new(op, from, to)).collect();
        agrees(&MutexModel::default(), &calls)?;
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Crosses the boundary of a word of bits, and returns.
    #[test]
    fn a_set_of_places_is_what_was_put_in(steps in prop::collection::vec(0..200_usize, 0..600)) {
        let (mut taken, mut expected) = (Taken::default(), std::collections::BTreeSet::new());
        let mut order = Vec::new();
        let contains = |taken: &Taken, place: usize| {
            place < taken.all_before || taken.rest.get((place - taken.all_before) / 64)
                .is_some_and(|word| word & (1 << ((place - taken.all_before) % 64)) != 0)
        };
        for step in steps {
            if step < 20 {
                if let Some(last) = order.pop() {
                    taken.remove(last);
                    expected.remove(&last);
                }
            } else if expected.insert(step - 20) {
                taken.insert(step - 20);
                order.push(step - 20);
            }
        }
        for place in 0..200 {
            prop_assert_eq!(contains(&taken, place), expected.contains(&place));
        }
        let mut again = Taken::default();
        for place in &expected {
            again.insert(*place);
        }
        prop_assert_eq!(taken, again, "one set has one form");
    }
}
