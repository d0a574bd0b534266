use super::*;

#[test]
fn debug_output_has_no_passwords_and_no_credentials() {
    const PASSWORD: &[u8] = b"wonderland-7f3a!";
    let secret = || Secret(PASSWORD.to_vec());
    let connect = Connect {
        protocol_version: 0,
        last_zxid: 0,
        timeout: 4000,
        session: 7,
        password: secret(),
        read_only: None,
    };
    let connected = Connected {
        protocol_version: 0,
        timeout: 4000,
        session: 7,
        password: secret(),
        read_only: None,
    };
    let auth = RequestBody::Auth {
        kind: 0,
        scheme: "digest".to_owned(),
        credentials: secret(),
    };
    let sasl = RequestBody::Sasl { token: secret() };
    let frame = connected.encode();
    let mut decoder = FrameDecoder::for_server();
    decoder.buffer().extend_from_slice(&frame);
    let whole = format!("{decoder:?}");
    let piece = decoder.next_piece().expect("it is complete");
    let rest = format!("{decoder:?}");
    let shown = [
        format!("{connect:?}"),
        format!("{connected:?}"),
        format!("{auth:?}"),
        format!("{sasl:?}"),
        whole,
        format!("{piece:?}"),
        rest,
    ];
    let as_numbers = format!("{:?}", &PASSWORD[1..4]);
    let as_numbers = as_numbers.trim_matches(['[', ']']);
    for shown in shown {
        let is_in = |form: &str| shown.contains(form);
        assert!(!is_in("wonder") && !is_in(as_numbers), "{shown}");
    }
    assert_eq!(format!("{piece:?}"), "Frame(40 bytes)");
    assert_eq!(format!("{:?}", secret()), "Secret(16 bytes)");
}
