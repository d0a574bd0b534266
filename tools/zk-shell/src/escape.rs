//! Shows text that others have written without letting it control the terminal.
//!
//! Names of nodes, data and owners come from anyone who may write to the ensemble. A terminal acts upon control
//! characters, and characters that change the direction of text make a name look like another one.
//!
//! Pure: no I/O and no clock.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns text for one line: without line breaks, tabs, other control characters and invisible ones.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_risky(c) || c == '\n' || c == '\t')
}

/// Returns text for several lines: as [`line()`], but with line breaks and tabs.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    escaped(text, is_risky)
}

/// Returns bytes as [`block`] shows them; what is not UTF-8 as `\xff`.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&block(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a text cannot fail.
            _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Returns the same JSON document without characters that a terminal acts upon, or shows nothing for: `\u202e` stands for
/// one.
pub(crate) fn json(document: &str) -> Cow<'_, str> {
    // They are in strings only, and `serde_json` has escaped those before the space.
    if !document.contains(is_risky) {
        return Cow::Borrowed(document);
    }
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if is_risky(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a text cannot fail.
                _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Returns whether a terminal acts upon a character, or shows nothing for it: control characters, those that Unicode says
/// are ignored by default, and those that annotate text or are blank.
fn is_risky(c: char) -> bool {
    let is_line_or_tab = matches!(c, '\n' | '\t');
    (c.is_control() && !is_line_or_tab)
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_controls_a_terminal_is_left() {
        let hostile = "a\u{1b}[2Jb\u{7}c\rd\u{9b}31me\u{202e}f\u{200b}g\u{7f}";
        let shown = block(hostile);
        assert_eq!(
            shown,
            "a\\u{1b}[2Jb\\u{7}c\\rd\\u{9b}31me\\u{202e}f\\u{200b}g\\u{7f}"
        );
        for c in (0..=0x1f).chain(0x7f..=0x9f) {
            let c = char::from_u32(c).unwrap();
            assert_eq!(line(&c.to_string()), c.escape_default().to_string());
            let is_kept = matches!(c, '\n' | '\t');
            assert_eq!(block(&c.to_string()) == c.to_string(), is_kept);
        }
    }

    #[test]
    fn json_stays_the_same_document_without_what_controls_a_terminal() {
        let hostile = "größe\u{9b}31m\u{202e}\u{7f}\u{e0041}\u{1b}[2J👍";
        let document = serde_json::json!({ hostile: hostile });
        let shown = json(&document.to_string()).into_owned();
        assert!(!shown.contains(is_risky), "{shown:?}");
        assert!(
            shown.contains("größe\\u009b31m") && shown.contains("👍"),
            "{shown}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            document
        );
    }

    #[test]
    fn ordinary_text_is_shown_as_it_is() {
        for text in ["", "size=7", "größe", "日本語", "a\\b \"c\"", "👍"] {
            assert_eq!(line(text), text);
            assert_eq!(block(text), text);
            assert_eq!(bytes(text.as_bytes()), text);
        }
        assert_eq!(block("a\n\tb"), "a\n\tb");
        assert_eq!(line("a\n\tb"), "a\\n\\tb");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_in_hexadecimal() {
        assert_eq!(bytes(b"a\xffb\xc3"), "a\\xffb\\xc3");
        assert_eq!(bytes(b"\x1b[0m\x80"), "\\u{1b}[0m\\x80");
    }

    #[test]
    fn no_invisible_character_is_left() {
        // Unicode's default-ignorable code points, and two blanks.
        for range in [
            0xad..=0xad,
            0x34f..=0x34f,
            0x61c..=0x61c,
            0x115f..=0x1160,
            0x17b4..=0x17b5,
            0x180b..=0x180f,
            0x200b..=0x200f,
            0x202a..=0x202e,
            0x2060..=0x206f,
            0x2800..=0x2800,
            0x3164..=0x3164,
            0xfe00..=0xfe0f,
            0xfeff..=0xfeff,
            0xffa0..=0xffa0,
            0xfff0..=0xfffb,
            0x1bca0..=0x1bca3,
            0x1d173..=0x1d17a,
            0xe0000..=0xe0fff,
        ] {
            for c in range.filter_map(char::from_u32) {
                assert_eq!(line(&c.to_string()), c.escape_default().to_string());
            }
        }
    }
}
