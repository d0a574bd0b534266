use super::*;

#[test]
fn system_is_read_from_os_release() {
    let debian = System::parse("NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n");
    assert!(debian.is("debian") && !debian.is("ubuntu"));
    assert_eq!(debian.codename.as_deref(), Some("bookworm"));

    let mint = System::parse(
        "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n",
    );
    assert_eq!(mint.ids, ["linuxmint", "ubuntu", "debian"]);
    assert_eq!(
        mint.codename.as_deref(),
        Some("noble"),
        "the packages are those of the parent's release"
    );

    let alpine = System::parse("ID='alpine'\n");
    assert_eq!(
        (alpine.ids, alpine.codename),
        (vec!["alpine".to_owned()], None)
    );
    assert_eq!(System::parse(""), System::default());
}

#[test]
fn empty_variable_counts_as_not_set() {
    let machine = Machine::new([("A".into(), "".into()), ("B".into(), "b".into())]);
    assert_eq!(machine.var("A"), None);
    assert_eq!(machine.path_var("B"), Some(PathBuf::from("b")));
}

#[test]
fn absolute_paths_are_seen_below_the_root() {
    let mut machine = Machine::new([]);
    assert_eq!(
        machine.below_root("/usr/share"),
        PathBuf::from("/usr/share")
    );
    machine.root = PathBuf::from("/image");
    assert_eq!(
        machine.below_root("/usr/share"),
        PathBuf::from("/image/usr/share")
    );
}

#[test]
fn numbers_are_compared_as_numbers() {
    assert!(numbers("zookeeper-3.10.0") > numbers("zookeeper-3.9.12"));
    assert_eq!(numbers("apache-zookeeper-3.9.3-bin"), [3, 9, 3]);
    assert!(numbers("none").is_empty());
}
