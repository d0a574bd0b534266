//! Which of several problems is reported.

use proptest::prelude::*;

use super::*;

fn path() -> NodePath {
    "/app/motto".parse().expect("a good path")
}

fn stale() -> Problem {
    Problem::Stale { path: path() }
}

fn lost() -> Problem {
    Problem::SessionLost { path: path() }
}

fn rejected() -> Problem {
    Problem::Rejected {
        path: path(),
        reason: "odd".to_owned(),
    }
}

/// Names the reported problem.
fn word(health: &ValueHealth) -> &'static str {
    match health.problem().as_deref() {
        None => "healthy",
        Some(Problem::NotRead { .. }) => "not read",
        Some(Problem::Stale { .. }) => "stale",
        Some(Problem::SessionLost { .. }) => "lost",
        Some(Problem::Rejected { .. }) => "rejected",
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn a_single_session_reports_its_own_problems() {
    let mut health = ValueHealth::new(path());
    let only = health.add();
    assert_eq!(word(&health), "not read");
    health.on_read(only, None);
    assert_eq!(word(&health), "healthy");
    health.mark_failing(only, stale());
    assert_eq!(word(&health), "stale");
    health.on_read(only, Some(rejected()));
    assert_eq!(word(&health), "rejected");
    health.remove(only, Some(lost()));
    assert_eq!(word(&health), "lost");
}

#[test]
fn the_value_is_stale_after_a_healthy_session_leaves() {
    let mut health = ValueHealth::new(path());
    let first = health.add();
    health.on_read(first, None);
    health.remove(first, None);
    assert_eq!(word(&health), "stale");

    let second = health.add();
    health.on_read(second, Some(rejected()));
    health.remove(second, None);
    assert_eq!(word(&health), "rejected", "the data is still wrong");
}

#[test]
fn a_session_that_has_read_nothing_leaves_no_problem() {
    let mut health = ValueHealth::new(path());
    let late = health.add();
    health.remove(late, None);
    assert_eq!(word(&health), "not read");
}

#[test]
fn a_failing_session_is_ignored_while_another_is_healthy() {
    let mut health = ValueHealth::new(path());
    let (one, other) = (health.add(), health.add());
    health.on_read(one, None);
    health.on_read(other, None);
    health.mark_failing(one, stale());
    assert_eq!(word(&health), "healthy");
    health.remove(one, Some(lost()));
    assert_eq!(word(&health), "healthy");
    health.mark_failing(other, stale());
    assert_eq!(word(&health), "stale", "no session reads the current data");
}

#[test]
fn a_problem_with_the_data_outlives_the_session_that_found_it() {
    let mut health = ValueHealth::new(path());
    let (one, other) = (health.add(), health.add());
    health.on_read(one, None);
    health.on_read(other, Some(rejected()));
    health.remove(other, None);
    assert_eq!(word(&health), "rejected");
    health.remove(one, None);
    assert_eq!(word(&health), "rejected");
}

#[test]
fn the_newest_problem_is_reported() {
    let mut health = ValueHealth::new(path());
    let (one, other) = (health.add(), health.add());
    health.mark_failing(other, lost());
    health.mark_failing(one, stale());
    assert_eq!(word(&health), "stale");
    health.mark_failing(other, lost());
    assert_eq!(word(&health), "lost");
}

#[derive(Debug, Clone)]
enum Step {
    Join,
    Read(usize, bool),
    Fail(usize),
    Leave(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Join),
        (0..4_usize, any::<bool>()).prop_map(|(session, is_good)| Step::Read(session, is_good)),
        (0..4_usize).prop_map(Step::Fail),
        (0..4_usize, any::<bool>()).prop_map(|(session, is_lost)| Step::Leave(session, is_lost)),
    ]
}

proptest! {
    /// Without a healthy session there is a problem; with one, only a problem with the data.
    #[test]
    fn no_problem_means_that_a_session_reads_good_data(steps in prop::collection::vec(step(), 0..40)) {
        let mut health = ValueHealth::new(path());
        let mut sessions: Vec<(FollowId, bool)> = Vec::new();
        let mut is_good = true;
        for step in steps {
            match step {
                Step::Join => sessions.push((health.add(), false)),
                Step::Read(session, good) if session < sessions.len() => {
                    health.on_read(sessions[session].0, (!good).then(rejected));
                    sessions[session].1 = true;
                    is_good = good;
                }
                Step::Fail(session) if session < sessions.len() => {
                    health.mark_failing(sessions[session].0, stale());
                    sessions[session].1 = false;
                }
                Step::Leave(session, is_lost) if session < sessions.len() => {
                    let (removed, _) = sessions.remove(session);
                    health.remove(removed, is_lost.then(lost));
                }
                _ => {}
            }
            let is_seen = sessions.iter().any(|(_, is_healthy)| *is_healthy);
            match word(&health) {
                "healthy" => prop_assert!(is_seen && is_good),
                problem if is_seen => {
                    prop_assert!(!is_good);
                    prop_assert_eq!(problem, "rejected");
                }
                _ => {}
            }
        }
    }
}
