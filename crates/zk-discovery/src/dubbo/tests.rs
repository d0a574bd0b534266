use proptest::prelude::*;

use super::*;

const SERVICE: &str = "com.example.Orders";

fn decode(url: &str) -> Result<Instance<DubboProvider>, BadEntry> {
    Dubbo.decode(SERVICE, &encoding::encode(url), b"127.0.0.1")
}

/// A node as Dubbo 2.7 names it, and back, byte by byte.
#[test]
fn a_provider_of_dubbo_is_read_and_written_back_as_it_was() {
    let node = "dubbo%3A%2F%2F10.0.0.7%3A20880%2Fcom.example.Orders%3Fanyhost%3Dtrue%26application%3Ddemo%26category%3Dproviders%26interface%3Dcom.example.Orders%26methods%3Dget%2Cput%26timestamp%3D1700000000123";
    let read = Dubbo.decode(SERVICE, node, b"").unwrap();
    assert_eq!(
        (read.address(), read.port()),
        (Some("10.0.0.7"), Some(20880))
    );
    assert_eq!(read.payload().get("methods"), Some("get,put"));
    assert_eq!(read.payload().protocol(), "dubbo");
    assert_eq!(read.registered, Some(1_700_000_000_123));
    assert_eq!(read.id(), node);
    assert!(read.is_enabled());
    assert_eq!(Dubbo.encode(&read).unwrap().name, node);
    let parent = Dubbo.parent(&"/dubbo".parse().unwrap(), SERVICE).unwrap();
    assert_eq!(parent.as_str(), "/dubbo/com.example.Orders/providers");
}

/// A URL and a node of Dubbo 2.7.5, as its own message shows them.
#[test]
fn parameters_in_the_order_of_their_names_make_the_bytes_of_dubbo() {
    let service = "com.heyu.service.StudentService";
    let provider = [
        ("anyhost", "true"),
        ("application", "myProvider"),
        ("deprecated", "false"),
        ("dubbo", "2.0.2"),
        ("dynamic", "true"),
        ("generic", "false"),
        ("interface", service),
        ("methods", "getStudent"),
        ("pid", "20828"),
        ("release", "2.7.5"),
        ("side", "provider"),
        ("timestamp", ""),
    ]
    .into_iter()
    .fold(DubboProvider::new("dubbo"), |provider, (key, value)| {
        provider.with(key, value)
    });
    let built = Instance::builder(service, provider).address("192.168.0.102");
    let mut built = built.port(20881).build().unwrap();
    built.registered = Some(1_624_334_801_215);
    let node = "dubbo%3A%2F%2F192.168.0.102%3A20881%2Fcom.heyu.service.StudentService%3Fanyhost%3Dtrue%26application%3DmyProvider%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26generic%3Dfalse%26interface%3Dcom.heyu.service.StudentService%26methods%3DgetStudent%26pid%3D20828%26release%3D2.7.5%26side%3Dprovider%26timestamp%3D1624334801215";
    let entry = Dubbo.encode(&built).unwrap();
    assert_eq!(
        (entry.name.as_str(), entry.data.as_slice()),
        (node, &b""[..])
    );
    let read = Dubbo.decode(service, node, b"192.168.0.102").unwrap();
    assert_eq!(read.service_type(), ServiceType::Dynamic);
    assert_eq!(Dubbo.encode(&read).unwrap(), entry);
}

#[test]
fn static_providers_are_read_and_not_registered() {
    let read = decode("dubbo://h:1/com.example.Orders?dynamic=false").unwrap();
    assert_eq!(read.service_type(), ServiceType::Static);
    let error = Dubbo.encode(&read).unwrap_err();
    assert!(error.message().contains("another node"), "{error}");
}

#[test]
fn odd_urls_are_read_as_dubbo_reads_them() {
    let read = decode("tri://u:p@[::1]:1/com.example.Orders?flag&a=b=c&enabled=false").unwrap();
    assert_eq!(read.address(), Some("::1"));
    assert_eq!(read.payload().get("flag"), Some("flag"));
    assert_eq!(read.payload().get("a"), Some("b=c"));
    assert!(!read.is_enabled());
    let written = Dubbo.encode(&read).unwrap().name;
    assert_eq!(
        encoding::decode(&written).unwrap(),
        "tri://u:p@[::1]:1/com.example.Orders?flag=flag&a=b=c&enabled=false"
    );
    let mut enabled = read.clone();
    enabled.set_enabled(true);
    assert!(!Dubbo.encode(&enabled).unwrap().name.contains("enabled"));
    // Below another path, it is the interface that tells.
    let read = decode("dubbo://h:1/context/x?interface=com.example.Orders").unwrap();
    assert_eq!(read.payload().path(), "context/x");
}

#[test]
fn urls_that_are_none_say_what_is_wrong_with_them() {
    for url in [
        "",
        "x",
        "dubbo://",
        "dubbo://h",
        "dubbo://h:x/a",
        "dubbo://:1/a",
        "dubbo://h:70000/a",
        "://h:1/com.example.Orders",
        "dubbo://h:1/com.example.Orders?=v",
        "dubbo://h:1/com.example.Orders?category=consumers",
    ] {
        assert!(
            matches!(decode(url), Err(BadEntry::Undecodable(_))),
            "{url}: {:?}",
            decode(url)
        );
    }
    for url in [
        "dubbo://h:1/other",
        "dubbo://h:1/com.example.Orders?interface=other",
    ] {
        let error = decode(url).unwrap_err();
        assert!(
            matches!(&error, BadEntry::OtherService { found, .. } if found == "other"),
            "{url}: {error}"
        );
    }
    let percent = Dubbo.decode(SERVICE, "dubbo%3", b"").unwrap_err();
    assert!(matches!(percent, BadEntry::Undecodable(_)));
}

#[test]
fn what_a_url_cannot_express_is_refused() {
    let build = |provider| {
        let built = Instance::builder(SERVICE, provider)
            .address("h")
            .port(1)
            .build();
        Dubbo.encode(&built.unwrap())
    };
    let plain = || DubboProvider::new("dubbo");
    assert!(build(plain()).is_ok());
    for provider in [
        DubboProvider::new(""),
        DubboProvider::new("a:b"),
        plain().with("a&b", "c"),
        plain().with("a=b", "c"),
        plain().with("a", "b&c"),
        plain().with("", "c"),
        plain().with_path("/a"),
        plain().with_path("a?b"),
    ] {
        assert!(build(provider.clone()).is_err(), "{provider:?}");
    }
    let nowhere = Instance::builder(SERVICE, plain()).build().unwrap();
    assert!(Dubbo.encode(&nowhere).is_err());
}

/// Consumers of the service decode what is written.
#[test]
fn what_would_not_be_read_again_is_refused_and_says_why() {
    let build = |address: &str, provider| {
        let built = Instance::builder(SERVICE, provider)
            .address(address)
            .port(1);
        Dubbo.encode(&built.build().unwrap())
    };
    let plain = || DubboProvider::new("dubbo");
    for (address, provider, expected) in [
        (
            "h",
            plain().with("interface", "other"),
            "its path or its parameter `interface` is \"other\", not \"com.example.Orders\"",
        ),
        (
            "h",
            plain().with_path("other"),
            "its path or its parameter `interface` is \"other\", not \"com.example.Orders\"",
        ),
        (
            "h",
            plain().with("category", "consumers"),
            "its category is \"consumers\"",
        ),
        (
            "[::1]",
            plain(),
            "the address is empty or has a sign in it that ends it",
        ),
    ] {
        let error = build(address, provider).unwrap_err();
        assert_eq!(error.message(), expected);
    }
    let mut nameless = Instance::builder(SERVICE, plain())
        .address("h")
        .port(1)
        .build()
        .unwrap();
    nameless.set_address("");
    assert!(Dubbo.encode(&nameless).is_err());
    let fine = [
        build("::1", plain()),
        build("h", plain().with_path("context").with("interface", SERVICE)),
        build("h", plain().with("category", "providers")),
    ];
    assert!(fine.iter().all(Result::is_ok), "{fine:?}");
}

#[test]
fn what_dubbo_keeps_beside_the_services_is_none() {
    for (child, service) in [
        ("com.example.Orders", Some("com.example.Orders")),
        ("a%3A1", Some("a:1")),
        ("%", None),
        ("config", None),
        ("metadata", None),
        ("mapping", None),
    ] {
        assert_eq!(Dubbo.service(child).as_deref(), service, "{child}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        host in "[a-z0-9.]{1,12}|[0-9a-f]{1,4}::[0-9a-f]{1,4}",
        port in any::<u16>(),
        parameters in proptest::collection::btree_map("[a-z.]{1,8}", "[^&]{0,12}", 0..5),
        registered in proptest::option::of(any::<i64>()),
        is_enabled in any::<bool>(),
    ) {
        let mut provider = DubboProvider::new("dubbo");
        for (key, value) in parameters {
            if ![CATEGORY, INTERFACE, TIMESTAMP, ENABLED].contains(&key.as_str()) {
                provider = provider.with(key, value);
            }
        }
        let mut written = Instance::builder(SERVICE, provider)
            .address(host).port(port).enabled(is_enabled).build().unwrap();
        written.registered = registered;
        let entry = Dubbo.encode(&written).unwrap();
        let read = Dubbo.decode(SERVICE, &entry.name, &entry.data).unwrap();
        prop_assert_eq!(read.address(), written.address());
        prop_assert_eq!((read.port, read.registered, read.is_enabled), (written.port, registered, is_enabled));
        for (key, value) in written.payload.parameters() {
            prop_assert_eq!(read.payload.get(key), Some(value));
        }
        prop_assert_eq!(Dubbo.encode(&read).unwrap().name, entry.name);
    }

    #[test]
    fn garbage_is_read_without_a_panic(node in "\\PC{0,40}") {
        drop(Dubbo.decode(SERVICE, &node, b""));
    }
}
