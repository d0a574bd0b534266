//! URI patterns in Curator's syntax.
//!
//! Pure: no I/O and no clock.

use std::fmt;

/// A pattern from which the URI of an instance is made, such as `{scheme}://{address}:{port}/v1`.
///
/// The variables are Curator's: `scheme`, `name`, `id`, `address`, `port`, `ssl-port`, `registration-time-utc` and
/// `service-type`.
/// `scheme` is `https` for an instance with a port for encrypted connections, otherwise `http`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UriSpec {
    pub(crate) parts: Vec<Part>,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) value: String,
    pub(crate) is_variable: bool,
}

impl UriSpec {
    /// Parses a pattern with variables in braces.
    ///
    /// # Errors
    ///
    /// If braces are not balanced, or a variable has no name.
    pub fn parse(pattern: &str) -> Result<Self, ParseUriSpecError> {
        let wrong = |problem| ParseUriSpecError {
            pattern: pattern.to_owned(),
            problem,
        };
        let mut parts = Vec::new();
        let mut push = |value: &str, is_variable| {
            parts.push(Part {
                value: value.to_owned(),
                is_variable,
            });
        };
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| wrong("a brace is not closed"))?;
            if before.contains('}') || name.contains('{') {
                return Err(wrong("braces are not balanced"));
            }
            if name.trim().is_empty() {
                return Err(wrong("a variable has no name"));
            }
            if !before.is_empty() {
                push(before, false);
            }
            push(name.trim(), true);
            rest = after;
        }
        if rest.contains('}') {
            return Err(wrong("a brace was not opened"));
        }
        if !rest.is_empty() {
            push(rest, false);
        }
        Ok(Self { parts })
    }
}

/// The pattern.
impl fmt::Display for UriSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            if part.is_variable {
                write!(f, "{{{}}}", part.value)?;
            } else {
                f.write_str(&part.value)?;
            }
        }
        Ok(())
    }
}

/// A URI pattern is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{pattern:?} is not a valid URI pattern: {problem}; write {{scheme}}://{{address}}:{{port}}"
)]
pub struct ParseUriSpecError {
    pattern: String,
    problem: &'static str,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_with_braces_that_do_not_go_together_are_refused() {
        for pattern in ["{", "}", "a}b", "{a", "{a{b}", "}{a}", "{}", "{ }", "{a}}"] {
            assert!(UriSpec::parse(pattern).is_err(), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_is_written_as_it_was_read(pattern in "[a-z:/{}-]{0,20}") {
            if let Ok(spec) = UriSpec::parse(&pattern) {
                prop_assert_eq!(spec.to_string(), pattern);
            }
        }
    }
}
