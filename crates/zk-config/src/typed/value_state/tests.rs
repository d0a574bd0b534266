use std::sync::atomic::{AtomicI64, Ordering};

use zk_cache::Snapshot;

use super::*;

/// A value, and the number that the next read decodes.
fn state() -> (ValueState<i64>, Arc<AtomicI64>) {
    let next = Arc::new(AtomicI64::new(0));
    let decoded = Arc::clone(&next);
    let source = ValueSource {
        path: NodePath::parse("/a").unwrap(),
        extent: Extent::Node,
        decode: Box::new(move |_| Some(Ok(decoded.load(Ordering::SeqCst)))),
        validation: None,
    };
    (ValueState::new(source, None, None), next)
}

fn follower(state: &ValueState<i64>) -> FollowState {
    FollowState {
        id: state.last().health.add(),
        known: Default::default(),
    }
}

/// Takes a read of a node, or of its absence, and returns whether it was accepted.
fn read(
    (state, next): &(ValueState<i64>, Arc<AtomicI64>),
    follow: &mut FollowState,
    revision: Option<i64>,
) -> bool {
    next.store(revision.unwrap_or(0), Ordering::SeqCst);
    let snapshot = Snapshot::empty("/a").unwrap();
    match state.take(&Reading { snapshot, revision }, follow) {
        Taken::Accepted(known) => {
            follow.known = known;
            true
        }
        Taken::MaybeOutdated(newest) => {
            follow.known = newest;
            false
        }
    }
}

fn value((state, _): &(ValueState<i64>, Arc<AtomicI64>)) -> i64 {
    **state.current().unwrap()
}

#[test]
fn a_deletion_is_not_undone_by_an_older_read_of_another_session() {
    let state = state();
    let [mut ahead, mut behind] = [follower(&state.0), follower(&state.0)];
    assert!(read(&state, &mut ahead, Some(10)));
    assert!(read(&state, &mut behind, Some(10)));
    assert!(read(&state, &mut ahead, None));
    assert!(!read(&state, &mut behind, Some(10)));
    assert_eq!(value(&state), 0);
    // Once it has caught up, it reads the absence too.
    assert!(read(&state, &mut behind, None));
    assert!(read(&state, &mut behind, Some(11)));
    assert!(!read(&state, &mut ahead, None));
    assert_eq!(value(&state), 11);
}

#[test]
fn an_early_absence_is_not_the_last_deletion() {
    let state = state();
    let [mut ahead, mut behind] = [follower(&state.0), follower(&state.0)];
    assert!(read(&state, &mut ahead, Some(10)));
    assert!(read(&state, &mut ahead, None));
    // From before the node was created.
    assert!(read(&state, &mut behind, None));
    assert!(!read(&state, &mut behind, Some(10)));
    assert_eq!(value(&state), 0);
}

/// The first session has not seen what another one reads, or only a part of it.
#[test]
fn a_value_that_may_be_older_than_a_deletion_is_not_taken() {
    for seen in [None, Some(10)] {
        let state = state();
        let [mut ahead, mut behind] = [follower(&state.0), follower(&state.0)];
        if seen.is_some() {
            assert!(read(&state, &mut ahead, seen));
        }
        assert!(read(&state, &mut ahead, None));
        assert!(!read(&state, &mut behind, Some(11)));
        assert_eq!(value(&state), 0);
        // Now it has caught up.
        assert!(read(&state, &mut behind, Some(12)));
        assert_eq!(value(&state), 12);
    }
}

#[test]
fn an_older_value_is_taken_after_catching_up_alone() {
    let state = state();
    let [mut old, mut first, mut second] = [0; 3].map(|_| follower(&state.0));
    assert!(read(&state, &mut old, Some(100)));
    // The ensemble was set up anew.
    assert!(!read(&state, &mut first, Some(5)));
    assert!(!read(&state, &mut second, None));
    assert!(read(&state, &mut first, Some(5)));
    assert_eq!(value(&state), 5);
    // A session that had caught up with the old revision has not with the new ones.
    assert!(read(&state, &mut first, Some(6)));
    assert!(!read(&state, &mut second, Some(5)));
    assert_eq!(value(&state), 6);
}
