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
fn concurrent_reservations_do_not_overlap() {
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
        .flat_map(|reservation| reservation.chosen.clone())
        .collect();
    assert_eq!(ports.len(), 8 * 9);
    assert_eq!(files(registry.path()).len(), 8);
}

#[test]
fn a_reservation_is_void_when_its_directory_is_removed() {
    let registry = tempfile::tempdir().unwrap();
    let owner = tempfile::tempdir().unwrap();
    let gone = tempfile::tempdir().unwrap();
    let kept = reserve_in(registry.path(), owner.path(), 3, &BTreeSet::new()).unwrap();
    let void = reserve_in(registry.path(), gone.path(), 3, &BTreeSet::new()).unwrap();
    drop(gone);
    let third = reserve_in(registry.path(), owner.path(), 3, &BTreeSet::new()).unwrap();
    assert!(kept.file.exists() && third.file.exists());
    assert!(!void.file.exists());
    assert_eq!(files(registry.path()).len(), 2);
}

#[test]
fn requested_and_used_ports_are_not_chosen() {
    let registry = tempfile::tempdir().unwrap();
    let owner = tempfile::tempdir().unwrap();
    let reserve = |count, requested: &BTreeSet<u16>| {
        reserve_in(registry.path(), owner.path(), count, requested)
    };
    let left = [FIRST, FIRST + 4000, LAST - 1]
        .into_iter()
        .find(|port| is_free(*port));
    let left = left.expect("a free port");
    let taken: BTreeSet<u16> = (FIRST..=LAST).filter(|port| *port != left).collect();
    let reservation = reserve(1, &taken).unwrap();
    assert_eq!(reservation.chosen, [left]);
    fs::remove_file(reservation.file).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, left)).unwrap();
    for (count, requested) in [(2, &taken), (1, &taken)] {
        let refused = reserve(count, requested);
        assert!(
            matches!(refused, Err(ReserveError::Failed(_))),
            "{refused:?}"
        );
    }
    drop(listener);
}

#[test]
fn a_requested_port_is_refused_while_it_is_reserved() {
    let registry = tempfile::tempdir().unwrap();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Nothing listens on any of them.
    let requested = BTreeSet::from([7, 9]);
    reserve_in(registry.path(), one.path(), 0, &requested).unwrap();
    let chosen = reserve_in(registry.path(), one.path(), 3, &BTreeSet::new()).unwrap();
    for port in [9, chosen.chosen[0], chosen.chosen[2]] {
        let again = reserve_in(registry.path(), other.path(), 0, &BTreeSet::from([port]));
        assert!(
            matches!(&again, Err(ReserveError::Taken { port: refused, by }) if *refused == port && by == one.path()),
            "{again:?}"
        );
    }
    drop(one);
    reserve_in(registry.path(), other.path(), 0, &requested).unwrap();
}

#[test]
fn a_lost_reservation_is_renewed_if_the_ports_are_free() {
    let root = tempfile::tempdir().unwrap();
    let registry = root.path().join("ports");
    fs::create_dir(&registry).unwrap();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ports = BTreeSet::from([7, 9]);
    let reservation = reserve_in(&registry, one.path(), 0, &ports).unwrap();
    renew(&reservation.file, one.path(), ports.clone()).unwrap();
    // As a reboot does.
    fs::remove_dir_all(&registry).unwrap();
    renew(&reservation.file, one.path(), ports.clone()).unwrap();
    assert!(reserve_in(&registry, other.path(), 0, &ports).is_err());
    fs::remove_file(&reservation.file).unwrap();
    let others = reserve_in(&registry, other.path(), 0, &BTreeSet::from([9])).unwrap();
    let refused = renew(&reservation.file, one.path(), ports);
    assert!(
        matches!(&refused, Err(ReserveError::Taken { port: 9, by }) if by == other.path()),
        "{refused:?}"
    );
    assert!(others.file.exists() && !reservation.file.exists());
}

#[test]
fn invalid_reservations_are_removed_and_other_files_kept() {
    let registry = tempfile::tempdir().unwrap();
    let owner = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("reserved-1", ""),
        ("reserved-2", "{\"directory\":\"/\",\"por"),
        ("reserved-3", "\0\u{7f}"),
        ("notes", "mine"),
    ] {
        fs::write(registry.path().join(name), text).unwrap();
    }
    fs::create_dir(registry.path().join("a directory")).unwrap();
    let own = reserve_in(registry.path(), owner.path(), 3, &BTreeSet::new()).unwrap();
    let own = own.file.file_name().unwrap().to_str().unwrap().to_owned();
    let mut expected = vec!["a directory".to_owned(), "notes".to_owned(), own];
    expected.sort();
    assert_eq!(files(registry.path()), expected);
}

#[test]
fn the_temporary_directory_is_always_absolute() {
    let here = std::env::current_dir().unwrap();
    assert_eq!(absolute_temp_dir(Path::new("")), Path::new("/tmp"));
    assert_eq!(absolute_temp_dir(Path::new("x/y")), here.join("x/y"));
    assert_eq!(absolute_temp_dir(Path::new("/x")), Path::new("/x"));
}
