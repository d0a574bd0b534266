//! A node and everything below it, read as one value.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};

use zk_cache::Snapshot;
use zk_core::NodePath;

use crate::published::KeyChange;

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

    /// Takes the nodes of a snapshot.
    pub(crate) fn of_snapshot(snapshot: &Snapshot) -> Self {
        let nodes = snapshot.nodes();
        let nodes = nodes.filter_map(|node| Some((node.path(), node.data()?)));
        Self::new(snapshot.path().clone(), nodes)
    }

    /// Takes nodes by their names.
    pub(crate) const fn of_names(root: NodePath, nodes: BTreeMap<String, Vec<u8>>) -> Self {
        Self { root, nodes }
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

    /// Returns the nodes that differ from those of an older state, ordered by name: a node is
    /// [created](KeyChange::Created), [removed](KeyChange::Removed), or its data is [replaced](KeyChange::Replaced).
    ///
    /// Only the data is compared: a node that was deleted and created again with the same data is not returned.
    ///
    /// [`Current::subtree`](crate::Current::subtree) returns the nodes of a value, so that two values of a
    /// [`Typed`](crate::Typed) can be compared:
    ///
    /// ```no_run
    /// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_config::Typed;
    ///
    /// let mut pools = Typed::subtree("/app/pools", |nodes| Ok(nodes.iter().count()))?.build();
    /// let _following = pools.follow(&session);
    /// let mut before = pools.changed().await;
    /// loop {
    ///     let now = pools.changed().await;
    ///     if let (Some(now), Some(before)) = (now.subtree(), before.subtree()) {
    ///         for (name, change) in now.changes_since(before) {
    ///             println!("{name:?}: {change:?}");
    ///         }
    ///     }
    ///     before = now;
    /// }
    /// # }
    /// ```
    pub fn changes_since<'a>(
        &'a self,
        older: &'a Self,
    ) -> impl Iterator<Item = (&'a str, KeyChange)> {
        let names: BTreeSet<&str> = self
            .nodes
            .keys()
            .chain(older.nodes.keys())
            .map(String::as_str)
            .collect();
        names.into_iter().filter_map(|name| {
            let change = match (older.get(name), self.get(name)) {
                (None, Some(_)) => KeyChange::Created,
                (Some(_), None) => KeyChange::Removed,
                (older, newer) if older == newer => return None,
                _ => KeyChange::Replaced,
            };
            Some((name, change))
        })
    }
}

#[cfg(feature = "layers")]
pub(crate) mod deserialize {
    use config::{Map, Value, ValueKind};
    use serde::de::DeserializeOwned;
    use zk_core::codec::{Codec as _, DecodeError, DecodeErrorKind, Text};

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
            self.check_depth()?;
            let value = if self.is_empty() {
                Value::new(None, ValueKind::Table(Map::new()))
            } else {
                self.value("")?
            };
            value.try_deserialize().map_err(|error| {
                DecodeError::new(FORMAT, DecodeErrorKind::Shape, error.to_string())
            })
        }

        /// Returns the nodes below a node as a table, whatever data that node has.
        pub(crate) fn table_below(&self, name: &str) -> Result<Map<String, Value>, DecodeError> {
            self.check_depth()?;
            self.children(name)
        }

        fn check_depth(&self) -> Result<(), DecodeError> {
            let Some(deep) = self.nodes.keys().find(|name| depth(name) > MAX_LEVELS) else {
                return Ok(());
            };
            let message = format!(
                "the node {deep:?} is {} levels below the root; at most {MAX_LEVELS} can be read",
                depth(deep)
            );
            Err(DecodeError::new(FORMAT, DecodeErrorKind::Shape, message))
        }

        fn children(&self, name: &str) -> Result<Map<String, Value>, DecodeError> {
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
            Ok(table)
        }

        fn value(&self, name: &str) -> Result<Value, DecodeError> {
            let data = self.get(name).unwrap_or_default();
            let table = self.children(name)?;
            let origin = Some(format!("{}/{name}", self.root));
            if table.is_empty() && !name.is_empty() {
                let text = Text.decode(data);
                let text = text.map_err(|error| in_node(name, &error))?;
                return Ok(Value::new(origin.as_ref(), text));
            }
            if data.is_empty() {
                return Ok(Value::new(origin.as_ref(), ValueKind::Table(table)));
            }
            let message = format!("the node {name:?} has both children and data; clear its data");
            Err(DecodeError::new(FORMAT, DecodeErrorKind::Shape, message))
        }
    }

    /// Adds the name of a node to the error about its data.
    pub(crate) fn in_node(name: &str, error: &DecodeError) -> DecodeError {
        let message = format!("in the node {name:?}: {}", error.message());
        let named = DecodeError::new(error.format(), error.kind(), message);
        match error.position() {
            Some(position) => named.at(position),
            None => named,
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
