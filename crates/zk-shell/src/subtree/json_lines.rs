//! A subtree as lines of JSON: a header, a line for each node, and a trailer with their number and checksum.

use std::io::BufRead;
use std::io::Read as _;
use std::io::Write;

use super::archive::MAX_DATA;
use super::archive::OnNode;
use super::check::Checker;
use super::check::Summary;
use super::format_error::FormatError;
use super::node::SubtreeNode;
use super::node_line::Header;
use super::node_line::Trailer;
use super::node_line::format_node;
use super::node_line::parse_node;
use super::node_line::to_json;
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
    let mut checker = Checker::default();
    loop {
        number += 1;
        let place = format!("line {number}");
        if !read_line(&mut file, &mut line, &place)? {
            return Err(FormatError::cut());
        }
        if let Ok(trailer) = serde_json::from_slice::<Trailer>(&line) {
            let summary = checker.finish(&trailer)?;
            let more = read_line(&mut file, &mut line, &place)? || !line.is_empty();
            if more {
                return Err(FormatError::new(
                    place,
                    "more follows after the end of the export",
                ));
            }
            return Ok((header, summary));
        }
        let node = parse_node(&line).map_err(|problem| FormatError::new(place.clone(), problem))?;
        checker.accept(&place, &node)?;
        on_node(node)?;
    }
}

/// Reads a line without its end; `false` if the file ends before one.
fn read_line(
    file: &mut impl BufRead,
    line: &mut Vec<u8>,
    place: &str,
) -> Result<bool, FormatError> {
    line.clear();
    let mut bounded = file.take(MAX_LINE + 1);
    bounded
        .read_until(b'\n', line)
        .map_err(|error| FormatError::io(place, &error))?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(true);
    }
    if line.len() as u64 > MAX_LINE {
        return Err(FormatError::new(
            place,
            format!("it is longer than {MAX_LINE} bytes, and no line of a node is"),
        ));
    }
    Ok(false)
}

/// Each byte of data takes at most six characters, as `\u0000`; paths and access rules take less than the data.
const MAX_LINE: u64 = 6 * MAX_DATA + (4 << 20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subtree::archive::tests::nodes;

    // covers: O4
    #[test]
    fn a_file_has_one_node_a_line() {
        let mut file = Vec::new();
        begin(&mut file, &Header::new("/app")).unwrap();
        let mut checker = Checker::default();
        for node in nodes(&[("", "x"), ("a", "é\u{1b}[2J")]) {
            checker.accept("", &node).unwrap();
            add(&mut file, &node).unwrap();
        }
        finish(&mut file, &checker.summary()).unwrap();
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
}
