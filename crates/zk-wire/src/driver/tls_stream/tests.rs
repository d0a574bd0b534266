use super::*;

#[test]
fn an_alert_says_why_the_client_is_refused() {
    use AlertDescription as Alert;
    use CertificateRefusal as Refusal;
    let unexplained = |alert: &str| Some(Refusal::Unexplained(alert.to_owned()));
    for (alert, without, with) in [
        (
            Alert::CertificateRequired,
            true,
            Some(Refusal::NoCertificate),
        ),
        (Alert::CertificateExpired, true, Some(Refusal::Expired)),
        (Alert::CertificateRevoked, true, Some(Refusal::Revoked)),
        (Alert::UnknownCA, true, Some(Refusal::UnknownAuthority)),
        (Alert::BadCertificate, true, unexplained("BadCertificate")),
        (
            Alert::CertificateUnknown,
            true,
            unexplained("CertificateUnknown"),
        ),
        (
            Alert::UnsupportedCertificate,
            true,
            unexplained("UnsupportedCertificate"),
        ),
        (Alert::AccessDenied, true, unexplained("AccessDenied")),
        (Alert::HandshakeFailure, true, None),
        (Alert::ProtocolVersion, false, None),
        (Alert::InternalError, false, None),
    ] {
        assert_eq!(refusal(alert, true, true), with, "{alert:?}");
        let no_certificate = without.then_some(Refusal::NoCertificate);
        assert_eq!(refusal(alert, false, true), no_certificate, "{alert:?}");
    }
    // There is no common cryptography.
    assert_eq!(refusal(Alert::HandshakeFailure, false, false), None);
}
