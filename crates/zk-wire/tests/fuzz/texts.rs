//! Texts that servers send: the tokens of DIGEST-MD5. And those that name servers.

use arbitrary::{Result, Unstructured};
use zk_wire::sasl::{DigestMd5, Mechanism as _, Step};
use zk_wire::{ConnectString, Host, NodePath};

/// Two tokens of a server, one after the other; each is also read as any other text.
#[derive(Debug)]
pub(crate) struct Input {
    tokens: [Vec<u8>; 2],
}

impl Input {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut from = Unstructured::new(bytes);
        let tokens = [(); 2].map(|()| {
            let parts = from.int_in_range(0..=6).unwrap_or_default();
            let parts = (0..parts).map_while(|_| part(&mut from).ok());
            parts.flatten().collect()
        });
        Self { tokens }
    }
}

fn part(from: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if from.ratio(2, 3)? {
        return from.choose(&PARTS).map(|part| part.to_vec());
    }
    let len = usize::from(from.arbitrary::<u8>()? % 16).min(from.len());
    from.bytes(len).map(<[u8]>::to_vec)
}

/// Nothing panics, no response has the password, and no server that does not know it is believed.
pub(crate) fn check(input: &Input) {
    for token in &input.tokens {
        let text = String::from_utf8_lossy(token);
        if let Ok(path) = text.parse::<NodePath>() {
            assert_eq!(path.to_string(), text);
        }
        if let Ok(servers) = text.parse::<ConnectString>() {
            assert_eq!(servers.to_string().parse(), Ok(servers), "{text}");
        }
    }
    let host = Host {
        name: "server".to_owned(),
        port: 2181,
    };
    let started = DigestMd5::new("alice", PASSWORD).start(&host, [7; 16]);
    let (mut exchange, first) = started.expect("it has credentials");
    assert_eq!(first, b"");
    for token in &input.tokens {
        match exchange.step(token) {
            Ok(Step::Send(response)) => {
                let response = String::from_utf8(response).expect("it is a text");
                assert!(!response.contains(PASSWORD), "{response}");
            }
            Ok(Step::Done) => panic!("the server is believed"),
            Err(error) => drop(error.to_string()),
        }
    }
}

const PASSWORD: &str = "wonderland-7f3a";
const PARTS: [&[u8]; 12] = [
    b"nonce=\"",
    b"realm=\"zk-sasl-md5\",",
    b"qop=\"auth-int, auth\",",
    b"charset=utf-8,",
    b"algorithm=md5-sess,",
    b"rspauth=",
    b"\"",
    b"\\",
    b",",
    b"Zookeeper version: 3.9.",
    b"[::1]:2181,zk2",
    b"/app",
];
