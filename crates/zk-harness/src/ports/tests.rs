use std::os::unix::fs::PermissionsExt as _;

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
    let registry = root.path().join("of-user").join("ports");
    create_registry(&registry).unwrap();
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

/// Returns the name that the user's registry has.
fn user_directory() -> String {
    format!("zk-harness-{}", rustix::process::getuid().as_raw())
}

#[test]
fn a_registry_that_others_may_access_is_not_used() {
    let (root, last) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let parent = root.path().join(user_directory());
    fs::create_dir(&parent).unwrap();
    for (mode, is_used) in [
        (0o777, false),
        (0o750, false),
        (0o701, false),
        (0o700, true),
    ] {
        fs::set_permissions(&parent, fs::Permissions::from_mode(mode)).unwrap();
        let (registry, warning) = registry_in(&[root.path()], last.path()).unwrap();
        assert_eq!(registry.starts_with(root.path()), is_used, "{mode:o}");
        let warning = warning.map(|warning| warning.to_string());
        let names_it =
            |text: String| text.contains("has the mode") && text.contains(&user_directory());
        assert_eq!(warning.is_some_and(names_it), !is_used, "{mode:o}");
        let above = registry.parent().unwrap();
        for directory in [above, &registry] {
            let mode = fs::symlink_metadata(directory).unwrap().mode() & 0o777;
            assert_eq!(mode, 0o700, "{}", directory.display());
        }
    }
    // The other ones each have a directory of their own.
    assert_eq!(fs::read_dir(last.path()).unwrap().count(), 3);
}

#[test]
fn no_link_leads_to_a_registry() {
    let (root, last) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let precious = tempfile::tempdir().unwrap();
    let kept = precious.path().join("reserved-tables.txt");
    fs::write(&kept, "precious").unwrap();
    let parent = root.path().join(user_directory());
    let plant = |link: &Path| std::os::unix::fs::symlink(precious.path(), link).unwrap();
    let reserve = || {
        let (registry, warning) = registry_in(&[root.path()], last.path()).unwrap();
        assert!(warning.is_some());
        assert!(registry.starts_with(last.path()), "{}", registry.display());
        reserve_in(&registry, precious.path(), 1, &BTreeSet::new()).unwrap()
    };
    plant(&parent);
    reserve();
    fs::remove_file(&parent).unwrap();
    fs::DirBuilder::new().mode(0o700).create(&parent).unwrap();
    plant(&parent.join("ports"));
    reserve();
    assert_eq!(fs::read_dir(precious.path()).unwrap().count(), 1);
    assert!(kept.exists());
    let refused = create_registry(&parent.join("ports")).unwrap_err();
    assert!(
        refused.to_string().contains("is a link of user"),
        "{refused}"
    );
}
