//! A subtree as lines of JSON: a header, a line for each node, and a trailer with their number and checksum.

use std::io::{BufRead, Read as _, Write};

use super::archive::{MAX_DATA, OnNode};
use super::format_error::FormatError;
use super::node::SubtreeNode;
use super::node_line::{Header, Trailer, format_node, parse_node, to_json};
use super::validator::{Summary, Validator};
use crate::escape;

/// Writes the header.
pub(super) fn begin(file: &mut impl Write, header: &Header) -> std::io::Result<()> {
    writeln!(file, "{}", to_json(header))
}

/// Writes the line of a node.
pub(super) fn add(file: &mut impl Write, node: &SubtreeNode) -> std::io::Result<()> {
    // It may be written to a terminal.
    writeln!(file, "{}", escape::json(&format_node(node)))
}

/// Writes the trailer.
pub(super) fn finish(file: &mut impl Write, summary: &Summary) -> std::io::Result<()> {
    writeln!(file, "{}", to_json(&summary.trailer()))?;
    file.flush()
}

/// Reads the nodes of a file, and checks them up to its end.
pub(super) fn read(
    mut file: impl BufRead,
    on_node: OnNode<'_>,
) -> Result<(Header, Summary), FormatError> {
    let mut line = Vec::new();
    let mut number = 1;
    if !read_line(&mut file, &mut line, "line 1")? {
        return Err(FormatError::cut());
    }
    let header = Header::parse(&line).map_err(|problem| FormatError::new("line 1", problem))?;
    let mut validator = Validator::default();
    loop {
        number += 1;
        let location = format!("line {number}");
        if !read_line(&mut file, &mut line, &location)? {
            return Err(FormatError::cut());
        }
        if let Ok(trailer) = serde_json::from_slice::<Trailer>(&line) {
            let summary = validator.finish(&trailer)?;
            let more = read_line(&mut file, &mut line, &location)? || !line.is_empty();
            if more {
                return Err(FormatError::new(
                    location,
                    "more follows after the end of the export",
                ));
            }
            return Ok((header, summary));
        }
        let node =
            parse_node(&line).map_err(|problem| FormatError::new(location.clone(), problem))?;
        validator.accept(&location, &node)?;
        on_node(node)?;
    }
}

/// Reads a line without its end; `false` if the file ends before one.
fn read_line(
    file: &mut impl BufRead,
    line: &mut Vec<u8>,
    location: &str,
) -> Result<bool, FormatError> {
    line.clear();
    let mut bounded = file.take(MAX_LINE + 1);
    bounded
        .read_until(b'\n', line)
        .map_err(|error| FormatError::io(location, &error))?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(true);
    }
    if line.len() as u64 > MAX_LINE {
        return Err(FormatError::new(
            location,
            format!("it is longer than {MAX_LINE} bytes, and no line of a node is"),
        ));
    }
    Ok(false)
}

/// Each byte of data takes at most six characters, as `\u0000`; paths and access rules take less than the data.
const MAX_LINE: u64 = 6 * MAX_DATA + (4 << 20);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::subtree::archive::tests::nodes;

    #[test]
    fn a_file_has_one_node_a_line() {
        let mut file = Vec::new();
        begin(&mut file, &Header::new("/app")).unwrap();
        let mut validator = Validator::default();
        for node in nodes(&[("", "x"), ("a", "é\u{1b}[2J")]) {
            validator.accept("", &node).unwrap();
            add(&mut file, &node).unwrap();
        }
        finish(&mut file, &validator.summary()).unwrap();
        let text = String::from_utf8(file).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                r#"{"zk-subtree":1,"root":"/app"}"#,
                r#"{"path":"","text":"x"}"#,
                r#"{"path":"a","text":"é\u001b[2J"}"#,
            ]
        );
        assert!(lines[3].starts_with(r#"{"nodes":2,"sha256":""#), "{text}");
        let with_more = format!("{text}{{\"path\":\"b\"}}\n");
        let error = read(with_more.as_bytes(), &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("more follows"), "{error}");
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_in_memory() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let error = read(endless, &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
    }

    /// The value of a field: one that fits, one of another type, or none.
    fn field(fitting: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
        let others = prop::sample::select(vec![
            Value::Null,
            json!(true),
            json!(-1),
            json!([[]]),
            json!({"scheme": 1}),
            json!([{"scheme": "", "id": "", "permissions": "cdrwa", "more": 1}]),
        ]);
        prop_oneof![4 => fitting, 1 => others]
    }

    fn text(regex: &'static str) -> impl Strategy<Value = Value> {
        regex.prop_map(Value::from)
    }

    /// The line of a node in which anything may be wrong.
    fn line() -> impl Strategy<Value = String> {
        let acl = ("[a-z]{0,3}", ".{0,3}", "[cdrwax]{0,6}").prop_map(|(scheme, id, permissions)| {
            json!([{"scheme": scheme, "id": id, "permissions": permissions}])
        });
        let fields = (
            field(text("[a-z./\u{0}\u{e000}]{0,6}")),
            prop::option::of(field(text(".{0,6}"))),
            prop::option::of(field(text("[A-Za-z0-9+/]{0,6}={0,3}"))),
            prop::option::of(field(acl)),
            prop::option::of(field(any::<bool>().prop_map(Value::from))),
        );
        let lines = fields.prop_map(|(path, text, base64, acl, ephemeral)| {
            let fields = [
                ("path", Some(path)),
                ("text", text),
                ("base64", base64),
                ("acl", acl),
                ("ephemeral", ephemeral),
            ];
            let fields = fields
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?)));
            Value::Object(fields.collect()).to_string()
        });
        prop_oneof![8 => lines, 1 => any::<String>(), 1 => Just(r#"{"nodes":1,"sha256":""}"#.to_owned())]
    }

    proptest! {
        #[test]
        fn any_line_is_refused_or_written_as_it_was_read(lines in prop::collection::vec(line(), 0..6)) {
            for line in &lines {
                if let Ok(node) = parse_node(line.as_bytes()) {
                    let written = format_node(&node);
                    prop_assert_eq!(parse_node(written.as_bytes()), Ok(node));
                }
            }
            let file = format!("{}\n{}\n", to_json(&Header::new("/app")), lines.join("\n"));
            // No checksum is that of these lines.
            prop_assert!(read(file.as_bytes(), &mut |_| Ok(())).is_err());
        }
    }
}
