use super::*;

#[test]
fn provisioning_has_three_words() {
    let parse = |text: &str| provisioning(PROVISION, OsStr::new(text)).ok();
    assert_eq!(parse("when-missing"), Some(Provisioning::WhenMissing));
    assert_eq!(parse("never"), Some(Provisioning::Never));
    assert_eq!(parse("always"), Some(Provisioning::Always));
    for bad in ["", "Never", "1", "when_missing"] {
        assert_eq!(parse(bad), None, "{bad}");
    }
}

#[test]
fn mirror_is_an_http_url_without_trailing_slash() {
    let parse = |text: &str| mirror(MIRROR, OsStr::new(text)).ok();
    assert_eq!(
        parse("https://host/dist//").as_deref(),
        Some("https://host/dist")
    );
    assert_eq!(
        parse("http://127.0.0.1:8080").as_deref(),
        Some("http://127.0.0.1:8080")
    );
    for bad in [
        "",
        "host/dist",
        "https://",
        "http:///",
        "ftp://host",
        "http://ho st/",
    ] {
        assert_eq!(parse(bad), None, "{bad}");
    }
    assert_eq!(parse(DEFAULT_MIRROR).as_deref(), Some(DEFAULT_MIRROR));
}
