//! Shows the data of a node as a person reads it: text, JSON with indentation, what gzip has packed, or hexadecimal.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;
use std::io::Read as _;

use flate2::read::GzDecoder;

/// What data looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Decoding {
    /// What fits the data
    Auto,
    /// JSON, with indentation
    Json,
    /// TOML, checked
    Toml,
    /// What gzip has packed, then as `auto`
    Gzip,
    /// Bytes in hexadecimal digits
    Hex,
}

/// Decodes data into text that a terminal can show.
///
/// # Errors
///
/// If the data is not of the kind that was asked for; the text says why.
pub(crate) fn decode(data: &[u8], decoding: Decoding) -> Result<String, String> {
    match decoding {
        Decoding::Auto => Ok(automatic(data)),
        Decoding::Json => json(data).ok_or_else(|| "the data is not JSON".to_owned()),
        Decoding::Toml => toml(data),
        Decoding::Gzip => {
            let (unpacked, is_whole) = unpack(data)?;
            Ok(format!("{}{}", automatic(&unpacked), rest_of(is_whole)))
        }
        Decoding::Hex => Ok(hex(data)),
    }
}

fn automatic(data: &[u8]) -> String {
    if data.starts_with(GZIP)
        && let Ok((unpacked, is_whole)) = unpack(data)
    {
        // Packed once: what is packed again is shown as it is.
        return format!("{}{}", unpacked_text(&unpacked), rest_of(is_whole));
    }
    unpacked_text(data)
}

fn unpacked_text(data: &[u8]) -> String {
    json(data)
        .or_else(|| plain(data))
        .unwrap_or_else(|| hex(data))
}

/// Indents JSON objects and lists, and leaves everything in them as it is; other JSON is text that stays as it is.
fn json(data: &[u8]) -> Option<String> {
    let _: serde::de::IgnoredAny = serde_json::from_slice(data).ok()?;
    let text = str::from_utf8(data).ok()?.trim();
    text.starts_with(['{', '[']).then(|| indented(text))
}

/// Indents valid JSON.
fn indented(json: &str) -> String {
    let (mut indented, mut depth) = (String::new(), 0);
    let (mut is_string, mut is_escaped) = (false, false);
    let mut rest = json.chars().peekable();
    while let Some(c) = rest.next() {
        if is_string {
            indented.push(c);
            is_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                indented.push(c);
                while rest.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = rest.next_if(|c| matches!(c, '}' | ']')) {
                    indented.push(end);
                } else {
                    depth += 1;
                    break_line(&mut indented, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                break_line(&mut indented, depth);
                indented.push(c);
            }
            ',' => {
                indented.push(c);
                break_line(&mut indented, depth);
            }
            ':' => indented.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => {
                indented.push(c);
                is_string = c == '"';
            }
        }
    }
    indented
}

/// Very deep values are indented no further, so that short data stays short.
fn break_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth.min(MOST_INDENTED)));
}

fn toml(data: &[u8]) -> Result<String, String> {
    let text = plain(data).ok_or("the data is not text, so it is not TOML")?;
    let checked: Result<toml::Table, _> = text.parse();
    checked
        .map(|_| text)
        .map_err(|error| format!("the data is not TOML: {}", error.message()))
}

/// Returns text that has no control characters besides tabs and line breaks.
fn plain(data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(data).ok()?;
    let is_plain = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    text.chars().all(is_plain).then(|| text.to_owned())
}

/// Unpacks at most [`MOST_UNPACKED`] bytes, and returns whether those are all.
fn unpack(data: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut unpacked = Vec::new();
    let mut bounded = GzDecoder::new(data).take(MOST_UNPACKED + 1);
    bounded
        .read_to_end(&mut unpacked)
        .map_err(|error| format!("the data is not of gzip: {error}"))?;
    let is_whole = unpacked.len() as u64 <= MOST_UNPACKED;
    if !is_whole {
        unpacked.pop();
    }
    Ok((unpacked, is_whole))
}

fn rest_of(is_whole: bool) -> String {
    if is_whole {
        String::new()
    } else {
        format!("\n… the rest is left out: only the first {MOST_UNPACKED} bytes are unpacked")
    }
}

/// Sixteen bytes a line: where they are, their digits, and the printable ones as text.
fn hex(data: &[u8]) -> String {
    let mut lines = Vec::new();
    for (at, bytes) in data.chunks(16).enumerate() {
        let mut digits = String::new();
        for byte in bytes {
            write!(digits, "{byte:02x} ").expect("a text can always be appended");
        }
        let text = bytes.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        });
        lines.push(format!(
            "{:08x}  {digits:48} |{}|",
            at * 16,
            text.collect::<String>()
        ));
    }
    lines.join("\n")
}

const GZIP: &[u8] = &[0x1f, 0x8b];
/// How many levels of JSON are indented.
const MOST_INDENTED: usize = 32;
/// Data of a node may unpack to a thousand times its length.
const MOST_UNPACKED: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn data_is_shown_as_what_it_is() {
        let packed = gzip(br#"{"a":[1]}"#);
        for (data, expected) in [
            (&b""[..], ""),
            (b"plain \xc3\xa9\n", "plain é\n"),
            (b"x = 1\n[t]\n", "x = 1\n[t]\n"),
            (
                br#"{"b":1,"a":[true]}"#,
                "{\n  \"b\": 1,\n  \"a\": [\n    true\n  ]\n}",
            ),
            (b" [ ] ", "[]"),
            (
                br#"{"x": 123456789012345678901234567890, "s":"a\\\",{" }"#,
                "{\n  \"x\": 123456789012345678901234567890,\n  \"s\": \"a\\\\\\\",{\"\n}",
            ),
            (b"7", "7"),
            (&packed, "{\n  \"a\": [\n    1\n  ]\n}"),
            (
                b"\x1f\x8bno",
                "00000000  1f 8b 6e 6f                                      |..no|",
            ),
            (
                b"\x1b[2J",
                "00000000  1b 5b 32 4a                                      |.[2J|",
            ),
        ] {
            assert_eq!(decode(data, Decoding::Auto).unwrap(), expected);
        }
        assert!(
            decode(&[0; 17], Decoding::Hex)
                .unwrap()
                .contains("\n00000010  00 ")
        );
    }

    #[test]
    fn what_is_not_of_the_wanted_kind_is_refused() {
        for (data, decoding, expected) in [
            (&b"{"[..], Decoding::Json, "not JSON"),
            (b"a =", Decoding::Toml, "not TOML"),
            (b"\xff", Decoding::Toml, "not text"),
            (b"a", Decoding::Gzip, "not of gzip"),
            (b"\x1f\x8b", Decoding::Gzip, "not of gzip"),
        ] {
            let problem = decode(data, decoding).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
        assert_eq!(decode(b"a = 1", Decoding::Toml).unwrap(), "a = 1");
    }

    #[test]
    fn a_decompression_bomb_is_not_unpacked() {
        let bomb = gzip(&vec![b'a'; 64 << 20]);
        assert!(bomb.len() < 100_000);
        for decoding in [Decoding::Auto, Decoding::Gzip] {
            let text = decode(&bomb, decoding).unwrap();
            assert!(text.len() < (1 << 20) + 200, "{}", text.len());
            assert!(text.contains("the rest is left out"));
        }
        let nested = gzip(&gzip(b"inner"));
        assert!(
            decode(&nested, Decoding::Auto)
                .unwrap()
                .starts_with("00000000  1f 8b")
        );
    }

    #[test]
    fn deep_json_does_not_become_long() {
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(decode(deep.as_bytes(), Decoding::Auto).unwrap().len() < 100 * 150);
    }

    proptest! {
        #[test]
        fn no_data_reaches_the_terminal_as_control_characters(
            data in prop_oneof![
                any::<Vec<u8>>(),
                r"[\x00-\x1fa\[\x7f-\x9f]{1,8}".prop_map(String::into_bytes),
            ],
        ) {
            let text = decode(&data, Decoding::Auto).unwrap();
            prop_assert!(text.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control()));
        }
    }
}
