//! Splits a line into words as a shell does.
//!
//! Pure: no I/O and no clock.

/// Splits a line at blanks outside quotes; a `#` at the beginning of a word begins a comment.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    shlex::split(line).ok_or_else(|| "a quote is not closed, or the line ends with a \\".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments_are_those_of_a_shell() {
        for (line, words) in [
            ("", &[][..]),
            ("   \t ", &[]),
            ("# set /a b", &[]),
            ("ls /a # comment", &["ls", "/a"]),
            ("set /a#b 'x # y'", &["set", "/a#b", "x # y"]),
            (
                r#"set /a "x \"y\"" z\ w"#,
                &["set", "/a", r#"x "y""#, "z w"],
            ),
            ("set /a ''", &["set", "/a", ""]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for line in ["'", "a \"b", "a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
