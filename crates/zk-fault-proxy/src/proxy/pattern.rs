//! Matches paths against patterns, in which `*` stands for any text within a name and `**` for any text.
//!
//! Pure: no I/O and no clock.

/// Returns whether all of `path` matches `pattern`.
pub(super) fn fits(pattern: &str, path: &str) -> bool {
    let path: Vec<char> = path.chars().collect();
    // `reached[i]`: the pattern so far matches the first `i` characters.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut signs = pattern.chars().peekable();
    while let Some(sign) = signs.next() {
        if sign != '*' {
            for at in (0..path.len()).rev() {
                reached[at + 1] = reached[at] && path[at] == sign;
            }
            reached[0] = false;
            continue;
        }
        let across = signs.next_if_eq(&'*').is_some();
        for at in 0..path.len() {
            reached[at + 1] |= reached[at] && (across || path[at] != '/');
        }
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_ends_at_a_slash_and_two_do_not() {
        for (pattern, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/ab", "/a", false),
            ("/a*", "/a", true),
            ("/a*", "/ab", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", false),
            ("/a/***", "/a/b/c", true),
            ("/**-lock-", "/a/_c_1-lock-", true),
            ("/*-lock-", "/a/_c_1-lock-", false),
            ("**", "/", true),
            ("/ä*", "/äö", true),
            ("", "/", false),
            ("", "", true),
        ] {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
    }

    proptest! {
        /// A path with a name in place of the star matches, and one with a slash there does not.
        #[test]
        fn stars_stand_for_names(before in "[a-z]{0,3}", name in "[a-z]{0,3}", after in "[a-z]{0,3}") {
            let pattern = format!("/{before}*/{after}");
            let path = format!("/{before}{name}/{after}");
            let deeper = format!("/{before}{name}/x/{after}");
            prop_assert!(fits(&pattern, &path));
            prop_assert!(!fits(&pattern, &deeper));
            prop_assert!(fits(&pattern.replace('*', "**"), &deeper));
        }

        /// The cost is at most the number of stars times the length.
        #[test]
        fn many_stars_end_soon(stars in 1..60_usize) {
            let path = format!("{}b", "a".repeat(400));
            let pattern = format!("{}c", "*a".repeat(stars));
            prop_assert!(!fits(&pattern, &path));
        }
    }
}
