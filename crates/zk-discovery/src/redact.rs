//! Redacts secrets in node names for logs and debug output.
//!
//! Pure: no I/O and no clock.

/// Returns a node name or path without the parts of an encoded URL that may be secret: the user, and everything after
/// the question mark.
pub(crate) fn redact(name: &str) -> String {
    let (url, rest) = find(name, "%3F").map_or((name, ""), |at| (&name[..at], "\u{2026}"));
    let user = find(url, "%2F%2F").map(|at| at + "%2F%2F".len());
    match user.and_then(|from| Some((from, from + rfind(&url[from..], "%40")?))) {
        Some((from, to)) => format!("{}\u{2026}{}{rest}", &url[..from], &url[to..]),
        None => format!("{url}{rest}"),
    }
}

/// Finds an encoded character, in upper or lower case.
fn find(text: &str, sign: &str) -> Option<usize> {
    text.to_ascii_uppercase().find(sign)
}

fn rfind(text: &str, sign: &str) -> Option<usize> {
    text.to_ascii_uppercase().rfind(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_user_and_its_parameters() {
        for (name, expected) in [
            ("/services/orders/one", "/services/orders/one"),
            (
                "/dubbo/a.B/providers/dubbo%3A%2F%2Fme%3Asecret%40h%3A1%2Fa.B%3Fpassword%3Dsecret",
                "/dubbo/a.B/providers/dubbo%3A%2F%2F\u{2026}%40h%3A1%2Fa.B\u{2026}",
            ),
            (
                "tri%3a%2f%2fx%40y%40h%3a1%3fz",
                "tri%3a%2f%2f\u{2026}%40h%3a1\u{2026}",
            ),
            ("dubbo%3A%2F%2Fh%3A1%2Fa.B", "dubbo%3A%2F%2Fh%3A1%2Fa.B"),
        ] {
            assert_eq!(redact(name), expected);
        }
    }
}
