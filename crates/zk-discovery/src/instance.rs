//! An instance of a service: what is registered and picked.

use std::fmt;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::redact::redact;
use crate::uri::UriSpec;

/// An instance of a service: its address, and a payload for its consumers.
///
/// `P` is the payload, any type that the service chooses.
/// Debug output omits it.
///
/// # Examples
///
/// ```
/// use zk_discovery::{Instance, UriSpec};
///
/// let instance = Instance::builder("orders", "eu-west".to_owned())
///     .id("orders-1")
///     .address("10.0.0.7")
///     .port(8080)
///     .uri_spec(UriSpec::parse("{scheme}://{address}:{port}/v1")?)
///     .build()?;
/// assert_eq!(instance.uri().as_deref(), Some("http://10.0.0.7:8080/v1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Instance<P> {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) address: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) ssl_port: Option<u16>,
    pub(crate) payload: P,
    /// Milliseconds since 1970; `None` before registration.
    pub(crate) registered: Option<i64>,
    pub(crate) service_type: ServiceType,
    pub(crate) uri_spec: Option<UriSpec>,
    pub(crate) is_enabled: bool,
}

/// The lifetime of an instance's node, in Curator's terms; set with [`InstanceBuilder::service_type`].
///
/// This crate reads all types, and registers all but [`DynamicSequential`](Self::DynamicSequential).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServiceType {
    /// Ephemeral: the node ends with its session.
    #[default]
    Dynamic,
    /// Ephemeral and sequential: the server appends a number to the id.
    ///
    /// Several instances may therefore have the same id; their nodes differ, and
    /// [`InstanceList::get`](crate::InstanceList::get) returns the first.
    ///
    /// This crate does not register them: after a lost reply nothing in the name shows which node a call created.
    /// An instance with a random id is as good.
    DynamicSequential,
    /// Persistent: the node stays until it is [unregistered](crate::Registration::unregister), whatever happens to its
    /// session and its process. Use it for what cannot register itself, such as the servers of a database.
    Static,
    /// As [`Static`](Self::Static), under another name: Curator registers and removes both alike.
    Permanent,
}

impl<P> Instance<P> {
    /// Returns a builder for an instance of the service `name` with this payload.
    pub fn builder(name: impl Into<String>, payload: P) -> InstanceBuilder<P> {
        InstanceBuilder {
            instance: Self {
                name: name.into(),
                id: Uuid::new_v4().to_string(),
                address: None,
                port: None,
                ssl_port: None,
                payload,
                registered: None,
                service_type: ServiceType::Dynamic,
                uri_spec: None,
                is_enabled: true,
            },
        }
    }

    /// Returns the name of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id, which identifies it among the instances of the service.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns its host name or address.
    ///
    /// Who may create instances chooses it. It contains no control characters, and no other promise is made: check it
    /// before it becomes an argument of a program, where one that begins with `-` is an option.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Returns its port.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns its port for encrypted connections.
    pub fn ssl_port(&self) -> Option<u16> {
        self.ssl_port
    }

    /// Returns the payload.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Returns when it was registered, by the clock of the registering process; `None` before registration.
    pub fn registration_time(&self) -> Option<SystemTime> {
        let millis = self.registered?;
        let distance = Duration::from_millis(millis.unsigned_abs());
        if millis < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(distance)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(distance)
        }
    }

    /// Returns the lifetime of its node.
    pub fn service_type(&self) -> ServiceType {
        self.service_type
    }

    /// Returns the pattern of its URIs.
    pub fn uri_spec(&self) -> Option<&UriSpec> {
        self.uri_spec.as_ref()
    }

    /// Returns whether it may be picked.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Returns its URI, if it has a [pattern](Self::uri_spec) and a value for each variable of it.
    pub fn uri(&self) -> Option<String> {
        self.uri_spec.as_ref()?.of(self)
    }

    /// Returns the value of a variable of a [`UriSpec`].
    fn variable(&self, name: &str) -> Option<String> {
        Some(match name {
            "scheme" if self.ssl_port.is_some() => "https".to_owned(),
            "scheme" => "http".to_owned(),
            "name" => self.name.clone(),
            "id" => self.id.clone(),
            "address" => self.address.clone()?,
            "port" => self.port?.to_string(),
            "ssl-port" => self.ssl_port?.to_string(),
            "registration-time-utc" => self.registered?.to_string(),
            "service-type" => self.service_type.as_str().to_lowercase(),
            _ => return None,
        })
    }

    /// Replaces the payload.
    pub fn set_payload(&mut self, payload: P) {
        self.payload = payload;
    }

    /// Returns the payload for modification.
    pub fn payload_mut(&mut self) -> &mut P {
        &mut self.payload
    }

    /// Sets whether it may be picked.
    pub fn set_enabled(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    /// Sets its host name or address.
    pub fn set_address(&mut self, address: impl Into<String>) {
        self.address = Some(address.into());
    }

    /// Sets its port.
    pub fn set_port(&mut self, port: Option<u16>) {
        self.port = port;
    }

    /// Sets its port for encrypted connections.
    pub fn set_ssl_port(&mut self, port: Option<u16>) {
        self.ssl_port = port;
    }
}

/// Omits what may be secret: the payload, and the user and parameters of an id that is a URL.
impl<P> fmt::Debug for Instance<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("name", &self.name)
            .field("id", &redact(&self.id))
            .field("address", &self.address)
            .field("port", &self.port)
            .field("ssl_port", &self.ssl_port)
            .field("service_type", &self.service_type)
            .field("is_enabled", &self.is_enabled)
            .finish_non_exhaustive()
    }
}

impl UriSpec {
    /// Returns the URI of an instance; `None` if the instance has no value for a variable.
    pub fn of<P>(&self, instance: &Instance<P>) -> Option<String> {
        let mut uri = String::new();
        for part in &self.parts {
            if part.is_variable {
                uri.push_str(&instance.variable(&part.value)?);
            } else {
                uri.push_str(&part.value);
            }
        }
        Some(uri)
    }
}

impl ServiceType {
    /// Returns whether the node outlives its session.
    pub const fn is_persistent(self) -> bool {
        matches!(self, Self::Static | Self::Permanent)
    }

    /// Returns Curator's name of the type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dynamic => "DYNAMIC",
            Self::DynamicSequential => "DYNAMIC_SEQUENTIAL",
            Self::Static => "STATIC",
            Self::Permanent => "PERMANENT",
        }
    }

    /// Parses Curator's name of the type.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [
            Self::Dynamic,
            Self::DynamicSequential,
            Self::Static,
            Self::Permanent,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == word)
    }
}

/// Builds an [`Instance`]; created by [`Instance::builder`].
#[derive(Debug, Clone)]
#[must_use = "an instance is built by `build`"]
pub struct InstanceBuilder<P> {
    instance: Instance<P>,
}

impl<P> InstanceBuilder<P> {
    /// Sets the id, which identifies it among the instances of the service; default a random UUID.
    ///
    /// A process that reuses its id after a restart may find its previous node, see [`WhenTaken`](crate::WhenTaken).
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.instance.id = id.into();
        self
    }

    /// Sets its host name or address; default none.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.instance.address = Some(address.into());
        self
    }

    /// Sets its port; default none.
    pub fn port(mut self, port: u16) -> Self {
        self.instance.port = Some(port);
        self
    }

    /// Sets its port for encrypted connections; default none.
    pub fn ssl_port(mut self, port: u16) -> Self {
        self.instance.ssl_port = Some(port);
        self
    }

    /// Sets the lifetime of its node; default [`ServiceType::Dynamic`].
    pub fn service_type(mut self, service_type: ServiceType) -> Self {
        self.instance.service_type = service_type;
        self
    }

    /// Sets the pattern of its URIs; default none.
    pub fn uri_spec(mut self, spec: UriSpec) -> Self {
        self.instance.uri_spec = Some(spec);
        self
    }

    /// Sets when it was registered, to the millisecond; for a [`Format`](crate::Format) that reads it.
    ///
    /// Registering replaces it.
    pub fn registration_time(mut self, time: SystemTime) -> Self {
        let millis = |distance: Duration| i64::try_from(distance.as_millis()).unwrap_or(i64::MAX);
        let since = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => millis(after),
            Err(before) => -millis(before.duration()),
        };
        self.instance.registered = Some(since);
        self
    }

    /// Sets whether it is to be picked; default true.
    pub fn enabled(mut self, is_enabled: bool) -> Self {
        self.instance.is_enabled = is_enabled;
        self
    }

    /// Builds the instance.
    ///
    /// # Errors
    ///
    /// If the name or the id is not a valid node name, or the address is empty.
    pub fn build(self) -> Result<Instance<P>, BuildError> {
        let instance = self.instance;
        check_name(&instance.name).map_err(|problem| BuildError::Name {
            name: instance.name.clone(),
            problem,
        })?;
        check_name(&instance.id).map_err(|problem| BuildError::Id {
            id: instance.id.clone(),
            problem,
        })?;
        match instance.address.as_deref() {
            Some("") => return Err(BuildError::EmptyAddress),
            Some(address) if has_control(address) => {
                return Err(BuildError::ControlCharacter {
                    address: address.to_owned(),
                });
            }
            _ => {}
        }
        Ok(instance)
    }
}

/// Returns whether an address would act upon a terminal, a log or the header of a request.
pub(crate) fn has_control(address: &str) -> bool {
    address.contains(char::is_control)
}

/// Checks that `name` is a valid node name.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("it is empty")
    } else if name.len() > MOST_BYTES {
        Err("it is longer than 32,768 bytes, and a session has no room for watches of longer paths")
    } else if name.contains('/') {
        Err("it contains a slash, which ends the name of a node")
    } else if zk_core::NodePath::root().join(name).is_err() {
        Err(
            "it is . or .., or contains a control or an unassigned character, which node names cannot",
        )
    } else {
        Ok(())
    }
}

/// An instance could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of the service is not a valid node name.
    #[error("a service cannot be named {name:?}: {problem}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The id is not a valid node name.
    #[error("an instance cannot have the id {id:?}: {problem}")]
    Id {
        /// The id.
        id: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The address is empty.
    #[error("the address is empty; omit it or set a host")]
    EmptyAddress,
    /// The address contains a control character, such as a line break.
    #[error("the address {address:?} contains a control character; set a host")]
    ControlCharacter {
        /// The address.
        address: String,
    },
}

/// A Dubbo URL with all its methods takes several kilobytes, and consumers list the names of all instances in one reply.
const MOST_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_node_can_have_are_refused_and_say_why() {
        let build = |name: &str, id: &str| Instance::builder(name, ()).id(id).build();
        assert!(build("orders", "a").is_ok());
        assert!(build("de.example.Orders:2", "host:80").is_ok());
        let long = "x".repeat(32 * 1024 + 1);
        for (name, id, expected) in [
            ("", "a", "a service cannot be named \"\": it is empty"),
            (
                "a/b",
                "a",
                "a service cannot be named \"a/b\": it contains a slash, which ends the name of a node",
            ),
            ("a", "", "an instance cannot have the id \"\": it is empty"),
            (
                "a",
                "x/y",
                "an instance cannot have the id \"x/y\": it contains a slash, which ends the name of a node",
            ),
        ] {
            assert_eq!(build(name, id).unwrap_err().to_string(), expected);
        }
        for id in [".", "..", "a\0b", "\u{1}", long.as_str()] {
            assert!(build("a", id).is_err(), "{id:?}");
        }
        let error = Instance::builder("a", ()).address("").build().unwrap_err();
        assert_eq!(error, BuildError::EmptyAddress);
        for hostile in ["10.0.0.1\nINFO", "\u{1b}[2J", "a\u{9b}31m"] {
            let error = Instance::builder("a", ()).address(hostile).build();
            let error = error.unwrap_err();
            assert!(
                matches!(error, BuildError::ControlCharacter { .. }),
                "{error:?}"
            );
            assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn ids_differ_unless_they_are_given_and_payloads_are_not_shown() {
        let one = Instance::builder("a", "secret").build().unwrap();
        let two = Instance::builder("a", "secret").build().unwrap();
        assert_ne!(one.id(), two.id());
        assert!(!format!("{one:?}").contains("secret"));
    }

    #[test]
    fn a_registration_time_is_kept_to_the_millisecond() {
        for millis in [-1_500, 0, 1_700_000_000_123] {
            let distance = Duration::from_millis(u64::try_from(i64::abs(millis)).unwrap());
            let time = if millis < 0 {
                SystemTime::UNIX_EPOCH - distance
            } else {
                SystemTime::UNIX_EPOCH + distance
            };
            let built = Instance::builder("a", ()).registration_time(time).build();
            let built = built.unwrap();
            assert_eq!(built.registered, Some(millis));
            assert_eq!(built.registration_time(), Some(time));
        }
    }

    #[test]
    fn patterns_are_filled_in_and_what_is_missing_makes_no_uri() {
        let spec = UriSpec::parse("{scheme}://{address}:{ssl-port}/{name}?{ id }").unwrap();
        let instance = || Instance::builder("orders", ()).id("one").address("::1");
        let without = instance().build().unwrap();
        assert_eq!(spec.of(&without), None);
        let with = instance().ssl_port(443).build().unwrap();
        assert_eq!(spec.of(&with).unwrap(), "https://::1:443/orders?one");
        assert_eq!(UriSpec::parse("{what}").unwrap().of(&with), None);
        assert_eq!(UriSpec::parse("").unwrap().of(&with).unwrap(), "");
    }
}
