//! Decides which nodes `find` prints: without I/O and without a clock, the time is an argument.

use std::time::{Duration, SystemTime};

use regex::Regex;
use zk_core::{NodePath, SessionId, Stat};

/// The conditions that a node must meet, all of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Its name matches this pattern.
    pub(crate) name: Option<Regex>,
    /// Its data was last changed at least so long ago.
    pub(crate) older: Option<Duration>,
    /// Its data was last changed at most so long ago.
    pub(crate) newer: Option<Duration>,
    /// It has more bytes of data than this.
    pub(crate) larger: Option<u64>,
    /// It has fewer bytes of data than this.
    pub(crate) smaller: Option<u64>,
    /// It has more children than this.
    pub(crate) children: Option<u32>,
    /// This session owns it.
    pub(crate) owner: Option<SessionId>,
    /// It is ephemeral, or it is not.
    pub(crate) is_ephemeral: Option<bool>,
}

impl Filter {
    /// Returns whether the conditions are about the name alone.
    pub(crate) fn is_about_names(&self) -> bool {
        let Self {
            name: _,
            older,
            newer,
            larger,
            smaller,
            children,
            owner,
            is_ephemeral,
        } = self;
        older.or(*newer).is_none()
            && larger.or(*smaller).is_none()
            && children.is_none()
            && owner.is_none()
            && is_ephemeral.is_none()
    }

    /// Returns whether a node meets the conditions at this time.
    pub(crate) fn matches(&self, path: &NodePath, stat: &Stat, now: SystemTime) -> bool {
        // The leader's clock may be ahead of ours.
        let age = now.duration_since(stat.mtime).unwrap_or_default();
        let length = u64::from(stat.data_length);
        let name = path.name().unwrap_or("/");
        self.name
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(name))
            && self.older.is_none_or(|older| age >= older)
            && self.newer.is_none_or(|newer| age <= newer)
            && self.larger.is_none_or(|larger| length > larger)
            && self.smaller.is_none_or(|smaller| length < smaller)
            && self
                .children
                .is_none_or(|children| stat.num_children > children)
            && self
                .owner
                .is_none_or(|owner| stat.ephemeral_owner == Some(owner))
            && self
                .is_ephemeral
                .is_none_or(|ephemeral| stat.ephemeral_owner.is_some() == ephemeral)
    }
}

/// Parses a pattern for names: `*` stands for any characters, `?` for one, anything else for itself.
pub(crate) fn parse_name(pattern: &str) -> Result<Regex, String> {
    let mut expression = String::from("(?s)^");
    for c in pattern.chars() {
        match c {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            c => expression.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    expression.push('$');
    Regex::new(&expression).map_err(|_| "the pattern is too long".to_owned())
}

/// Parses a number of bytes, as in `512`, `10k` or `1M`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit: Option<u64> = match &text[digits..] {
        "" | "B" => Some(1),
        "k" | "K" => Some(1 << 10),
        "m" | "M" => Some(1 << 20),
        _ => None,
    };
    let number: Option<u64> = text[..digits].parse().ok();
    let size = number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit));
    size.ok_or_else(|| "write a number of bytes: 512, 10k or 1M".to_owned())
}

/// Parses the id of a session, in hexadecimal digits after `0x` as `stat` prints it.
pub(crate) fn parse_session(text: &str) -> Result<SessionId, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u64::from_str_radix(digits, 16).ok().filter(|_| is_number);
    id.map(|id| SessionId::from_i64(id.cast_signed()))
        .ok_or_else(|| "write the id of a session as it is printed: 0x10002a3f0000001".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Nodes that differ in everything a filter looks at.
    fn nodes() -> Vec<(NodePath, Stat)> {
        let mut nodes = Vec::new();
        for name in ["/", "/a/lock-1", "/a/lock-2", "/lock-1/b"] {
            for mtime in [0, 90, 100, 110] {
                for data_length in [0, 10, 11] {
                    for num_children in [0, 3] {
                        for owner in [None, Some(7), Some(-7)] {
                            let stat = Stat {
                                mtime: at(mtime),
                                data_length,
                                num_children,
                                ephemeral_owner: owner.map(SessionId::from_i64),
                                ..Stat::default()
                            };
                            nodes.push((NodePath::parse(name).unwrap(), stat));
                        }
                    }
                }
            }
        }
        nodes
    }

    /// A condition that each of [`filters`] has, written once more without the filter.
    type Condition = fn(&NodePath, &Stat) -> bool;

    fn filters() -> Vec<(Filter, Condition)> {
        let seconds = Duration::from_secs;
        let of = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter
        };
        let older = Filter {
            older: Some(seconds(10)),
            ..Filter::default()
        };
        let newer = Filter {
            newer: Some(seconds(10)),
            ..Filter::default()
        };
        vec![
            (of(|_| {}), |_, _| true),
            (of(|f| f.name = parse_name("lock-*").ok()), |path, _| {
                path.name().is_some_and(|name| name.starts_with("lock-"))
            }),
            (older, |_, stat| stat.mtime <= at(90)),
            (newer, |_, stat| stat.mtime >= at(90)),
            (of(|f| f.larger = Some(10)), |_, stat| {
                stat.data_length == 11
            }),
            (of(|f| f.smaller = Some(10)), |_, stat| {
                stat.data_length == 0
            }),
            (of(|f| f.children = Some(2)), |_, stat| {
                stat.num_children == 3
            }),
            (
                of(|f| f.owner = Some(SessionId::from_i64(-7))),
                |_, stat| {
                    stat.ephemeral_owner
                        .is_some_and(|owner| owner.as_i64() == -7)
                },
            ),
            (of(|f| f.is_ephemeral = Some(true)), |_, stat| {
                stat.ephemeral_owner.is_some()
            }),
            (of(|f| f.is_ephemeral = Some(false)), |_, stat| {
                stat.ephemeral_owner.is_none()
            }),
        ]
    }

    fn both(a: &Filter, b: &Filter) -> Filter {
        Filter {
            name: a.name.clone().or_else(|| b.name.clone()),
            older: a.older.or(b.older),
            newer: a.newer.or(b.newer),
            larger: a.larger.or(b.larger),
            smaller: a.smaller.or(b.smaller),
            children: a.children.or(b.children),
            owner: a.owner.or(b.owner),
            is_ephemeral: a.is_ephemeral.or(b.is_ephemeral),
        }
    }

    #[test]
    fn a_node_must_meet_every_condition() {
        let filters = filters();
        let about_names = filters.iter().filter(|(filter, _)| filter.is_about_names());
        assert_eq!(about_names.count(), 2);
        for (i, (a, is_a)) in filters.iter().enumerate() {
            // The last two are about the same.
            for (b, is_b) in filters
                .iter()
                .skip(i)
                .filter(|(b, _)| a.is_ephemeral.is_none() || b.is_ephemeral == a.is_ephemeral)
            {
                let filter = both(a, b);
                let mut found = 0;
                for (path, stat) in nodes() {
                    let expected = is_a(&path, &stat) && is_b(&path, &stat);
                    assert_eq!(
                        filter.matches(&path, &stat, at(100)),
                        expected,
                        "{filter:?}: {path} {stat:?}"
                    );
                    found += usize::from(expected);
                }
                let is_contradiction = a.larger.is_some() && b.smaller.is_some()
                    || a.owner.is_some() && b.is_ephemeral == Some(false);
                assert_eq!(found == 0, is_contradiction, "{filter:?}");
            }
        }
    }

    #[test]
    fn patterns_for_names_know_stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "a.b", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a", "ba", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("?", "é", true),
            ("a.c", "abc", false),
            ("[ab]", "a", false),
            ("[ab]", "[ab]", true),
            ("a\\d", "a1", false),
            ("lock-*", "lock-0000000001", true),
        ] {
            let is_match = parse_name(pattern).unwrap().is_match(name);
            assert_eq!(is_match, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("512B", Some(512)),
            ("10k", Some(10_240)),
            ("1M", Some(1 << 20)),
            ("1m", Some(1 << 20)),
            ("", None),
            ("k", None),
            ("1G", None),
            ("-1", None),
            ("1.5k", None),
            ("18446744073709551615k", None),
        ] {
            assert_eq!(parse_size(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn sessions_are_read_as_they_are_printed() {
        for id in [0, 1, 0x0100_02a3_f000_0001, i64::MAX, i64::MIN, -1] {
            let id = SessionId::from_i64(id);
            assert_eq!(parse_session(&id.to_string()), Ok(id));
        }
        for bad in ["", "0x", "x", "0x-1", "+1", "0x1ffffffffffffffff"] {
            assert!(parse_session(bad).is_err(), "{bad}");
        }
    }
}
