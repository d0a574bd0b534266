use super::*;

fn host() -> Host {
    Host {
        name: "zk1".to_owned(),
        port: 2281,
    }
}

fn refused(certificates: Certificates) -> String {
    let refused = Tls::from(certificates).for_host(&host());
    refused.expect_err("they can be used").to_string()
}

fn text(text: &str) -> Pem {
    Pem::Text(text.to_owned())
}

#[cfg(feature = "ring")]
#[test]
fn what_cannot_be_used_is_named() {
    let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
    for (authorities, why) in [
        (
            Pem::from(Path::new("/no/ca.pem")),
            "cannot read /no/ca.pem: No such file or directory (os error 2)",
        ),
        (text(""), "cannot use a text in PEM: it has no certificate"),
        (
            text(empty),
            "cannot use a text in PEM: invalid peer certificate: BadEncoding",
        ),
        (
            text("-----BEGIN CERTIFICATE-----\n"),
            "cannot use a text in PEM: a section has no end",
        ),
    ] {
        assert_eq!(refused(Certificates::trusting(authorities)), why);
    }
}

#[cfg(feature = "ring")]
#[test]
fn the_given_cryptography_is_used() {
    let certificate = rcgen::generate_simple_self_signed(["zk1".to_owned()]).unwrap();
    let authority = text(&certificate.cert.pem());
    let trusting = Certificates::trusting(authority);
    assert!(Tls::from(trusting.clone()).for_host(&host()).is_ok());
    let mut unusable = default_provider().unwrap().as_ref().clone();
    unusable.cipher_suites.clear();
    let refusal = refused(trusting.with_provider(Arc::new(unusable)));
    assert!(refusal.contains("cipher suites"), "{refusal}");
}

#[cfg(not(feature = "ring"))]
#[test]
fn without_cryptography_the_remedy_is_named() {
    assert_eq!(refused(Certificates::trusting(text(""))), NO_PROVIDER);
}

#[test]
fn a_name_is_that_of_the_host_unless_it_is_set() {
    let name = |text: &str| server_name(text).map(|name| name.to_str().into_owned());
    assert_eq!(name("zk1.example").unwrap(), "zk1.example");
    assert_eq!(name("::1").unwrap(), "::1");
    assert_eq!(
        name("a b").unwrap_err().to_string(),
        "\"a b\" is neither a DNS name nor an address, so no certificate can be for it"
    );
}

#[test]
fn debug_output_has_no_text_in_pem() {
    let certificates =
        Certificates::trusting(Path::new("ca.pem")).with_identity(text("secret"), text("secret"));
    let shown = format!("{:?}", Tls::from(certificates));
    assert!(
        shown.contains("ca.pem") && !shown.contains("secret"),
        "{shown}"
    );
}

#[test]
fn the_zone_of_an_address_is_not_in_the_certificate() {
    let address = server_name("fe80::1").unwrap();
    assert_eq!(server_name("fe80::1%eth0").unwrap(), address);
}
