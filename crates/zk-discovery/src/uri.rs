//! URI patterns in Curator's syntax.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use crate::instance::Instance;

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

    /// Returns the URI of an instance; `None` if the instance has no value for a variable.
    pub fn of<P>(&self, instance: &Instance<P>) -> Option<String> {
        let mut uri = String::new();
        for part in &self.parts {
            if part.is_variable {
                uri.push_str(&instance.variable(&part.value)?);
            } else {
                uri.push_str(&part.value);
            }
        }
        Some(uri)
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
    fn patterns_are_filled_in_and_what_is_missing_makes_no_uri() {
        let spec = UriSpec::parse("{scheme}://{address}:{ssl-port}/{name}?{ id }").unwrap();
        let instance = || Instance::builder("orders", ()).id("one").address("::1");
        let without = instance().build().unwrap();
        assert_eq!(spec.of(&without), None);
        let with = instance().ssl_port(443).build().unwrap();
        assert_eq!(spec.of(&with).unwrap(), "https://::1:443/orders?one");
        assert_eq!(UriSpec::parse("{what}").unwrap().of(&with), None);
        assert_eq!(UriSpec::parse("").unwrap().of(&with).unwrap(), "");
    }

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
