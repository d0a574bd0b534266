use super::*;

fn files(registry: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(registry)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn run_avoids_what_is_reserved_and_what_is_in_use() {
    let reserved = BTreeSet::from([FIRST + 2]);
    let in_use = FIRST + 5;
    assert_eq!(
        choose(3, &reserved, 0, |port| port != in_use),
        Some(FIRST + 6)
    );
    assert_eq!(choose(2, &reserved, 0, |port| port != in_use), Some(FIRST));
    assert_eq!(
        choose(2, &reserved, 1, |port| port != in_use),
        Some(FIRST + 3)
    );
}

#[test]
fn run_is_found_wherever_the_search_begins() {
    // Room for exactly one run of three, at the very end, in the middle, and at the very beginning.
    for gap in [LAST - 2, FIRST + 4000, FIRST] {
        for start in [0, 1, 17, 4000, LAST - FIRST, u16::MAX] {
            let found = choose(3, &BTreeSet::new(), start, |port| {
                (gap..gap + 3).contains(&port)
            });
            assert_eq!(found, Some(gap), "beginning at {start}");
        }
    }
    assert_eq!(choose(3, &BTreeSet::new(), 5, |port| port % 3 != 0), None);
}

#[test]
fn reservations_of_one_moment_do_not_overlap() {
    let registry = tempfile::tempdir().unwrap();
    let owner = tempfile::tempdir().unwrap();
    let reservations: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    reserve_in(registry.path(), owner.path(), 9, &BTreeSet::new()).unwrap()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let ports: BTreeSet<_> = reservations
        .iter()
        .flat_map(|r| r.first..r.first + 9)
        .collect();
    assert_eq!(ports.len(), 8 * 9);
    assert_eq!(files(registry.path()).len(), 8);
}

#[test]
fn reservation_is_void_when_its_ensemble_is_gone() {
    let registry = tempfile::tempdir().unwrap();
    let owner = tempfile::tempdir().unwrap();
    let gone = tempfile::tempdir().unwrap();
    let kept = reserve_in(registry.path(), owner.path(), 3, &BTreeSet::new()).unwrap();
    let void = reserve_in(registry.path(), gone.path(), 3, &BTreeSet::new()).unwrap();
    drop(gone);
    let third = reserve_in(registry.path(), owner.path(), 3, &BTreeSet::new()).unwrap();
    assert!(kept.file.exists());
    assert!(!void.file.exists() || void.first == third.first);
    assert_eq!(files(registry.path()).len(), 2);
}

#[test]
fn ports_asked_for_by_hand_are_left_alone() {
    let taken: BTreeSet<u16> = (FIRST..=LAST - 3).collect();
    let registry = tempfile::tempdir().unwrap();
    let owner = tempfile::tempdir().unwrap();
    let reservation = reserve_in(registry.path(), owner.path(), 3, &taken).unwrap();
    assert_eq!(reservation.first, LAST - 2);
}
