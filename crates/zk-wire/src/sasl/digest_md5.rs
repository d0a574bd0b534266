//! The SASL mechanism DIGEST-MD5 of RFC 2831, as far as ZooKeeper's servers use it.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use md5::{Digest as _, Md5};

use super::{Exchange, Mechanism, SaslError, Step};
use crate::session::Host;

/// A user and a password, for the SASL mechanism DIGEST-MD5.
///
/// The password is not sent, and the server has to prove that it knows it, too. What follows is neither encrypted nor
/// protected: use TLS for that.
/// Servers know their users from a JAAS file with a section `Server` and its `DigestLoginModule`; those of 3.9.4 and
/// newer also need `fips-mode=false` (ZOOKEEPER-4889).
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use zk_wire::Config;
/// use zk_wire::sasl::DigestMd5;
///
/// let mut config = Config::new(Duration::from_secs(10));
/// config.sasl = Some(Arc::new(DigestMd5::new("alice", "secret")));
/// ```
#[derive(Clone)]
pub struct DigestMd5 {
    user: String,
    password: String,
}

impl DigestMd5 {
    /// Authenticates as this user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
        }
    }
}

impl fmt::Debug for DigestMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestMd5")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Mechanism for DigestMd5 {
    fn start(
        &self,
        _host: &Host,
        nonce: [u8; 16],
    ) -> Result<(Box<dyn Exchange>, Vec<u8>), SaslError> {
        let exchange = DigestExchange {
            credentials: self.clone(),
            uri: URI,
            nonce: hex(&nonce),
            expected: None,
        };
        // The server speaks first, but waits to be asked.
        Ok((Box::new(exchange), Vec::new()))
    }
}

struct DigestExchange {
    credentials: DigestMd5,
    uri: &'static str,
    /// The client's.
    nonce: String,
    /// What the server has to reply to the response that was sent.
    expected: Option<String>,
}

impl Exchange for DigestExchange {
    fn step(&mut self, token: &[u8]) -> Result<Step, SaslError> {
        match &self.expected {
            None => {
                let challenge = Challenge::parse(token)?;
                Ok(Step::Send(self.respond(&challenge)?.into_bytes()))
            }
            Some(expected) => {
                let directives = directives(token)?;
                match value(&directives, "rspauth") {
                    Some(got) if got == expected => Ok(Step::Done),
                    _ => Err(SaslError::new(
                        "the server has not proved that it knows the password",
                    )),
                }
            }
        }
    }
}

impl DigestExchange {
    fn respond(&mut self, challenge: &Challenge) -> Result<String, SaslError> {
        let DigestMd5 { user, password } = &self.credentials;
        let (realm, nonce, own) = (&challenge.realm, &challenge.nonce, &self.nonce);
        // The password is only hashed.
        let is_plain = user.is_ascii() && latin1(password).is_some();
        if !is_plain && !challenge.is_utf8 {
            let why = "the server does not accept UTF-8, which the user or the password needs";
            return Err(SaslError::new(why));
        }
        let proof = Proof {
            secret: md5(&join(&[&hashed(user), &hashed(realm), &hashed(password)])),
            nonce,
            own_nonce: own,
        };
        self.expected = Some(proof.of(&format!(":{}", self.uri)));
        let charset = if challenge.is_utf8 {
            "charset=utf-8,"
        } else {
            ""
        };
        Ok(format!(
            "{charset}username={user},realm={realm},nonce={nonce},nc={COUNT},cnonce={own},digest-uri={uri},\
             maxbuf=65536,response={response},qop={QOP}",
            user = quoted(user),
            realm = quoted(realm),
            nonce = quoted(nonce),
            own = quoted(own),
            uri = quoted(self.uri),
            response = proof.of(&format!("AUTHENTICATE:{}", self.uri)),
        ))
    }
}

/// What both sides prove that they know.
struct Proof<'a> {
    /// The hash of user, realm and password.
    secret: [u8; 16],
    nonce: &'a str,
    own_nonce: &'a str,
}

impl Proof<'_> {
    /// Returns the proof for an `A2` of the RFC.
    fn of(&self, a2: &str) -> String {
        let (nonce, own) = (self.nonce.as_bytes(), self.own_nonce.as_bytes());
        let a1 = hex(&md5(&join(&[&self.secret, nonce, own])));
        let a2 = hex(&md5(a2.as_bytes()));
        let (a1, a2) = (a1.as_bytes(), a2.as_bytes());
        let (count, qop) = (COUNT.as_bytes(), QOP.as_bytes());
        hex(&md5(&join(&[a1, nonce, count, own, qop, a2])))
    }
}

/// What the server asks for.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    realm: String,
    nonce: String,
    is_utf8: bool,
}

impl Challenge {
    fn parse(token: &[u8]) -> Result<Self, SaslError> {
        if token.is_empty() {
            let why = "the server sent no challenge: it has no SASL configured, or no DIGEST-MD5";
            return Err(SaslError::new(why));
        }
        let directives = directives(token)?;
        let value = |name| value(&directives, name);
        let nonce = value("nonce").ok_or_else(|| SaslError::new("the challenge has no nonce"))?;
        if let Some(other) = value("algorithm").filter(|name| *name != "md5-sess") {
            return Err(SaslError::new(format!(
                "the server asks for the algorithm {other:?}"
            )));
        }
        // Without a list only this one is meant.
        let qop = value("qop").unwrap_or(QOP);
        if !qop.split(',').any(|qop| qop.trim() == QOP) {
            return Err(SaslError::new(format!(
                "the server asks for a protection of {qop:?}"
            )));
        }
        Ok(Self {
            realm: value("realm").unwrap_or_default().to_owned(),
            nonce: nonce.to_owned(),
            is_utf8: value("charset") == Some("utf-8"),
        })
    }
}

/// Takes a list of `name=value` or `name="value"` apart.
fn directives(token: &[u8]) -> Result<Vec<(String, String)>, SaslError> {
    let malformed = || SaslError::new("the server sent no token of DIGEST-MD5");
    let text = std::str::from_utf8(token).map_err(|_| malformed())?;
    let mut directives = Vec::new();
    let mut rest = text.trim_start_matches(is_separator);
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(malformed)?;
        let (value, after) = if let Some(after) = after.trim_start().strip_prefix('"') {
            unquoted(after).ok_or_else(malformed)?
        } else {
            let end = after.find(',').unwrap_or(after.len());
            (after[..end].trim().to_owned(), &after[end..])
        };
        directives.push((name.trim().to_ascii_lowercase(), value));
        rest = after.trim_start_matches(is_separator);
    }
    Ok(directives)
}

/// Returns the first value of a name.
fn value<'a>(directives: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = directives.iter().find(|(other, _)| other == name);
    found.map(|(_, value)| value.as_str())
}

fn is_separator(c: char) -> bool {
    c == ',' || c.is_ascii_whitespace()
}

/// Returns the text up to the closing quote, and what follows that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns a text as it is hashed: in ISO 8859-1 if it has no other characters.
fn hashed(text: &str) -> Vec<u8> {
    latin1(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.join(&b':')
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15];
    let digits = bytes.iter().flat_map(digits);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The service and the name that ZooKeeper's servers have in this mechanism, whatever their host is.
const URI: &str = "zookeeper/zk-sasl-md5";
/// Each challenge has a new nonce, so this is always the first response.
const COUNT: &str = "00000001";
/// Authentication without protection of what follows.
const QOP: &str = "auth";

#[cfg(test)]
mod tests;
