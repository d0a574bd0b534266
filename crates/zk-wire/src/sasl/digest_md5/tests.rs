use super::*;

/// Returns an exchange, whose nonce is that of the client in the example.
fn exchange(user: &str, password: &str, uri: &'static str) -> DigestExchange {
    DigestExchange {
        credentials: DigestMd5::new(user, password),
        uri,
        nonce: "OA6MHXh6VqTrRk".to_owned(),
        expected: None,
    }
}

fn sent(step: Result<Step, SaslError>) -> String {
    match step {
        Ok(Step::Send(token)) => String::from_utf8(token).unwrap(),
        other => panic!("it sends nothing: {other:?}"),
    }
}

fn refused(step: Result<Step, SaslError>) -> String {
    step.expect_err("the token is accepted").to_string()
}

const CHALLENGE: &[u8] = b"realm=\"elwood.innosoft.com\",nonce=\"OA6MG9tEQGm2hh\",qop=\"auth\",algorithm=md5-sess,charset=utf-8";

#[test]
fn the_example_of_the_rfc_is_computed() {
    let mut exchange = exchange("chris", "secret", "imap/elwood.innosoft.com");
    let response = sent(exchange.step(CHALLENGE));
    assert_eq!(
        response,
        "charset=utf-8,username=\"chris\",realm=\"elwood.innosoft.com\",nonce=\"OA6MG9tEQGm2hh\",nc=00000001,\
         cnonce=\"OA6MHXh6VqTrRk\",digest-uri=\"imap/elwood.innosoft.com\",maxbuf=65536,\
         response=d388dad90d4bbd760a152321f2143af7,qop=auth"
    );
    let proof = b"rspauth=ea40f60335c427b5527b84dbabcdfffd";
    assert_eq!(exchange.step(proof), Ok(Step::Done));
}

#[test]
fn a_server_that_does_not_know_the_password_is_refused() {
    for proof in [
        b"rspauth=ea40f60335c427b5527b84dbabcdfffe".as_slice(),
        b"",
        b"x=y",
    ] {
        let mut exchange = exchange("chris", "secret", "imap/elwood.innosoft.com");
        sent(exchange.step(CHALLENGE));
        assert_eq!(
            refused(exchange.step(proof)),
            "the server has not proved that it knows the password"
        );
    }
}

#[test]
fn a_challenge_that_cannot_be_answered_is_refused_with_the_reason() {
    for (challenge, why) in [
        (
            "",
            "the server sent no challenge: it has no SASL configured, or no DIGEST-MD5",
        ),
        ("realm=\"a\"", "the challenge has no nonce"),
        ("nonce=\"a", "the server sent no token of DIGEST-MD5"),
        ("nonce", "the server sent no token of DIGEST-MD5"),
        (
            "nonce=\"a\",algorithm=md5",
            "the server asks for the algorithm \"md5\"",
        ),
        (
            "nonce=\"a\",qop=\"auth-int,auth-conf\"",
            "the server asks for a protection of \"auth-int,auth-conf\"",
        ),
    ] {
        let step = exchange("a", "b", URI).step(challenge.as_bytes());
        assert_eq!(refused(step), why, "{challenge}");
    }
}

#[test]
fn quotes_and_spaces_in_a_challenge_are_read() {
    let text =
        br#" realm="a \"b\", \\c" , , NONCE = "x=y",qop="auth-int, auth",maxbuf=1,stale=true"#;
    let expected = Challenge {
        realm: r#"a "b", \c"#.to_owned(),
        nonce: "x=y".to_owned(),
        is_utf8: false,
    };
    assert_eq!(Challenge::parse(text), Ok(expected));
    let response = sent(exchange(r#"a"b\"#, "p", URI).step(text));
    assert!(
        response.starts_with(r#"username="a\"b\\",realm="a \"b\", \\c","#),
        "{response}"
    );
}

#[test]
fn other_characters_than_those_of_latin1_need_a_server_with_utf8() {
    assert_eq!(hashed("é"), [0xe9]);
    assert_eq!(hashed("€"), "€".as_bytes());
    let old = b"nonce=\"a\"";
    for (user, password) in [("a", "€"), ("é", "a")] {
        assert_eq!(
            refused(exchange(user, password, URI).step(old)),
            "the server does not accept UTF-8, which the user or the password needs"
        );
    }
    sent(exchange("a", "é", URI).step(old));
}

#[test]
fn debug_output_has_no_password() {
    let text = format!("{:?}", DigestMd5::new("alice", "secret"));
    assert_eq!(text, "DigestMd5 { user: \"alice\", .. }");
}
