//! Merges several sources into one value: defaults, a file, ZooKeeper and the environment.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use config::{Config, ConfigError, Environment, Map, Source, Value, ValueKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zk_core::codec::{Codec, DecodeError, DecodeErrorKind, Toml};
use zk_core::{IntoNodePath, ParsePathError};

use crate::snapshot_check::Extent;
use crate::subtree::Subtree;
use crate::subtree::deserialize::in_node;
use crate::typed::{Typed, TypedBuilder};

mod profiles;

pub use profiles::Profiles;

/// Layers around a TOML document in ZooKeeper, merged key by key by the crate [`config`]: defaults, then a file, then
/// ZooKeeper, then the environment. Each overrides those before it.
///
/// The file and the environment are read once, when they are added. Only ZooKeeper is followed.
/// Without a node the value is made from the other layers.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use serde::{Deserialize, Serialize};
/// use zk_config::Layers;
///
/// #[derive(Serialize, Deserialize)]
/// struct Pool {
///     size: u16,
///     host: String,
/// }
///
/// let defaults = Pool { size: 8, host: "localhost".to_owned() };
/// let pool = Layers::new()
///     .defaults(&defaults)?
///     .file("/etc/app/pool.toml")?
///     .environment("APP")?
///     .around::<Pool>("/app/pool")?
///     .build();
/// let _following = pool.follow(&session);
/// println!("{}", pool.ready().await.size);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "layers do nothing until they are put around a node"]
pub struct Layers {
    below: Vec<Layer>,
    above: Vec<Environment>,
}

/// A layer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The defaults are not a table.
    #[error("the defaults are not a table of named values: {0}")]
    Defaults(String),
    /// The file cannot be read.
    #[error("the file {path} cannot be read; leave the layer out if there is none")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A variable is not UTF-8.
    #[error("the environment variable {variable} is not UTF-8; correct or remove it")]
    NotUtf8 {
        /// Its name.
        variable: String,
    },
    /// The file is not TOML.
    #[error("the file {path}")]
    Invalid {
        /// The file.
        path: String,
        /// The error and its position.
        source: DecodeError,
    },
}

impl Layers {
    /// Starts with ZooKeeper as the only layer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a structure below ZooKeeper and above the layers added before.
    ///
    /// # Errors
    ///
    /// If it is not a structure or map.
    pub fn defaults(mut self, defaults: &impl Serialize) -> Result<Self, LayerError> {
        let table = toml::Table::try_from(defaults);
        let table = table.map_err(|error| LayerError::Defaults(error.to_string()))?;
        self.below.push(Layer::of(table));
        Ok(self)
    }

    /// Reads a TOML file and adds it below ZooKeeper and above the layers added before.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not TOML.
    pub fn file(mut self, path: impl AsRef<Path>) -> Result<Self, LayerError> {
        let name = || path.as_ref().display().to_string();
        let data = std::fs::read(&path).map_err(|source| LayerError::Unreadable {
            path: name(),
            source,
        })?;
        if !data.is_empty() {
            let layer = document(&data).map_err(|source| LayerError::Invalid {
                path: name(),
                source,
            })?;
            self.below.push(layer);
        }
        Ok(self)
    }

    /// Reads the environment variables whose names begin with `prefix` and `_`, and adds them above ZooKeeper.
    /// `APP_POOL__SIZE` is the key `pool.size`. Other variables are ignored.
    ///
    /// Their values are texts, and are converted to numbers and booleans where the type needs them: `00123` is 123 as a
    /// `u32` and `00123` as a `String`.
    /// A type that does not request a certain type receives the text: an untagged enumeration, a flattened structure.
    ///
    /// # Errors
    ///
    /// If one of them is not UTF-8.
    pub fn environment(self, prefix: &str) -> Result<Self, LayerError> {
        let pattern = format!("{prefix}_").to_lowercase();
        let mut variables = HashMap::new();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if !name.to_lowercase().starts_with(&pattern) {
                continue;
            }
            let Some(value) = value.to_str() else {
                return Err(LayerError::NotUtf8 { variable: name });
            };
            variables.insert(name, value.to_owned());
        }
        Ok(self.variables(prefix, variables))
    }

    /// Adds the given variables as [`environment`](Self::environment) adds those of the process.
    pub fn variables(mut self, prefix: &str, variables: HashMap<String, String>) -> Self {
        let layer = Environment::with_prefix(prefix)
            .prefix_separator("_")
            .separator("__")
            .source(Some(variables));
        self.above.push(layer);
        self
    }

    /// Puts the layers around the TOML document at a path.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn around<T>(self, path: impl IntoNodePath) -> Result<TypedBuilder<T>, ParsePathError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        Typed::decoded_by(path, move |data| Some(self.merged(data)))
    }

    /// Puts the layers around the nodes of an application's [`Profiles`] below `parent`, which are merged key by key into
    /// one value: the keys that all applications share, then those of the application, each without and with profiles.
    ///
    /// Each of these nodes is a TOML document, or a subtree with one key in each node, as
    /// [`Subtree::deserialize`](crate::Subtree::deserialize) reads it. If it is both, the subtree overrides the document.
    /// A node that does not exist has no keys. The data of `parent` itself is not used.
    ///
    /// All nodes are read as of one moment, as by [`Typed::subtree`]. Nodes of other applications are not read.
    ///
    /// # Errors
    ///
    /// If `parent` or the path of one of the nodes is not a valid node path.
    ///
    /// # Cost
    ///
    /// That of [`Typed::subtree`] for these nodes. The names of all children of `parent` are listed when one is created or
    /// deleted and another key changes, and each change of another application costs a notification.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// use serde::Deserialize;
    /// use zk_config::{Layers, Profiles};
    ///
    /// #[derive(Deserialize)]
    /// struct Pool {
    ///     size: u16,
    ///     host: String,
    /// }
    ///
    /// // /config/application, /config/application,production, /config/orders, /config/orders,production
    /// let profiles = Profiles::of("orders").with_profile("production");
    /// let pool = Layers::new().around_profiles::<Pool>("/config", &profiles)?.build();
    /// let _following = pool.follow(&session);
    /// println!("{}", pool.ready().await.size);
    /// # Ok(())
    /// # }
    /// ```
    pub fn around_profiles<T>(
        self,
        parent: impl IntoNodePath,
        profiles: &Profiles,
    ) -> Result<TypedBuilder<T>, ParsePathError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let parent = parent.into_node_path()?;
        let names: Arc<[String]> = profiles.names().collect();
        for name in &*names {
            parent.join(name)?;
        }
        let extent = Extent::Children(Arc::clone(&names));
        let decode = move |nodes: &Subtree| {
            let layers = layers_of(nodes, &names);
            Some(layers.and_then(|layers| self.merge(layers)))
        };
        Ok(TypedBuilder::new(parent, extent, decode))
    }

    /// Merges the layers, with the data of the node if there is one.
    fn merged<T: DeserializeOwned>(&self, data: Option<&[u8]>) -> Result<T, DecodeError> {
        let layers = data.map(document).transpose()?;
        self.merge(layers.into_iter().collect())
    }

    /// Merges the layers, with those of ZooKeeper.
    fn merge<T: DeserializeOwned>(&self, from_zookeeper: Vec<Layer>) -> Result<T, DecodeError> {
        let wrong = |error: ConfigError| {
            DecodeError::new(FORMAT, DecodeErrorKind::Shape, error.to_string())
        };
        let mut layers = Config::builder();
        for layer in self.below.iter().cloned().chain(from_zookeeper) {
            layers = layers.add_source(layer);
        }
        for layer in &self.above {
            layers = layers.add_source(layer.clone());
        }
        let merged = layers.build().map_err(wrong)?;
        merged.try_deserialize().map_err(wrong)
    }
}

/// Parses a TOML document as a layer.
fn document(data: &[u8]) -> Result<Layer, DecodeError> {
    Ok(Layer::of(Toml.decode(data)?))
}

/// Returns the layers of profiles: of each node its document, and above it its subtree.
fn layers_of(nodes: &Subtree, names: &[String]) -> Result<Vec<Layer>, DecodeError> {
    let mut layers = Vec::new();
    for name in names {
        let data = nodes.get(name).unwrap_or_default();
        if !data.is_empty() {
            layers.push(document(data).map_err(|error| in_node(name, &error))?);
        }
        layers.push(Layer(nodes.table_below(name)?));
    }
    Ok(layers)
}

/// A table taken literally: an empty list overrides a full one, and a key with dots is one key.
#[derive(Debug, Clone)]
struct Layer(Map<String, Value>);

impl Layer {
    fn of(table: toml::Table) -> Self {
        Self(map_of(table))
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }

    fn collect_to(&self, cache: &mut Value) -> Result<(), ConfigError> {
        // Not `Source::collect_to` of the crate, which takes a key with dots for a path.
        merge(cache, Value::new(None, ValueKind::Table(self.0.clone())));
        Ok(())
    }
}

/// Merges a value over another one: tables key by key, everything else as a whole.
fn merge(below: &mut Value, above: Value) {
    match (&mut below.kind, above.kind) {
        (ValueKind::Table(below), ValueKind::Table(above)) => {
            for (key, value) in above {
                match below.get_mut(&key) {
                    Some(below) => merge(below, value),
                    None => drop(below.insert(key, value)),
                }
            }
        }
        (kind, above) => *kind = above,
    }
}

fn map_of(table: toml::Table) -> Map<String, Value> {
    let entries = table.into_iter();
    entries.map(|(key, value)| (key, value_of(value))).collect()
}

fn value_of(value: toml::Value) -> Value {
    let kind = match value {
        toml::Value::String(text) => ValueKind::String(text),
        toml::Value::Integer(number) => ValueKind::I64(number),
        toml::Value::Float(number) => ValueKind::Float(number),
        toml::Value::Boolean(flag) => ValueKind::Boolean(flag),
        toml::Value::Datetime(time) => ValueKind::String(time.to_string()),
        toml::Value::Array(values) => ValueKind::Array(values.into_iter().map(value_of).collect()),
        toml::Value::Table(table) => ValueKind::Table(map_of(table)),
    };
    Value::new(None, kind)
}

const FORMAT: &str = "TOML in layers";

#[cfg(test)]
mod tests;
