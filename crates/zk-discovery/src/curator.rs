//! The layout of Curator's service discovery.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use zk_core::codec::{Codec, DecodeError, DecodeErrorKind, EncodeError, Json};
use zk_core::{NodePath, ParsePathError};

use crate::instance::{Instance, ServiceType, check_name};
use crate::layout::{BadEntry, Entry, Format, Layout, ReadFormat};
use crate::uri::{Part, UriSpec};

/// The layout of Curator's service discovery: `<base>/<service>/<id>`, with JSON in it.
///
/// The JSON has Curator's keys in Curator's order, and nulls for what is missing:
///
/// ```json
/// {"name":"orders","id":"orders-1","address":"10.0.0.7","port":8080,"sslPort":null,"payload":null,"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null}
/// ```
///
/// - Unknown keys are ignored, as Curator does. An update rewrites the node without them.
/// - `enabled` is written only if false, and read if present. Curator in its default, compatible mode does not write
///   it: an instance that a Java service disabled appears enabled to all readers, and an instance that Java rewrites is
///   enabled again. An instance disabled here is disabled for Java as well.
/// - `@class` of a payload is ignored when read. It is written first in an object payload if
///   [`with_payload_class`](Self::with_payload_class) is set. Curator needs it to decode a payload as more than a map.
/// - A missing or null registration time is read as `None`, and `None` is written as 0.
/// - Payloads that are strings, floating-point numbers, booleans or null are the same for Java. Java writes and expects
///   other numbers and lists with their class around them: put them into an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Curator {
    payload_class: Option<String>,
}

impl Curator {
    /// Creates the layout without a payload class.
    pub const fn new() -> Self {
        Self {
            payload_class: None,
        }
    }

    /// Sets the Java class of object payloads; default none.
    #[must_use]
    pub fn with_payload_class(mut self, class: impl Into<String>) -> Self {
        self.payload_class = Some(class.into());
        self
    }

    /// Encodes a payload, with its class if it is an object.
    fn payload<P: Serialize>(&self, payload: &P) -> Result<Box<RawValue>, EncodeError> {
        let failed =
            |error: serde_json::Error| EncodeError::new(FORMAT, format!("payload: {error}"));
        let mut text = serde_json::to_string(payload).map_err(failed)?;
        if let (Some(class), Some(fields)) = (&self.payload_class, text.strip_prefix('{')) {
            let class = serde_json::to_string(class).map_err(failed)?;
            let comma = if fields == "}" { "" } else { "," };
            text = format!("{{\"{CLASS}\":{class}{comma}{fields}");
        }
        RawValue::from_string(text).map_err(failed)
    }
}

impl Layout for Curator {
    fn parent(&self, base: &NodePath, service: &str) -> Result<NodePath, ParsePathError> {
        base.join(service)
    }

    fn service(&self, child: &str) -> Option<String> {
        Some(child.to_owned())
    }
}

impl<P: Serialize + DeserializeOwned> Format<P> for Curator {
    fn encode(&self, instance: &Instance<P>) -> Result<Entry, EncodeError> {
        let wire = Written {
            name: &instance.name,
            id: &instance.id,
            address: instance.address.as_deref(),
            port: instance.port,
            ssl_port: instance.ssl_port,
            payload: self.payload(&instance.payload)?,
            registration_time_utc: instance.registered.unwrap_or_default(),
            service_type: instance.service_type.as_str(),
            uri_spec: instance.uri_spec.as_ref().map(WireSpec::from),
            enabled: (!instance.is_enabled).then_some(false),
        };
        let data = serde_json::to_vec(&wire)
            .map_err(|error| EncodeError::new(FORMAT, error.to_string()))?;
        Ok(Entry {
            name: instance.id.clone(),
            data,
        })
    }
}

impl<P: DeserializeOwned> ReadFormat<P> for Curator {
    fn decode(&self, service: &str, node: &str, data: &[u8]) -> Result<Instance<P>, BadEntry> {
        let read: Read = Json.decode(data)?;
        if read.name != service {
            return Err(BadEntry::OtherService {
                found: read.name,
                expected: service.to_owned(),
            });
        }
        let service_type = match &read.service_type {
            None => ServiceType::Dynamic,
            Some(word) => ServiceType::parse(word)
                .ok_or_else(|| shape(format!("there is no service type {word:?}")))?,
        };
        let is_its_node = match service_type {
            // The server has appended a number.
            ServiceType::DynamicSequential => {
                node.strip_prefix(&read.id).is_some_and(is_sequence_number)
            }
            _ => node == read.id,
        };
        if !is_its_node {
            return Err(BadEntry::OtherId {
                found: read.id,
                node: node.to_owned(),
            });
        }
        check_name(&read.id).map_err(|problem| shape(format!("id: {problem}")))?;
        Ok(Instance {
            payload: payload(read.payload.as_deref())?,
            name: read.name,
            id: read.id,
            address: read.address,
            port: read.port,
            ssl_port: read.ssl_port,
            registered: read.registration_time_utc,
            service_type,
            uri_spec: read.uri_spec.map(UriSpec::from),
            is_enabled: read.enabled.unwrap_or(true),
        })
    }
}

/// Whether a text is what a server appends to the name of a sequential node: ten digits, more behind a minus.
fn is_sequence_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads a payload; a class in it is Java's.
///
/// A type that has no room for anything, such as `()`, takes any payload: who follows a service with it wants none.
fn payload<P: DeserializeOwned>(raw: Option<&RawValue>) -> Result<P, DecodeError> {
    let text = raw.map_or("null", RawValue::get);
    let read = if text.starts_with('{') && text.contains(CLASS) {
        let mut value: serde_json::Value = Json.decode(text.as_bytes())?;
        if let Some(fields) = value.as_object_mut() {
            fields.remove(CLASS);
        }
        P::deserialize(value)
    } else {
        serde_json::from_str(text)
    };
    read.or_else(|error| match size_of::<P>() {
        0 => P::deserialize(serde_json::Value::Null).map_err(|_| error),
        _ => Err(error),
    })
    .map_err(|error| shape(format!("payload: {error}")))
}

fn shape(message: impl fmt::Display) -> DecodeError {
    DecodeError::new(FORMAT, DecodeErrorKind::Shape, message.to_string())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    name: &'a str,
    id: &'a str,
    address: Option<&'a str>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    payload: Box<RawValue>,
    #[serde(rename = "registrationTimeUTC")]
    registration_time_utc: i64,
    service_type: &'a str,
    uri_spec: Option<WireSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    name: String,
    id: String,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    payload: Option<Box<RawValue>>,
    #[serde(rename = "registrationTimeUTC")]
    registration_time_utc: Option<i64>,
    service_type: Option<String>,
    uri_spec: Option<WireSpec>,
    enabled: Option<bool>,
}

#[derive(Serialize, Deserialize)]
struct WireSpec {
    parts: Vec<WirePart>,
}

#[derive(Serialize, Deserialize)]
struct WirePart {
    value: String,
    variable: bool,
}

impl From<&UriSpec> for WireSpec {
    fn from(spec: &UriSpec) -> Self {
        let parts = spec.parts.iter().map(|part| WirePart {
            value: part.value.clone(),
            variable: part.is_variable,
        });
        Self {
            parts: parts.collect(),
        }
    }
}

impl From<WireSpec> for UriSpec {
    fn from(spec: WireSpec) -> Self {
        let parts = spec.parts.into_iter().map(|part| Part {
            value: part.value,
            is_variable: part.variable,
        });
        Self {
            parts: parts.collect(),
        }
    }
}

const FORMAT: &str = "JSON";
const CLASS: &str = "@class";

#[cfg(test)]
mod tests;
