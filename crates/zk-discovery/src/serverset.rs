//! The layout of serversets, as Finagle and Aurora use them.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zk_core::codec::{Codec, DecodeError, DecodeErrorKind, EncodeError, Json};
use zk_core::{NodePath, ParsePathError};

use crate::instance::{Instance, ServiceType};
use crate::layout::{BadEntry, Entry, Format, Layout, ReadFormat};
use crate::stable_hash::stable_hash;

/// The layout of serversets, which Finagle and Aurora use: `<base>/<service>/member_<10 digits>`, with JSON in it.
///
/// The service is the last part of a serverset's path, and the payload of an instance is a [`ServersetMember`].
/// The JSON has the keys of Aurora's codec in its order; `shard` is left out if there is none:
///
/// ```json
/// {"serviceEndpoint":{"host":"10.0.0.7","port":8080},"additionalEndpoints":{"http":{"host":"10.0.0.7","port":8081}},"status":"ALIVE","shard":0}
/// ```
///
/// - The address and the port are those of `serviceEndpoint`. The instance is enabled if its status is `ALIVE`, as in
///   Finagle. A disabled one is written with the status that it was read with, or with `STOPPING`.
/// - The number in the name is chosen by this crate from the id, between 1,000,000,000 and 2,147,483,647. Other clients
///   use sequential nodes, whose numbers begin at 0. The id of a registered instance is the name of its node; the same
///   id has the same node at the next registration.
/// - There is no registration time. [`Registry::register`](crate::Registry::register) therefore waits for all removals
///   of its session first, see [`Format::encode`].
/// - The path of a serverset and missing ancestors are persistent nodes, and stay: Twitter's library creates the path only
///   once, and ignores its deletion.
/// - Children whose names do not begin with `member_`, such as Finagle's weights in `vector_…`, are ignored.
///   Unknown keys are ignored, and an update rewrites the node without them.
/// - Aurora's codec writes `<`, `>`, `&`, `=` and `'` in texts as `\u003c` and so on, and this crate writes them as they
///   are. Both read both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct Serverset;

/// What a member of a serverset has besides its address and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServersetMember {
    status: MemberStatus,
    shard: Option<i32>,
    endpoints: Endpoints,
}

/// The status of a member of a serverset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum MemberStatus {
    /// It is not running.
    Dead,
    /// It is starting.
    Starting,
    /// It serves requests: the only status of an enabled instance.
    Alive,
    /// It is stopping.
    Stopping,
    /// It has stopped.
    Stopped,
    /// It has a problem.
    Warning,
}

impl Default for ServersetMember {
    fn default() -> Self {
        Self::new()
    }
}

impl ServersetMember {
    /// Creates a member without a shard and without additional endpoints.
    pub const fn new() -> Self {
        Self {
            status: MemberStatus::Alive,
            shard: None,
            endpoints: Endpoints(Vec::new()),
        }
    }

    /// Sets the number of the shard, such as the instance number of an Aurora job; default none.
    #[must_use]
    pub const fn with_shard(mut self, shard: i32) -> Self {
        self.shard = Some(shard);
        self
    }

    /// Adds an additional endpoint, or replaces the one of this name.
    #[must_use]
    pub fn with_endpoint(
        mut self,
        name: impl Into<String>,
        host: impl Into<String>,
        port: u16,
    ) -> Self {
        let (name, host) = (name.into(), host.into());
        let endpoint = Endpoint { host, port };
        let endpoints = &mut self.endpoints.0;
        match endpoints.iter_mut().find(|(found, _)| *found == name) {
            Some((_, found)) => *found = endpoint,
            None => endpoints.push((name, endpoint)),
        }
        self
    }

    /// Returns the number of the shard.
    pub const fn shard(&self) -> Option<i32> {
        self.shard
    }

    /// Returns the status that was read; [`Alive`](MemberStatus::Alive) for a new member.
    pub const fn status(&self) -> MemberStatus {
        self.status
    }

    /// Returns the host and the port of an additional endpoint.
    pub fn endpoint(&self, name: &str) -> Option<(&str, u16)> {
        let found = self.endpoints().find(|(found, _, _)| *found == name);
        found.map(|(_, host, port)| (host, port))
    }

    /// Returns the name, the host and the port of each additional endpoint, in their order.
    pub fn endpoints(&self) -> impl Iterator<Item = (&str, &str, u16)> {
        let all = self.endpoints.0.iter();
        all.map(|(name, endpoint)| (name.as_str(), endpoint.host.as_str(), endpoint.port))
    }
}

impl Layout for Serverset {
    fn parent(&self, base: &NodePath, service: &str) -> Result<NodePath, ParsePathError> {
        base.join(service)
    }

    fn service(&self, child: &str) -> Option<String> {
        Some(child.to_owned())
    }

    fn is_instance(&self, node: &str) -> bool {
        node.starts_with(PREFIX)
    }

    fn has_persistent_parent(&self) -> bool {
        true
    }
}

impl Format<ServersetMember> for Serverset {
    fn encode(&self, instance: &Instance<ServersetMember>) -> Result<Entry, EncodeError> {
        let (Some(host), Some(port)) = (instance.address(), instance.port) else {
            return Err(EncodeError::new(
                FORMAT,
                "the instance needs an address and a port",
            ));
        };
        if instance.ssl_port.is_some() || instance.uri_spec.is_some() {
            let problem = "a member has no place for an SSL port and a URI; use `with_endpoint`";
            return Err(EncodeError::new(FORMAT, problem));
        }
        let member = &instance.payload;
        let status = match (instance.is_enabled, member.status) {
            (true, _) => MemberStatus::Alive,
            (false, MemberStatus::Alive) => MemberStatus::Stopping,
            (false, status) => status,
        };
        let wire = Wire {
            service_endpoint: Endpoint {
                host: host.to_owned(),
                port,
            },
            additional_endpoints: Some(member.endpoints.clone()),
            status,
            shard: member.shard,
        };
        let data = serde_json::to_vec(&wire)
            .map_err(|error| EncodeError::new(FORMAT, error.to_string()))?;
        Ok(Entry {
            name: node_name(&instance.id),
            data,
        })
    }
}

impl ReadFormat<ServersetMember> for Serverset {
    fn decode(
        &self,
        service: &str,
        node: &str,
        data: &[u8],
    ) -> Result<Instance<ServersetMember>, BadEntry> {
        let read: Wire = Json.decode(data)?;
        if read.service_endpoint.host.is_empty() {
            let error = DecodeError::new(FORMAT, DecodeErrorKind::Shape, "the host is empty");
            return Err(error.into());
        }
        Ok(Instance {
            name: service.to_owned(),
            id: node.to_owned(),
            address: Some(read.service_endpoint.host),
            port: Some(read.service_endpoint.port),
            ssl_port: None,
            registered: None,
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            is_enabled: read.status == MemberStatus::Alive,
            payload: ServersetMember {
                status: read.status,
                shard: read.shard,
                endpoints: read.additional_endpoints.unwrap_or_default(),
            },
        })
    }
}

/// Returns the name of the node of an instance: its id, if that is one.
fn node_name(id: &str) -> String {
    let number = id.strip_prefix(PREFIX);
    if number.is_some_and(|it| it.len() == 10 && it.bytes().all(|byte| byte.is_ascii_digit())) {
        return id.to_owned();
    }
    let number = LOWEST + stable_hash(id.as_bytes()) % (HIGHEST - LOWEST + 1);
    format!("{PREFIX}{number}")
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    service_endpoint: Endpoint,
    additional_endpoints: Option<Endpoints>,
    status: MemberStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Endpoint {
    host: String,
    port: u16,
}

/// A JSON object whose keys keep their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Endpoints(Vec<(String, Endpoint)>);

impl Serialize for Endpoints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, endpoint)| (name, endpoint)))
    }
}

impl<'de> Deserialize<'de> for Endpoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Endpoints;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of endpoints")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Endpoints, A::Error> {
                let mut endpoints = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    endpoints.push(entry);
                }
                Ok(Endpoints(endpoints))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

const FORMAT: &str = "JSON of a serverset";
const PREFIX: &str = "member_";

/// The range of the numbers that this crate chooses: ten digits that fit into 31 bits, as those of sequential nodes.
const LOWEST: u64 = 1_000_000_000;
const HIGHEST: u64 = 2_147_483_647;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(data: &str) -> Result<Instance<ServersetMember>, BadEntry> {
        Serverset.decode("orders", "member_0000000007", data.as_bytes())
    }

    /// The texts are those of Aurora's `JsonCodecTest` and of Finagle's documentation.
    #[test]
    fn members_are_written_and_read_byte_by_byte_as_aurora_does() {
        let built = |member: ServersetMember| {
            let built = Instance::builder("orders", member).id("member_0000000007");
            built.address("foo").port(1000).build().unwrap()
        };
        for (member, data) in [
            (
                ServersetMember::new()
                    .with_endpoint("http", "foo", 8080)
                    .with_shard(42),
                r#"{"serviceEndpoint":{"host":"foo","port":1000},"additionalEndpoints":{"http":{"host":"foo","port":8080}},"status":"ALIVE","shard":42}"#,
            ),
            (
                ServersetMember::new(),
                r#"{"serviceEndpoint":{"host":"foo","port":1000},"additionalEndpoints":{},"status":"ALIVE"}"#,
            ),
        ] {
            let entry = Serverset.encode(&built(member.clone())).unwrap();
            assert_eq!(String::from_utf8(entry.data).unwrap(), data);
            assert_eq!(entry.name, "member_0000000007");
            let read = decode(data).unwrap();
            assert_eq!(read, built(member));
        }
        let minimal = r#"{"serviceEndpoint":{"host":"foo","port":1000},"status":"ALIVE"}"#;
        assert_eq!(decode(minimal).unwrap(), built(ServersetMember::new()));
    }

    /// The text of Finagle's `EntryTest`, with ports.
    #[test]
    fn an_entry_of_finagle_is_read() {
        let data = r#"{"status": "ALIVE", "additionalEndpoints": {"aurora": {"host": "10.0.0.1", "port": 1}, "http": {"host": "10.0.0.2", "port": 2}}, "serviceEndpoint": {"host": "10.0.0.3", "port": 3}, "shard": 0}"#;
        let read = decode(data).unwrap();
        assert_eq!((read.address(), read.port()), (Some("10.0.0.3"), Some(3)));
        let member = read.payload();
        let endpoints: Vec<_> = member.endpoints().collect();
        assert_eq!(
            endpoints,
            [("aurora", "10.0.0.1", 1), ("http", "10.0.0.2", 2)]
        );
        assert_eq!(member.endpoint("http"), Some(("10.0.0.2", 2)));
        assert_eq!(
            (member.shard(), member.status()),
            (Some(0), MemberStatus::Alive)
        );
        assert!(read.is_enabled());
    }

    /// The first ones are those of Aurora's `JsonCodecTest`.
    #[test]
    fn data_that_is_no_member_is_refused() {
        for data in [
            "\u{c}\u{a}",
            "",
            "[]",
            "{}",
            r#"{"serviceEndpoint":{"host":"foo","port":1000}}"#,
            r#"{"status":"ALIVE"}"#,
            r#"{"serviceEndpoint":{"host":"foo","port":70000},"status":"ALIVE"}"#,
            r#"{"serviceEndpoint":{"host":"","port":1},"status":"ALIVE"}"#,
            r#"{"serviceEndpoint":{"host":"foo","port":1000},"status":"alive"}"#,
        ] {
            assert!(
                matches!(decode(data), Err(BadEntry::Undecodable(_))),
                "{data}"
            );
        }
    }

    #[test]
    fn a_disabled_member_keeps_its_status() {
        for (status, expected) in [
            ("ALIVE", "STOPPING"),
            ("DEAD", "DEAD"),
            ("WARNING", "WARNING"),
        ] {
            let data = |status: &str| {
                format!(
                    r#"{{"serviceEndpoint":{{"host":"foo","port":1}},"additionalEndpoints":{{}},"status":"{status}"}}"#
                )
            };
            let mut read = decode(&data(status)).unwrap();
            assert_eq!(read.is_enabled(), status == "ALIVE");
            for (is_enabled, expected) in [(false, expected), (true, "ALIVE")] {
                read.set_enabled(is_enabled);
                let written = Serverset.encode(&read).unwrap();
                assert_eq!(String::from_utf8(written.data).unwrap(), data(expected));
            }
        }
    }

    #[test]
    fn instances_that_a_member_cannot_express_are_refused() {
        let builder = || Instance::builder("orders", ServersetMember::new()).address("h");
        let encode = |built: Result<Instance<_>, _>| Serverset.encode(&built.unwrap());
        assert!(encode(builder().port(1).build()).is_ok());
        assert!(encode(builder().build()).is_err());
        let error = encode(builder().port(1).ssl_port(2).build()).unwrap_err();
        assert!(error.message().contains("with_endpoint"), "{error}");
    }

    /// These names are for ever: an id has the same node in every version.
    #[test]
    fn an_id_has_one_name() {
        assert_eq!(node_name("member_0000000007"), "member_0000000007");
        assert_eq!(node_name("orders-1"), "member_2086991282");
        assert_ne!(node_name("member_7"), "member_7");
        assert!(Serverset.is_instance("member_0000000007"));
        assert!(!Serverset.is_instance("vector_0000000001"));
    }

    proptest! {
        #[test]
        fn names_are_those_of_sequential_nodes(id in "\\PC{1,40}") {
            let name = node_name(&id);
            let number = name.strip_prefix(PREFIX).unwrap();
            prop_assert_eq!(number.len(), 10);
            prop_assert!(number.parse::<i32>().is_ok() || id == name);
        }

        #[test]
        fn garbage_is_read_without_a_panic(data in any::<Vec<u8>>()) {
            drop(Serverset.decode("orders", "member_0000000001", &data));
        }
    }
}
