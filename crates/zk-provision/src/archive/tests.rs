use super::*;

fn pins() -> Vec<Pin> {
    PINNED
        .iter()
        .map(|(version, sha512)| Pin {
            version: Version::parse(version).unwrap(),
            sha512: (*sha512).to_owned(),
        })
        .collect()
}

#[test]
fn pinned_checksums_are_well_formed() {
    for pin in pins() {
        assert_eq!(
            crate::settings::sha512(&pin.sha512),
            Ok(pin.sha512.clone()),
            "{}",
            pin.version
        );
    }
}

#[test]
fn newest_pinned_release_of_the_wanted_series_is_chosen() {
    let mut pins = pins();
    let default = choose(Request::PROVISIONED, &pins).unwrap();
    assert_eq!(default.version.known_loss(), None);
    pins.push(Pin {
        version: Version::parse("3.9.10").unwrap(),
        sha512: String::new(),
    });
    let chosen = |text: &str| {
        choose(Request::parse(text).unwrap(), &pins).map(|pin| pin.version.to_string())
    };
    assert_eq!(chosen("3.8").as_deref(), Ok("3.8.4"));
    assert_eq!(chosen("3.9").as_deref(), Ok("3.9.10"));
    assert_eq!(chosen("3.9.3").as_deref(), Ok("3.9.3"));
    assert_eq!(
        chosen("3.7"),
        Err("no SHA-512 is pinned for 3.7; pinned are 3.8.4, 3.9.3, 3.9.5, 3.9.10".to_owned())
    );
}

#[test]
fn archive_is_found_where_the_releases_are_kept() {
    let version = Version::parse("3.9.3").unwrap();
    assert_eq!(
        url("https://host/dist", version),
        "https://host/dist/zookeeper-3.9.3/apache-zookeeper-3.9.3-bin.tar.gz"
    );
}

#[test]
fn digest_is_written_in_lower_case() {
    assert_eq!(hex(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
}
