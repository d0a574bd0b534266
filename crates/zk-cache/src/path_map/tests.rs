//! Compares the map with the standard library's.

use std::collections::HashMap;
use std::sync::Arc as StdArc;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq)]
struct Entry(StdArc<(String, u32)>);

impl Entry {
    fn new(path: &str, value: u32) -> Self {
        Self(StdArc::new((path.to_owned(), value)))
    }
}

impl HasPath for Entry {
    fn path_bytes(&self) -> &[u8] {
        self.0.0.as_bytes()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u16, u32),
    Remove(u16),
    Update(u16, u32),
    /// Keeps a clone, which must never change.
    Clone,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few paths, so that most are met again, and more than two levels hold.
    let path = 0..600_u16;
    let step = prop_oneof![
        6 => (path.clone(), any::<u32>()).prop_map(|(path, value)| Step::Insert(path, value)),
        4 => path.clone().prop_map(Step::Remove),
        2 => (path, any::<u32>()).prop_map(|(path, value)| Step::Update(path, value)),
        1 => Just(Step::Clone),
    ];
    proptest::collection::vec(step, 0..800)
}

fn path(number: u16) -> String {
    format!("/app/node{number}")
}

fn check(map: &PathMap<Entry>, model: &HashMap<String, u32>) {
    assert_eq!(map.len(), model.len());
    for number in 0..600 {
        let path = path(number);
        assert_eq!(
            map.get(&path).map(|it| it.0.1),
            model.get(&path).copied(),
            "{path}"
        );
    }
    check_shape(&map.root, true);
}

/// Checks that no branch is longer than needed, and returns how many values there are.
fn check_shape(slot: &Slot<Entry>, is_root: bool) -> usize {
    match slot {
        Slot::Empty => {
            assert!(is_root, "a branch has an empty slot");
            0
        }
        Slot::Value(_) => 1,
        Slot::Branch(branch) => {
            assert_eq!(
                branch.header.header.count_ones() as usize,
                branch.slice.len()
            );
            let slots = branch.slice.iter();
            let values = slots.map(|slot| check_shape(slot, false)).sum();
            assert!(values > 1, "a branch has a single value");
            values
        }
    }
}

proptest! {
    #[test]
    fn it_is_the_map_of_the_standard_library_and_clones_stay(steps in steps()) {
        let (mut map, mut model) = (PathMap::new(), HashMap::new());
        let mut clones = Vec::new();
        for step in steps {
            match step {
                Step::Insert(number, value) => {
                    let path = path(number);
                    let before = map.insert(Entry::new(&path, value)).map(|it| it.0.1);
                    prop_assert_eq!(before, model.insert(path, value));
                }
                Step::Remove(number) => {
                    let path = path(number);
                    prop_assert_eq!(map.remove(&path).map(|it| it.0.1), model.remove(&path));
                }
                Step::Update(number, value) => {
                    let path = path(number);
                    let new = Entry::new(&path, value);
                    let before = map.update(&path, |entry| mem::replace(entry, new).0.1);
                    prop_assert_eq!(before, model.contains_key(&path).then(|| {
                        model.insert(path, value).expect("it is there")
                    }));
                }
                Step::Clone => clones.push((map.clone(), model.clone())),
            }
        }
        clones.push((map, model));
        for (map, model) in &clones {
            check(map, model);
        }
    }
}

/// Returns the branches of a map by address.
fn branches(slot: &Slot<Entry>, found: &mut Vec<usize>) {
    if let Slot::Branch(branch) = slot {
        found.push(branch.heap_ptr().addr());
        for slot in &branch.slice {
            branches(slot, found);
        }
    }
}

#[test]
fn a_change_copies_one_branch_of_each_level() {
    let mut map = PathMap::new();
    for number in 0..20_000 {
        map.insert(Entry::new(&path(number), 0));
    }
    let before = map.clone();
    let mut shared = Vec::new();
    branches(&before.root, &mut shared);
    for step in 0..3 {
        let mut changed = before.clone();
        match step {
            0 => drop(changed.insert(Entry::new(&path(7), 1))),
            1 => drop(changed.remove(&path(7))),
            _ => drop(changed.remove("/missing")),
        }
        let mut now = Vec::new();
        branches(&changed.root, &mut now);
        let copied = now.iter().filter(|it| !shared.contains(it)).count();
        let most = if step == 2 { 0 } else { 5 };
        assert!(copied <= most, "{copied} branches are copies");
    }
    // Without a clone, nothing is copied.
    drop(before);
    map.insert(Entry::new(&path(7), 1));
    let mut now = Vec::new();
    branches(&map.root, &mut now);
    assert_eq!(now, shared);
}
