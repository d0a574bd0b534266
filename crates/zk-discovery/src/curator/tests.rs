use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meta {
    zone: String,
    weight: u32,
}

fn meta() -> Meta {
    Meta {
        zone: "b".to_owned(),
        weight: 3,
    }
}

fn instance<P>(payload: P) -> Instance<P> {
    let built = Instance::builder("orders", payload)
        .id("one")
        .address("10.0.0.7")
        .port(8080)
        .build();
    Instance {
        registered: Some(1_700_000_000_123),
        ..built.unwrap()
    }
}

fn text<P: Serialize + DeserializeOwned>(layout: &Curator, instance: &Instance<P>) -> String {
    let entry = layout.encode(instance).unwrap();
    assert_eq!(entry.name, instance.id());
    String::from_utf8(entry.data).unwrap()
}

/// Keys, order and nulls are those that Curator 5.4 writes.
#[test]
fn instances_are_written_as_curator_writes_them() {
    let plain = Curator::new();
    assert_eq!(
        text(&plain, &instance("x".to_owned())),
        r#"{"name":"orders","id":"one","address":"10.0.0.7","port":8080,"sslPort":null,"payload":"x","registrationTimeUTC":1700000000123,"serviceType":"DYNAMIC","uriSpec":null}"#
    );
    let mut full = instance(meta());
    full.ssl_port = Some(8443);
    full.uri_spec = Some(UriSpec::parse("{scheme}://{address}").unwrap());
    let class = Curator::new().with_payload_class("com.example.Meta");
    assert_eq!(
        text(&class, &full),
        r#"{"name":"orders","id":"one","address":"10.0.0.7","port":8080,"sslPort":8443,"payload":{"@class":"com.example.Meta","zone":"b","weight":3},"registrationTimeUTC":1700000000123,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true}]}}"#
    );
    let empty = class.payload(&BTreeMap::<String, String>::new()).unwrap();
    assert_eq!(empty.get(), r#"{"@class":"com.example.Meta"}"#);
    // Only objects have one.
    assert_eq!(class.payload(&7).unwrap().get(), "7");
}

/// What is disabled is so to everyone who reads it.
#[test]
fn a_disabled_instance_is_written_and_read_as_disabled() {
    let mut disabled = instance(());
    disabled.set_enabled(false);
    let written = text(&Curator::new(), &disabled);
    assert!(
        written.ends_with(r#""uriSpec":null,"enabled":false}"#),
        "{written}"
    );
    let read: Instance<()> = Curator::new()
        .decode("orders", "one", written.as_bytes())
        .unwrap();
    assert_eq!(read, disabled);
}

#[test]
fn what_other_clients_write_is_read() {
    let layout = Curator::new();
    let decode = |node: &str, data: &str| -> Result<Instance<Option<Meta>>, BadEntry> {
        layout.decode("orders", node, data.as_bytes())
    };
    let full = r#"{"name":"orders","id":"one","address":"h","port":1,"sslPort":2,"payload":{"@class":"com.example.Meta","weight":3,"zone":"b"},"registrationTimeUTC":5,"serviceType":"PERMANENT","uriSpec":{"parts":[{"value":"id","variable":true}]},"enabled":true,"later":[1]}"#;
    let read = decode("one", full).unwrap();
    assert_eq!(read.payload(), &Some(meta()));
    assert_eq!(read.service_type(), ServiceType::Permanent);
    assert_eq!(read.uri().as_deref(), Some("one"));
    let least = decode("one", r#"{"name":"orders","id":"one"}"#).unwrap();
    assert!(least.is_enabled() && least.port().is_none() && least.payload().is_none());
    let sequential = r#"{"name":"orders","id":"one","serviceType":"DYNAMIC_SEQUENTIAL"}"#;
    for node in ["one0000000003", "one-2147483648", "one-000000001"] {
        let is_one = node != "one-000000001";
        let read = decode(node, sequential).map(|one| one.id().to_owned());
        assert_eq!(read.is_ok(), is_one, "{node}: {read:?}");
    }
    for node in [
        "one",
        "one000000003",
        "one00000000003",
        "one-more0000000003",
        "one000000000x",
    ] {
        let error = decode(node, sequential).unwrap_err();
        assert!(matches!(error, BadEntry::OtherId { .. }), "{node}: {error}");
    }
    let never = r#"{"name":"orders","id":"one","registrationTimeUTC":null}"#;
    let read = decode("one", never).unwrap();
    assert_eq!(read.registration_time(), None);
    assert_eq!(least.registration_time(), None);
}

/// Each kind of bad entry is reported with its reason.
#[test]
fn entries_that_are_none_say_what_is_wrong_with_them() {
    let decode = |data: &[u8]| -> String {
        let bad = ReadFormat::<Meta>::decode(&Curator::new(), "orders", "one", data).unwrap_err();
        match bad {
            BadEntry::Undecodable(error) => format!("{:?}: {}", error.kind(), error.message()),
            other => other.to_string(),
        }
    };
    for (data, expected) in [
        (&b""[..], "Empty: "),
        (b"\xff", "NotUtf8: "),
        (b"{", "Syntax: EOF"),
        (b"[]", "Shape: "),
        (b"{\"id\":\"one\"}", "Shape: missing field `name`"),
        (
            br#"{"name":"orders","id":"one","port":70000}"#,
            "Shape: invalid value",
        ),
        (
            br#"{"name":"orders","id":"one","serviceType":"ODD"}"#,
            "Shape: there is no service type \"ODD\"",
        ),
        (
            br#"{"name":"orders","id":"one","payload":{"zone":1}}"#,
            "Shape: payload: invalid type",
        ),
        (
            br#"{"name":"orders","id":"one","payload":{"@class":"x"}}"#,
            "Shape: payload: ",
        ),
        (
            br#"{"name":"other","id":"one"}"#,
            "it is an instance of service \"other\", not of \"orders\"",
        ),
        (
            br#"{"name":"orders","id":"two"}"#,
            "its id \"two\" does not match the node \"one\"",
        ),
    ] {
        let said = decode(data);
        assert!(said.starts_with(expected), "{said}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        id in "[a-zA-Z0-9:.-]{1,20}x",
        address in proptest::option::of("\\PC{0,20}"),
        port in any::<Option<u16>>(),
        ssl_port in any::<Option<u16>>(),
        payload in "\\PC{0,20}",
        registered in any::<i64>(),
        is_enabled in any::<bool>(),
    ) {
        let written = Instance {
            name: "orders".to_owned(),
            id, address, port, ssl_port,
            payload: BTreeMap::from([("k".to_owned(), payload)]),
            registered: Some(registered),
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            is_enabled,
        };
        for layout in [Curator::new(), Curator::new().with_payload_class("a.B")] {
            let entry = layout.encode(&written).unwrap();
            let read = layout.decode("orders", &entry.name, &entry.data).unwrap();
            prop_assert_eq!(&written, &read);
        }
    }

    #[test]
    fn garbage_is_refused_without_a_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let read: Result<Instance<Meta>, _> = Curator::new().decode("orders", "one", &data);
        prop_assert!(read.is_err());
    }
}
