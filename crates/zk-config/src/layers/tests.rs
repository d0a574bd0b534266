//! Precedence of layers, and their errors.

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

#[test]
fn each_layer_overrides_those_before_it_key_by_key() {
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

#[test]
fn variables_are_texts_unless_the_type_needs_a_number() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct All {
        zip: String,
        release: String,
        on: bool,
        count: u32,
        share: f64,
        least: Option<i64>,
        by_name: HashMap<String, String>,
    }
    let layers = Layers::new().variables(
        "APP",
        variables(&[
            ("APP_ZIP", "00123"),
            ("APP_RELEASE", "1.10"),
            ("APP_ON", "true"),
            ("APP_COUNT", "007"),
            ("APP_SHARE", "0.5"),
            ("APP_LEAST", "-3"),
            ("APP_BY_NAME__YES", "1e3"),
        ]),
    );
    assert_eq!(
        layers.merged::<All>(None).unwrap(),
        All {
            zip: "00123".to_owned(),
            release: "1.10".to_owned(),
            on: true,
            count: 7,
            share: 0.5,
            least: Some(-3),
            by_name: [("yes".to_owned(), "1e3".to_owned())].into(),
        }
    );
    let not_a_number = Layers::new().variables("APP", variables(&[("APP_SIZE", "1.5")]));
    let not_a_number = not_a_number.defaults(&pool(1, "x", 1, 1)).unwrap();
    let error = not_a_number.merged::<Pool>(None).unwrap_err();
    assert_eq!(error.kind(), DecodeErrorKind::Shape, "{error}");
}

/// The environment belongs to a process, so the test runs itself in another one.
#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_fails_only_its_own_layer() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    const INNER: &str = "ZK_CONFIG_TEST_INNER";
    if std::env::var_os(INNER).is_some() {
        let layers = Layers::new().environment("APP").unwrap();
        let read = layers.merged::<HashMap<String, String>>(None).unwrap();
        assert_eq!(read, [("host".to_owned(), "env".to_owned())].into());
        let error = Layers::new().environment("BAD").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the environment variable BAD_ONE is not UTF-8; correct or remove it"
        );
        return;
    }
    let this = "layers::tests::a_variable_that_is_not_utf8_fails_only_its_own_layer";
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this])
        .env(INNER, "1")
        .env("APP_HOST", "env")
        .env("BAD_ONE", OsStr::from_bytes(b"\xff"))
        .env(OsStr::from_bytes(b"\xfe"), "x")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(
        run.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn an_error_in_a_layer_names_its_place() {
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

#[test]
fn empty_lists_dotted_keys_and_dates_are_taken_literally() {
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

#[test]
fn profiles_override_the_application_and_what_all_share() {
    let nodes = |nodes: &[(&str, &[u8])]| {
        let root = "/config".parse().unwrap();
        Subtree::new(root, nodes.iter().copied())
    };
    let names: Vec<_> = Profiles::of("orders")
        .with_profile("eu")
        .with_profile("dev")
        .names()
        .collect();
    assert_eq!(
        names,
        [
            "application",
            "application,eu",
            "application,dev",
            "orders",
            "orders,eu",
            "orders,dev"
        ]
    );
    let merged = |all: &[(&str, &[u8])]| {
        let layers = Layers::new().defaults(&pool(1, "defaults", 1, 1)).unwrap();
        let layers = layers.variables("APP", variables(&[("APP_HOST", "env")]));
        layers.merge::<Pool>(layers_of(&nodes(all), &names)?)
    };
    assert_eq!(merged(&[]).unwrap(), pool(1, "env", 1, 1));
    let mut all: Vec<(&str, &[u8])> = vec![
        ("/config", b"not used"),
        (
            "/config/application",
            b"size = 2\nhost = \"shared\"\n[limits]\nidle = 2\n",
        ),
        ("/config/application/limits", b""),
        // The subtree of a node overrides its document.
        ("/config/application/limits/idle", b"3"),
        ("/config/other", b"size = 99\n"),
    ];
    assert_eq!(merged(&all).unwrap(), pool(2, "env", 1, 3));
    all.push(("/config/application,dev/size", b"4"));
    assert_eq!(merged(&all).unwrap(), pool(4, "env", 1, 3));
    all.push(("/config/orders", b"size = 5\n[limits]\nwait = 5"));
    assert_eq!(merged(&all).unwrap(), pool(5, "env", 5, 3));
    all.push(("/config/orders,dev", b"size = 7\n"));
    all.push(("/config/orders,eu", b"size = 6\n[limits]\nwait = 6"));
    assert_eq!(merged(&all).unwrap(), pool(7, "env", 6, 3));
    let bad: [(&str, &[u8]); 2] = [
        ("/config/orders,eu", b"size =\n"),
        ("/config/orders/size", b"\xff"),
    ];
    for (at, named) in bad.iter().zip(["orders,eu", "orders/size"]) {
        let error = merged(&[*at]).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
