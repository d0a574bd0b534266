use super::*;

const NONE: Answer = None;
const LEADER: Answer = Some((Role::Leader, 5));
const OLD_LEADER: Answer = Some((Role::Leader, 4));
const FOLLOWER: Answer = Some((Role::Follower, 5));
const OBSERVER: Answer = Some((Role::Observer, 5));
const ALONE: Answer = Some((Role::Standalone, 0));

#[test]
fn a_single_server_serves_if_it_is_standalone() {
    assert_eq!(Health::judge(&[ALONE]), Health::AllServing { leader: 0 });
    assert_eq!(Health::judge(&[NONE]), Health::Down);
    assert_eq!(Health::judge(&[LEADER]), Health::Down);
}

#[test]
fn two_of_three_servers_are_a_quorum() {
    assert_eq!(
        Health::judge(&[FOLLOWER, LEADER, FOLLOWER]),
        Health::AllServing { leader: 1 }
    );
    assert_eq!(
        Health::judge(&[FOLLOWER, NONE, LEADER]),
        Health::Degraded { leader: 2 }
    );
    assert_eq!(Health::judge(&[LEADER, NONE, NONE]), Health::Down);
    assert_eq!(Health::judge(&[FOLLOWER, FOLLOWER, NONE]), Health::Down);
}

#[test]
fn a_leader_of_an_older_epoch_does_not_count() {
    assert_eq!(
        Health::judge(&[OLD_LEADER, LEADER, FOLLOWER]),
        Health::Degraded { leader: 1 }
    );
    assert_eq!(
        Health::judge(&[LEADER, OLD_LEADER, FOLLOWER]),
        Health::Degraded { leader: 0 }
    );
    assert_eq!(Health::judge(&[LEADER, LEADER, FOLLOWER]), Health::Down);
}

#[test]
fn three_of_four_servers_are_a_quorum() {
    assert_eq!(Health::judge(&[LEADER, FOLLOWER, NONE, NONE]), Health::Down);
    assert_eq!(
        Health::judge(&[LEADER, FOLLOWER, FOLLOWER, NONE]),
        Health::Degraded { leader: 0 }
    );
}

#[test]
fn serving_needs_one_newest_leader_and_a_majority() {
    let kinds = [NONE, LEADER, OLD_LEADER, FOLLOWER, OBSERVER, ALONE];
    let mut judged = 0;
    for servers in 2..=5u32 {
        for code in 0..kinds.len().pow(servers) {
            let answers: Vec<_> = (0..servers)
                .map(|index| kinds[code / kinds.len().pow(index) % kinds.len()])
                .collect();
            let count = |kind| answers.iter().filter(|answer| **answer == kind).count();
            let newest = if count(LEADER) > 0 {
                LEADER
            } else {
                OLD_LEADER
            };
            let voters = count(FOLLOWER) + 1;
            let health = Health::judge(&answers);
            assert_eq!(
                health.serves(),
                count(newest) == 1 && 2 * voters > answers.len(),
                "{answers:?}"
            );
            if let Some(leader) = health.leader() {
                assert_eq!(answers[leader], newest, "{answers:?}");
            }
            assert_eq!(
                matches!(health, Health::AllServing { .. }),
                health.serves() && voters == answers.len()
            );
            judged += 1;
        }
    }
    assert_eq!(judged, 36 + 216 + 1296 + 7776);
}
