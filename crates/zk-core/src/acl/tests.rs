//! Permission sets.

use super::*;

const LETTERS: [(Permissions, char); 5] = [
    (Permissions::CREATE, 'c'),
    (Permissions::DELETE, 'd'),
    (Permissions::READ, 'r'),
    (Permissions::WRITE, 'w'),
    (Permissions::ADMIN, 'a'),
];

#[test]
fn every_set_contains_its_members_and_prints_their_letters() {
    for bits in 0..32_usize {
        let members = LETTERS
            .iter()
            .enumerate()
            .filter(|(at, _)| bits & (1 << at) != 0)
            .map(|(_, pair)| *pair);
        let set = members
            .clone()
            .fold(Permissions::NONE, |set, (one, _)| set | one);
        assert_eq!(
            set.to_string(),
            members
                .clone()
                .map(|(_, letter)| letter)
                .collect::<String>()
        );
        for (one, _) in LETTERS {
            assert_eq!(
                set.contains(one),
                members.clone().any(|(member, _)| member == one)
            );
        }
        assert_eq!(set == Permissions::ALL, bits == 31);
    }
}
