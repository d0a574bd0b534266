//! The format of the file with the last good value: what it is of, and the data of the nodes.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use zk_core::NodePath;

use crate::snapshot_check::Extent;
use crate::subtree::Subtree;

/// What a file is of. A file of something else is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSubject {
    path: NodePath,
    kind: String,
}

/// A file cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormatError {
    Damaged(String),
    OtherSubject(String),
}

impl FileSubject {
    pub(crate) fn new(path: NodePath, extent: &Extent) -> Self {
        let kind = match extent {
            Extent::Node => "node".to_owned(),
            Extent::Subtree => "subtree".to_owned(),
            Extent::Children(names) => format!("profiles {}", names.join("/")),
        };
        Self { path, kind }
    }

    /// Writes a file: the lines of the header, and the nodes, each after the lengths of its name and of its data.
    pub(crate) fn encode(&self, revision: Option<i64>, nodes: &Subtree) -> Vec<u8> {
        let revision = revision.map_or_else(|| "none".to_owned(), |revision| revision.to_string());
        let Self { path, kind } = self;
        let count = nodes.iter().count();
        let mut body =
            format!("path {path}\nkind {kind}\nrevision {revision}\nnodes {count}\n").into_bytes();
        for (name, data) in nodes.iter() {
            body.extend(format!("{} {}\n", name.len(), data.len()).into_bytes());
            body.extend([name.as_bytes(), data, b"\n"].concat());
        }
        let header = format!("{FORMAT}\ncrc32 {:08x}\n", crc32fast::hash(&body));
        [header.as_bytes(), &body].concat()
    }

    /// Reads a file.
    pub(crate) fn decode(&self, data: &[u8]) -> Result<(Option<i64>, Subtree), FormatError> {
        let mut rest = Rest(data);
        let first = rest.line().unwrap_or_default();
        if first != FORMAT {
            let reason = format!("its first line must be {FORMAT:?}");
            return Err(FormatError::OtherSubject(reason));
        }
        let damaged = |reason: &str| FormatError::Damaged(reason.to_owned());
        let sum = rest.value_of("crc32");
        let sum = sum.and_then(|sum| u32::from_str_radix(sum, 16).ok());
        if sum != Some(crc32fast::hash(rest.0)) {
            return Err(damaged("the checksum does not match"));
        }
        for (name, expected) in [("path", self.path.as_str()), ("kind", &self.kind)] {
            let found = rest.value_of(name);
            let found = found.ok_or_else(|| damaged("a line of the header is missing"))?;
            if found != expected {
                let reason = format!("its {name} is {found:?}, and must be {expected:?}");
                return Err(FormatError::OtherSubject(reason));
            }
        }
        rest.content(self.path.clone())
            .ok_or_else(|| damaged("the nodes are incomplete"))
    }
}

/// The part of a file that is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn line(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line = self.bytes(end)?;
        self.bytes(1)?;
        str::from_utf8(line).ok()
    }

    fn value_of(&mut self, name: &str) -> Option<&'a str> {
        self.line()?.strip_prefix(name)?.strip_prefix(' ')
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn content(&mut self, root: NodePath) -> Option<(Option<i64>, Subtree)> {
        let revision = match self.value_of("revision")? {
            "none" => None,
            revision => Some(revision.parse().ok()?),
        };
        let count: usize = self.value_of("nodes")?.parse().ok()?;
        let mut nodes = BTreeMap::new();
        for _ in 0..count {
            let (name, data) = self.line()?.split_once(' ')?;
            let (name, data) = (name.parse().ok()?, data.parse().ok()?);
            let name = str::from_utf8(self.bytes(name)?).ok()?;
            nodes.insert(name.to_owned(), self.bytes(data)?.to_vec());
            self.bytes(1)?;
        }
        self.0
            .is_empty()
            .then(|| (revision, Subtree::of_names(root, nodes)))
    }
}

const FORMAT: &str = "zk-config value 1";

#[cfg(test)]
mod tests;
