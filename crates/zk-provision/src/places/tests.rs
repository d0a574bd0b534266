use super::*;

#[test]
fn own_variable_comes_first_and_debian_second() {
    let machine = Machine::new([
        ("ZOOKEEPER_HOME".into(), "/zk".into()),
        ("HOMEBREW_PREFIX".into(), "/brew".into()),
    ]);
    let places = all(&machine);
    let path = |place: &Place| match place {
        Place::Home { path, .. } => path.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(path(&places[0]), Path::new("/zk"));
    assert_eq!(path(&places[1]), Path::new("/usr/share/java"));
    assert_eq!(path(&places[2]), Path::new("/brew/opt/zookeeper"));
    assert_eq!(
        places[3],
        Place::Children {
            parent: PathBuf::from("/brew/Cellar/zookeeper"),
            prefix: ""
        }
    );
    assert_eq!(
        all(&Machine::new([]))[0],
        Place::Unset {
            variable: "ZOOKEEPER_HOME"
        }
    );
}

#[test]
fn numbers_are_compared_as_numbers() {
    assert!(numbers("zookeeper-3.10.0") > numbers("zookeeper-3.9.12"));
    assert_eq!(numbers("apache-zookeeper-3.9.3-bin"), [3, 9, 3]);
    assert!(numbers("none").is_empty());
}
