//! Which layer wins, key by key.

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Pool {
    size: u16,
    host: String,
    #[serde(default)]
    limits: Limits,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Limits {
    wait: u32,
    idle: u32,
}

fn pool(size: u16, host: &str, wait: u32, idle: u32) -> Pool {
    Pool {
        size,
        host: host.to_owned(),
        limits: Limits { wait, idle },
    }
}

fn variables(all: &[(&str, &str)]) -> HashMap<String, String> {
    all.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

// covers: G5
#[test]
fn each_layer_wins_over_those_before_key_by_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pool.toml");
    std::fs::write(&file, "host = \"file\"\nsize = 2\n[limits]\nidle = 2\n").unwrap();
    let layers = Layers::new()
        .defaults(&pool(1, "defaults", 1, 1))
        .unwrap()
        .file(&file)
        .unwrap()
        .variables(
            "APP",
            variables(&[("APP_LIMITS__WAIT", "4"), ("OTHER_SIZE", "9")]),
        );
    let document: &[u8] = b"size = 3\n[limits]\nwait = 3\n";
    assert_eq!(
        layers.merged::<Pool>(Some(document)).unwrap(),
        pool(3, "file", 4, 2)
    );
    assert_eq!(layers.merged::<Pool>(None).unwrap(), pool(2, "file", 4, 2));
}

// covers: G5
// covers: G3
#[test]
fn what_is_wrong_in_a_layer_is_named() {
    let layers = Layers::new().defaults(&pool(1, "x", 1, 1)).unwrap();
    let syntax = layers
        .merged::<Pool>(Some(b"size = 3\nhost =\n"))
        .unwrap_err();
    assert_eq!(syntax.kind(), DecodeErrorKind::Syntax);
    assert_eq!(syntax.position().unwrap().line, 2);
    let shape = layers.merged::<Pool>(Some(b"size = \"much\"")).unwrap_err();
    assert_eq!(shape.kind(), DecodeErrorKind::Shape);
    assert!(shape.to_string().contains("size"), "{shape}");
    let empty = layers.merged::<Pool>(Some(b"")).unwrap_err();
    assert_eq!(empty.kind(), DecodeErrorKind::Empty);
    let error = Layers::new().file("/no/such/file.toml").unwrap_err();
    assert!(matches!(error, LayerError::Unreadable { .. }), "{error}");
    let error = Layers::new().defaults(&7).unwrap_err();
    assert!(matches!(error, LayerError::Defaults(_)), "{error}");
}

// covers: G5
#[test]
fn empty_list_dotted_key_and_moment_are_taken_as_they_are() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Hosts {
        names: Vec<String>,
        ports: HashMap<String, u16>,
        since: String,
    }
    let defaults = Hosts {
        names: vec!["a".to_owned(), "b".to_owned()],
        ports: HashMap::new(),
        since: String::new(),
    };
    let layers = Layers::new().defaults(&defaults).unwrap();
    let document: &[u8] = b"names = []\nsince = 2024-02-29\n[ports]\n\"db.one\" = 1\n\"\" = 2\n";
    assert_eq!(
        layers.merged::<Hosts>(Some(document)).unwrap(),
        Hosts {
            names: Vec::new(),
            ports: [("db.one".to_owned(), 1), (String::new(), 2)].into(),
            since: "2024-02-29".to_owned(),
        }
    );
    assert_eq!(layers.merged::<Hosts>(None).unwrap(), defaults);
}
