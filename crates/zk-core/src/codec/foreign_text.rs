//! Makes text of a node fit for an error: without values, without characters that a log or a terminal acts upon, and
//! short.
//!
//! Errors are logged, and who may write a node chooses its text: it must not forge lines, and a value in the wrong place
//! may be a secret.
//!
//! Pure: no I/O and no clock.

/// Returns a message on one line of at most [`MAX_LENGTH`] characters, the last of which is then `…`.
///
/// Control characters and others that are not printed are escaped, as `\u{1b}`.
pub(super) fn shown(message: &str) -> String {
    let escaped = message.chars().flat_map(|c| {
        // These are printed as they are.
        let plain = matches!(c, '\'' | '"' | '\\').then_some(c);
        let escaped = plain.is_none().then(|| c.escape_debug());
        plain.into_iter().chain(escaped.into_iter().flatten())
    });
    let mut shown: String = escaped.take(MAX_LENGTH + 1).collect();
    if let Some((end, _)) = shown.char_indices().nth(MAX_LENGTH) {
        let last = shown[..end].char_indices().next_back();
        shown.truncate(last.map_or(0, |(at, _)| at));
        shown.push('…');
    }
    shown
}

/// Returns a message of serde without the value that it quotes: `invalid type: string, expected u16`.
pub(super) fn without_value(message: &str) -> String {
    for introduction in ["invalid type: ", "invalid value: ", "unknown variant "] {
        let Some((before, quoted)) = message.split_once(introduction) else {
            continue;
        };
        let Some(value) = quoted.find(['`', '"']) else {
            continue;
        };
        // The last one: the value may contain the same words.
        let expected = quoted[value..].rfind(EXPECTED);
        let expected = expected.map_or("", |at| &quoted[value + at..]);
        let kind = quoted[..value].trim_end();
        return format!("{before}{introduction}{kind}")
            .trim_end()
            .to_owned()
            + expected;
    }
    message.to_owned()
}

const EXPECTED: &str = ", expected ";
/// The length of a message in characters.
pub(super) const MAX_LENGTH: usize = 300;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_log_or_a_terminal_acts_upon_is_escaped() {
        let hostile = "a\nINFO b\r\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7f}\u{2028}";
        assert_eq!(
            shown(hostile),
            "a\\nINFO b\\r\\u{1b}[2J\\u{9b}31m\\u{202e}\\u{200b}\\u{7f}\\u{2028}"
        );
        for plain in ["", "missing field `größe`", "日本語 \"c\" 'd' a\\b"] {
            assert_eq!(shown(plain), plain);
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        let short = "é".repeat(MAX_LENGTH);
        assert_eq!(shown(&short), short);
        let long = shown(&"é".repeat(MAX_LENGTH + 1));
        assert_eq!(long.chars().count(), MAX_LENGTH);
        assert!(long.ends_with("é…"), "{long}");
        assert_eq!(shown(&"\n".repeat(900_000)).chars().count(), MAX_LENGTH);
    }

    #[test]
    fn a_quoted_value_is_left_out() {
        for (message, expected) in [
            (
                "invalid type: string \"hunter2\", expected u16 in `size`",
                "invalid type: string, expected u16 in `size`",
            ),
            (
                "invalid type: string \"a, expected b\", expected u16",
                "invalid type: string, expected u16",
            ),
            (
                "invalid value: integer `-7`, expected u16",
                "invalid value: integer, expected u16",
            ),
            (
                "unknown variant `hunter2`, expected `Fast` or `Slow`",
                "unknown variant, expected `Fast` or `Slow`",
            ),
            (
                "in key a: invalid type: floating point `1.5`",
                "in key a: invalid type: floating point",
            ),
            (
                "invalid type: null, expected u16",
                "invalid type: null, expected u16",
            ),
            (
                "unknown field `sise`, expected `size`",
                "unknown field `sise`, expected `size`",
            ),
            ("missing field `size`", "missing field `size`"),
        ] {
            assert_eq!(without_value(message), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_short_and_on_one_line(text: String) {
            let shown = shown(&text);
            prop_assert!(shown.chars().count() <= MAX_LENGTH);
            prop_assert!(!shown.contains(char::is_control), "{shown:?}");
        }
    }
}
