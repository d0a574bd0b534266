//! A node and everything below it, read as one value.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use zk_core::NodePath;

/// A node and everything below it, as they were together at one moment.
///
/// A node is named by its path relative to the root of the subtree: `host`, `pool/size`. The name of the root is empty.
/// Histories are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtree {
    root: NodePath,
    nodes: BTreeMap<String, Vec<u8>>,
}

impl Subtree {
    pub(crate) fn new<'a>(
        root: NodePath,
        nodes: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        let skipped = if root.is_root() {
            1
        } else {
            root.as_str().len() + 1
        };
        let nodes = nodes.into_iter().map(|(path, data)| {
            let name = path.get(skipped..).unwrap_or_default();
            (name.to_owned(), data.to_vec())
        });
        Self {
            nodes: nodes.collect(),
            root,
        }
    }

    /// Returns the path of the root.
    pub fn root(&self) -> &NodePath {
        &self.root
    }

    /// Returns whether there are no nodes, not even the root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the data of a node.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.nodes.get(name).map(Vec::as_slice)
    }

    /// Returns all nodes with their data, ordered by name, the root first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.nodes
            .iter()
            .map(|(name, data)| (name.as_str(), data.as_slice()))
    }
}

#[cfg(feature = "layers")]
mod deserialize {
    use config::Map;
    use config::Value;
    use config::ValueKind;
    use serde::de::DeserializeOwned;
    use zk_core::codec::Codec as _;
    use zk_core::codec::DecodeError;
    use zk_core::codec::DecodeErrorKind;
    use zk_core::codec::Text;

    use super::Subtree;

    impl Subtree {
        /// Deserialises the subtree: a node with children is a table or structure, one without is a text.
        ///
        /// Texts are converted to numbers and booleans where the type needs them.
        /// A node with children must have no data. A node without data and children is an empty text.
        ///
        /// # Errors
        ///
        /// If a text is not UTF-8, a node has both children and data, a node is more than 128 levels below the root, or
        /// the subtree does not match the type. The message names the node.
        pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
            if let Some(deep) = self.nodes.keys().find(|name| depth(name) > MAX_LEVELS) {
                let message = format!(
                    "the node {deep:?} is {} levels below the root; at most {MAX_LEVELS} can be read",
                    depth(deep)
                );
                return Err(DecodeError::new(FORMAT, DecodeErrorKind::Shape, message));
            }
            let value = if self.is_empty() {
                Value::new(None, ValueKind::Table(Map::new()))
            } else {
                self.value("")?
            };
            value.try_deserialize().map_err(|error| {
                DecodeError::new(FORMAT, DecodeErrorKind::Shape, error.to_string())
            })
        }

        fn value(&self, name: &str) -> Result<Value, DecodeError> {
            let data = self.get(name).unwrap_or_default();
            let prefix = if name.is_empty() {
                String::new()
            } else {
                format!("{name}/")
            };
            let mut table = Map::new();
            for (child, _) in self.nodes.range(prefix.clone()..) {
                let Some(last) = child.strip_prefix(&prefix) else {
                    break;
                };
                if !last.is_empty() && !last.contains('/') {
                    table.insert(last.to_owned(), self.value(child)?);
                }
            }
            let origin = Some(format!("{}/{name}", self.root));
            if table.is_empty() && !name.is_empty() {
                let text = Text.decode(data).map_err(|error| {
                    let message = format!("in the node {name:?}: {}", error.message());
                    let named = DecodeError::new(error.format(), error.kind(), message);
                    match error.position() {
                        Some(position) => named.at(position),
                        None => named,
                    }
                })?;
                return Ok(Value::new(origin.as_ref(), text));
            }
            if data.is_empty() {
                return Ok(Value::new(origin.as_ref(), ValueKind::Table(table)));
            }
            let message = format!("the node {name:?} has both children and data; clear its data");
            Err(DecodeError::new(FORMAT, DecodeErrorKind::Shape, message))
        }
    }

    /// Counts the levels from the root of the subtree down to a node.
    fn depth(name: &str) -> usize {
        match name {
            "" => 0,
            name => 1 + name.matches('/').count(),
        }
    }

    const FORMAT: &str = "a subtree of texts";
    /// A value is visited, compared and dropped recursively, so that a deep one would overflow the stack.
    const MAX_LEVELS: usize = 128;
}

#[cfg(all(test, feature = "layers"))]
mod tests;
