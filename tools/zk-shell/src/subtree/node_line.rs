//! A node as one line of JSON, which is also what the checksum of a subtree covers in every format.
//!
//! Pure: no I/O and no clock.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zk_core::{Acl, AclEntry, Bytes};

use super::node::{RelativePath, SubtreeNode};
use crate::acl_text;

/// What the first line or entry says of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// The version of the format.
    #[serde(rename = "zk-subtree")]
    pub(crate) version: u32,
    /// The path that was exported.
    pub(crate) root: String,
}

/// What the last line or entry says of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trailer {
    pub(crate) nodes: u64,
    /// Of the lines of all nodes.
    pub(crate) sha256: String,
}

/// A node without its path, as it is beside the data in a directory or tar file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attributes {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    acl: Vec<AclLine>,
    #[serde(default, skip_serializing_if = "is_false")]
    ephemeral: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeLine {
    path: String,
    /// The data, if it is UTF-8 and not empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The data, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Left out if it is open to all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    acl: Vec<AclLine>,
    #[serde(default, skip_serializing_if = "is_false")]
    ephemeral: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AclLine {
    scheme: String,
    id: String,
    permissions: String,
}

impl Header {
    pub(crate) fn new(root: impl Into<String>) -> Self {
        Self {
            version: VERSION,
            root: root.into(),
        }
    }

    /// Parses a header of this version.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let header: Self = serde_json::from_slice(json)
            .map_err(|error| format!("it is no export of `zk`: {error}"))?;
        if header.version != VERSION {
            return Err(format!(
                "it has version {} of the format, and this program reads version {VERSION}; import it with the program that wrote it",
                header.version
            ));
        }
        Ok(header)
    }
}

impl Attributes {
    pub(crate) fn of(node: &SubtreeNode) -> Self {
        Self {
            acl: acl_lines(&node.acl),
            ephemeral: node.is_ephemeral,
        }
    }

    /// Whether they are those of a persistent node that is open to all.
    pub(crate) fn are_default(&self) -> bool {
        self.acl.is_empty() && !self.ephemeral
    }

    pub(crate) fn into_node(self, path: RelativePath, data: Bytes) -> Result<SubtreeNode, String> {
        Ok(SubtreeNode {
            path,
            data,
            acl: acl(self.acl)?,
            is_ephemeral: self.ephemeral,
        })
    }
}

/// Formats a node, without a line break at the end.
pub(crate) fn format_node(node: &SubtreeNode) -> String {
    let (text, base64) = match std::str::from_utf8(&node.data) {
        Ok("") => (None, None),
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(&node.data))),
    };
    to_json(&NodeLine {
        path: node.path.as_str().to_owned(),
        text,
        base64,
        acl: acl_lines(&node.acl),
        ephemeral: node.is_ephemeral,
    })
}

/// Parses the line of a node.
pub(crate) fn parse_node(line: &[u8]) -> Result<SubtreeNode, String> {
    let line: NodeLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let data = match (line.text, line.base64) {
        (None, None) => Bytes::new(),
        (Some(text), None) => Bytes::from(text.into_bytes()),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map_err(|error| format!("the data is not base64: {error}"))?
            .into(),
        (Some(_), Some(_)) => {
            return Err("the data is there twice, as text and as base64".to_owned());
        }
    };
    Ok(SubtreeNode {
        path: RelativePath::parse(&line.path).map_err(|error| error.to_string())?,
        data,
        acl: acl(line.acl)?,
        is_ephemeral: line.ephemeral,
    })
}

/// Formats a value whose fields are texts, numbers and lists of such.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers can be written as JSON")
}

fn acl_lines(acl: &Acl) -> Vec<AclLine> {
    if *acl == Acl::open() {
        return Vec::new();
    }
    let entries = acl.entries().iter().map(|entry| AclLine {
        scheme: entry.scheme().to_owned(),
        id: entry.id().to_owned(),
        permissions: entry.permissions().to_string(),
    });
    entries.collect()
}

fn acl(lines: Vec<AclLine>) -> Result<Acl, String> {
    if lines.is_empty() {
        return Ok(Acl::open());
    }
    let mut entries = Vec::with_capacity(lines.len());
    for line in lines {
        let permissions = acl_text::permissions(&line.permissions)?;
        entries.push(AclEntry::new(permissions, line.scheme, line.id));
    }
    Ok(Acl::new(entries))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_readable_and_says_how_data_is_encoded() {
        let node = |data: &'static [u8], acl| SubtreeNode {
            path: RelativePath::parse("a/b").unwrap(),
            data: Bytes::from_static(data),
            acl,
            is_ephemeral: false,
        };
        let cases = [
            (node(b"", Acl::open()), r#"{"path":"a/b"}"#),
            (
                node("x = \"é\"\n".as_bytes(), Acl::open()),
                r#"{"path":"a/b","text":"x = \"é\"\n"}"#,
            ),
            (
                node(b"\xff\0", Acl::open()),
                r#"{"path":"a/b","base64":"/wA="}"#,
            ),
            (
                node(b"", Acl::read_only()),
                r#"{"path":"a/b","acl":[{"scheme":"world","id":"anyone","permissions":"r"}]}"#,
            ),
        ];
        for (node, line) in cases {
            assert_eq!(format_node(&node), line);
            assert_eq!(parse_node(line.as_bytes()).unwrap(), node);
        }
    }

    #[test]
    fn lines_of_no_export_are_refused() {
        for line in [
            "",
            "{}",
            "null",
            r#"{"path":"../x"}"#,
            r#"{"path":"/x"}"#,
            r#"{"path":"x","text":"a","base64":"YQ=="}"#,
            r#"{"path":"x","base64":"?"}"#,
            r#"{"path":"x","more":1}"#,
            r#"{"path":"x","acl":[{"scheme":"world","id":"anyone","permissions":"rx"}]}"#,
            r#"{"path":"x"} {"path":"y"}"#,
        ] {
            assert!(parse_node(line.as_bytes()).is_err(), "{line}");
        }
        assert!(
            Header::parse(br#"{"zk-subtree":2,"root":"/"}"#)
                .unwrap_err()
                .contains("version 2")
        );
        assert!(Header::parse(b"{}").is_err());
    }
}
