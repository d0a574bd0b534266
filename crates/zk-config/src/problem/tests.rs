//! Which of several problems is told.

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

/// What is told, in a word.
fn word(health: &Health) -> &'static str {
    match health.problem().as_deref() {
        None => "well",
        Some(Problem::NotRead { .. }) => "not read",
        Some(Problem::Stale { .. }) => "stale",
        Some(Problem::SessionLost { .. }) => "lost",
        Some(Problem::Rejected { .. }) => "rejected",
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn one_session_tells_its_own_story() {
    let mut health = Health::new(path());
    let only = health.join();
    assert_eq!(word(&health), "not read");
    health.read(only, None);
    assert_eq!(word(&health), "well");
    health.trouble(only, stale());
    assert_eq!(word(&health), "stale");
    health.read(only, Some(rejected()));
    assert_eq!(word(&health), "rejected");
    health.leave(only, Some(lost()));
    assert_eq!(word(&health), "lost");
}

#[test]
fn whoever_leaves_well_leaves_what_may_grow_old() {
    let mut health = Health::new(path());
    let first = health.join();
    health.read(first, None);
    health.leave(first, None);
    assert_eq!(word(&health), "stale");

    let second = health.join();
    health.read(second, Some(rejected()));
    health.leave(second, None);
    assert_eq!(word(&health), "rejected", "what is wrong is still there");
}

#[test]
fn a_session_that_never_looked_leaves_nothing() {
    let mut health = Health::new(path());
    let late = health.join();
    health.leave(late, None);
    assert_eq!(word(&health), "not read");
}

#[test]
fn the_trouble_of_one_session_is_none_while_another_is_well() {
    let mut health = Health::new(path());
    let (one, other) = (health.join(), health.join());
    health.read(one, None);
    health.read(other, None);
    health.trouble(one, stale());
    assert_eq!(word(&health), "well");
    health.leave(one, Some(lost()));
    assert_eq!(word(&health), "well");
    health.trouble(other, stale());
    assert_eq!(word(&health), "stale", "now nobody sees what there is");
}

#[test]
fn what_is_wrong_with_the_data_outlives_who_found_it() {
    let mut health = Health::new(path());
    let (one, other) = (health.join(), health.join());
    health.read(one, None);
    health.read(other, Some(rejected()));
    health.leave(other, None);
    assert_eq!(word(&health), "rejected");
    health.leave(one, None);
    assert_eq!(word(&health), "rejected");
}

#[test]
fn the_newest_trouble_is_told() {
    let mut health = Health::new(path());
    let (one, other) = (health.join(), health.join());
    health.trouble(other, lost());
    health.trouble(one, stale());
    assert_eq!(word(&health), "stale");
    health.trouble(other, lost());
    assert_eq!(word(&health), "lost");
}

#[derive(Debug, Clone)]
enum Step {
    Join,
    Read(usize, bool),
    Trouble(usize),
    Leave(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Join),
        (0..4_usize, any::<bool>()).prop_map(|(who, is_good)| Step::Read(who, is_good)),
        (0..4_usize).prop_map(Step::Trouble),
        (0..4_usize, any::<bool>()).prop_map(|(who, is_lost)| Step::Leave(who, is_lost)),
    ]
}

proptest! {
    /// Without a session that sees what there is, nobody is told that all is well; with one, what is told is the data.
    #[test]
    fn all_is_well_only_if_somebody_sees_it(steps in prop::collection::vec(step(), 0..40)) {
        let mut health = Health::new(path());
        let mut there: Vec<(Follower, bool)> = Vec::new();
        let mut is_good = true;
        for step in steps {
            match step {
                Step::Join => there.push((health.join(), false)),
                Step::Read(who, good) if who < there.len() => {
                    health.read(there[who].0, (!good).then(rejected));
                    there[who].1 = true;
                    is_good = good;
                }
                Step::Trouble(who) if who < there.len() => {
                    health.trouble(there[who].0, stale());
                    there[who].1 = false;
                }
                Step::Leave(who, is_lost) if who < there.len() => {
                    let (gone, _) = there.remove(who);
                    health.leave(gone, is_lost.then(lost));
                }
                _ => {}
            }
            let is_seen = there.iter().any(|(_, sees)| *sees);
            match word(&health) {
                "well" => prop_assert!(is_seen && is_good),
                told if is_seen => {
                    prop_assert!(!is_good);
                    prop_assert_eq!(told, "rejected");
                }
                _ => {}
            }
        }
    }
}
