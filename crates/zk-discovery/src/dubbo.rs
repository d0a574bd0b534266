//! The layout of Dubbo's registry.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use zk_core::codec::{DecodeError, DecodeErrorKind, EncodeError};
use zk_core::{NodePath, ParsePathError};

use crate::instance::{Instance, ServiceType};
use crate::layout::{BadEntry, Entry, Format, Layout, ReadFormat};

mod encoding;

/// The layout of Dubbo's registry: `<base>/<interface>/providers/<url>`, the URL encoded as Java's `URLEncoder` does.
///
/// The service is the interface, the base is `/dubbo` by convention, and the payload of an instance is a
/// [`DubboProvider`]:
/// `dubbo://10.0.0.7:20880/com.example.Orders?side=provider&timestamp=1700000000000`.
///
/// - The name of the node contains the whole instance. The id is therefore always that name, and an update that changes
///   the URL [fails](crate::UpdateError::OtherNode), because a node cannot be renamed: register the new instance, then
///   unregister the old one.
///   The encoded name may have 32,768 bytes.
/// - The data of the node is neither read nor written.
/// - `timestamp` is the registration time, so a restarted process has a different node than before. `enabled=false`
///   marks a disabled instance.
/// - Consumers, routers and configurators are neither registered nor read.
/// - Dubbo writes the parameters in the order of their names, and this crate in the order in which they were added or
///   read, with `timestamp` and `enabled` last unless they were added before. A URL that Dubbo wrote keeps its order.
///   Readers accept any order. For the bytes that Dubbo would write, add the parameters in the order of their names, and
///   `timestamp` with any value at its place.
/// - Give an IPv6 address without brackets. It is written in brackets, which Dubbo does not add, and read with or
///   without them.
/// - An instance with `dynamic=false` is read as [static](crate::ServiceType::Static). Such instances are not
///   registered: since `timestamp` is part of the name, each registration would leave another node, as with Dubbo.
/// - A URL that would not be read back is rejected: another interface in the path or in the parameter `interface`, or
///   another category.
/// - The parents of an instance are persistent nodes, as Dubbo creates them, and stay. Dubbo's listener sets no new watch
///   once `providers` is deleted, and its providers create a parent only once.
/// - `config`, `metadata` and `mapping` below the base belong to Dubbo and are not services.
/// - Dubbo 3 also registers applications below `/services`; that layout is not this one.
///
/// Compared with the source of Dubbo 3.0 (`ZookeeperRegistry`, `URL`) and a node of Dubbo 2.7.5; not tested against a
/// running Dubbo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct Dubbo;

/// The parts of a Dubbo provider URL besides host and port.
#[derive(Clone, PartialEq, Eq)]
pub struct DubboProvider {
    protocol: String,
    user: Option<String>,
    path: String,
    parameters: Vec<(String, String)>,
}

impl DubboProvider {
    /// Creates a provider with `protocol`, such as `dubbo` or `tri`, without parameters and with the interface as its
    /// path.
    pub fn new(protocol: impl Into<String>) -> Self {
        Self {
            protocol: protocol.into(),
            user: None,
            path: String::new(),
            parameters: Vec::new(),
        }
    }

    /// Sets a parameter: replaces an existing one, or appends it.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(key.into(), value.into());
        self
    }

    /// Sets the path in the URL; default the interface.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> &str {
        &self.protocol
    }

    /// Returns the path in the URL; empty for the interface.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(found, _)| found == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns all parameters, in their order.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn set(&mut self, key: String, value: String) {
        match self.parameters.iter_mut().find(|(found, _)| *found == key) {
            Some((_, found)) => *found = value,
            None => self.parameters.push((key, value)),
        }
    }

    /// Returns what a URL cannot express, if anything.
    fn problem(&self) -> Option<&'static str> {
        let texts = || self.parameters.iter();
        if self.protocol.is_empty() || self.protocol.contains([':', '/', '?', '@']) {
            Some("the protocol is empty or has a sign in it that ends it")
        } else if self.path.contains('?') || self.path.starts_with('/') {
            Some("the path begins with a slash or has a question mark in it")
        } else if texts().any(|(key, value)| key.contains(['&', '=']) || value.contains('&')) {
            Some("a parameter has a sign in it that ends it")
        } else if texts().any(|(key, _)| key.is_empty()) {
            Some("a parameter has no name")
        } else {
            None
        }
    }
}

/// Omits the user and the parameter values, which may be secret.
impl fmt::Debug for DubboProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DubboProvider")
            .field("protocol", &self.protocol)
            .field("path", &self.path)
            .field("parameters", &self.parameters.len())
            .finish_non_exhaustive()
    }
}

impl Layout for Dubbo {
    fn parent(&self, base: &NodePath, service: &str) -> Result<NodePath, ParsePathError> {
        base.join(&encoding::encode(service))?.join(PROVIDERS)
    }

    fn service(&self, child: &str) -> Option<String> {
        if NO_SERVICES.contains(&child) {
            return None;
        }
        encoding::decode(child).ok()
    }

    fn has_persistent_parent(&self) -> bool {
        true
    }
}

impl Format<DubboProvider> for Dubbo {
    fn encode(&self, instance: &Instance<DubboProvider>) -> Result<Entry, EncodeError> {
        let refused = |problem: &str| EncodeError::new(FORMAT, problem);
        if instance.service_type.is_persistent() {
            return Err(refused(
                "the instance is static or permanent, and each registration would leave another node: the name contains \
                 the registration time",
            ));
        }
        let mut provider = instance.payload.clone();
        if let Some(problem) = provider.problem() {
            return Err(refused(problem));
        }
        let (Some(host), Some(port)) = (instance.address(), instance.port) else {
            return Err(refused("the instance needs an address and a port"));
        };
        if host.is_empty() || host.contains(['/', '?', '@', '[', ']']) {
            return Err(refused(
                "the address is empty or has a sign in it that ends it",
            ));
        }
        let timestamp = instance.registered.map(|millis| millis.to_string());
        if let Some(timestamp) = timestamp {
            provider.set(TIMESTAMP.to_owned(), timestamp);
        }
        match (instance.is_enabled, provider.get(ENABLED)) {
            (false, _) => provider.set(ENABLED.to_owned(), "false".to_owned()),
            (true, Some("false")) => provider.parameters.retain(|(key, _)| key != ENABLED),
            (true, _) => {}
        }
        let host_read = host;
        let user = provider.user.map_or_else(String::new, |user| user + "@");
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let path = if provider.path.is_empty() {
            &instance.name
        } else {
            &provider.path
        };
        let mut url = format!("{}://{user}{host}:{port}/{path}", provider.protocol);
        for (at, (key, value)) in provider.parameters.iter().enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            url.push_str(key);
            url.push('=');
            url.push_str(value);
        }
        let name = encoding::encode(&url);
        // Consumers of the service would quarantine an instance that they cannot decode.
        match self.decode(&instance.name, &name, b"") {
            Ok(read) if read.address() == Some(host_read) && read.port == Some(port) => {}
            Ok(_) => return Err(refused("the address would be read as another one")),
            Err(BadEntry::OtherService { found, expected }) => {
                let problem =
                    format!("its path or its parameter `interface` is {found:?}, not {expected:?}");
                return Err(EncodeError::new(FORMAT, problem));
            }
            Err(BadEntry::Undecodable(error)) => return Err(refused(error.message())),
            Err(other) => return Err(EncodeError::new(FORMAT, other.to_string())),
        }
        Ok(Entry {
            name,
            data: Vec::new(),
        })
    }
}

impl ReadFormat<DubboProvider> for Dubbo {
    fn decode(
        &self,
        service: &str,
        node: &str,
        _data: &[u8],
    ) -> Result<Instance<DubboProvider>, BadEntry> {
        let url = encoding::decode(node).map_err(bad)?;
        let (rest, query) = url.split_once('?').unwrap_or((&url, ""));
        let parameters: Vec<_> = query
            .split('&')
            .filter(|part| !part.is_empty())
            // As Dubbo reads it: a parameter without a value has its name for one.
            .map(|part| part.split_once('=').unwrap_or((part, part)))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let (protocol, rest) = rest
            .split_once("://")
            .ok_or_else(|| bad("it has no protocol"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user.to_owned()), authority),
            None => (None, authority),
        };
        let (host, port) = authority
            .rsplit_once(':')
            .ok_or_else(|| bad("it has no port"))?;
        let port = port
            .parse()
            .map_err(|error| bad(format!("the port is {port:?}: {error}")))?;
        let address = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if address.is_empty() {
            return Err(bad("it has no host").into());
        }
        let path = if path == service { "" } else { path };
        let provider = DubboProvider {
            protocol: protocol.to_owned(),
            user,
            path: path.to_owned(),
            parameters,
        };
        if let Some(problem) = provider.problem() {
            return Err(bad(problem).into());
        }
        let found = provider
            .get(INTERFACE)
            .or_else(|| (!path.is_empty()).then_some(path));
        if let Some(found) = found.filter(|found| *found != service) {
            return Err(BadEntry::OtherService {
                found: found.to_owned(),
                expected: service.to_owned(),
            });
        }
        if let Some(category) = provider.get(CATEGORY).filter(|found| *found != PROVIDERS) {
            return Err(bad(format!("its category is {category:?}")).into());
        }
        Ok(Instance {
            name: service.to_owned(),
            id: node.to_owned(),
            address: Some(address.to_owned()),
            port: Some(port),
            ssl_port: None,
            registered: provider.get(TIMESTAMP).and_then(|text| text.parse().ok()),
            service_type: match provider.get(DYNAMIC) {
                Some("false") => ServiceType::Static,
                _ => ServiceType::Dynamic,
            },
            uri_spec: None,
            is_enabled: provider.get(ENABLED) != Some("false"),
            payload: provider,
        })
    }
}

fn bad(message: impl Into<String>) -> DecodeError {
    DecodeError::new(FORMAT, DecodeErrorKind::Syntax, message)
}

/// What Dubbo keeps beside the services.
const NO_SERVICES: [&str; 3] = ["config", "mapping", "metadata"];

const FORMAT: &str = "a URL of Dubbo";
const PROVIDERS: &str = "providers";
const CATEGORY: &str = "category";
const DYNAMIC: &str = "dynamic";
const ENABLED: &str = "enabled";
const INTERFACE: &str = "interface";
const TIMESTAMP: &str = "timestamp";

#[cfg(test)]
mod tests;
