use super::*;

#[test]
fn pinned_checksums_are_well_formed() {
    for (version, sha512) in pins() {
        assert_eq!(sha512.len(), 128, "{version}");
        assert!(
            sha512
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
            "{version}"
        );
    }
}

#[test]
fn newest_pinned_release_of_the_wanted_series_is_chosen() {
    let mut pins = pins();
    let default = choose(Request::PROVISIONED, &pins).unwrap();
    assert_eq!(default.0.known_loss(), None);
    pins.insert(Version::new(3, 9, 10), String::new());
    let chosen = |text: &str| {
        choose(Request::parse(text).unwrap(), &pins).map(|(version, _)| version.to_string())
    };
    assert_eq!(chosen("3.8").as_deref(), Ok("3.8.4"));
    assert_eq!(chosen("3.9").as_deref(), Ok("3.9.10"));
    assert_eq!(chosen("3.9.3").as_deref(), Ok("3.9.3"));
    assert_eq!(
        chosen("3.7"),
        Err("no SHA-512 is pinned for 3.7; pinned are 3.8.4, 3.9.3, 3.9.5, 3.9.10".to_owned())
    );
}
