//! GSSAPI (Kerberos) over the plug point for SASL mechanisms: RFC 4752 without a C library.
//!
//! [`Gssapi`] is the mechanism. What speaks Kerberos is behind [`SecurityContext`]: implement it with the GSSAPI of the
//! operating system, for example with the crate `libgssapi`. Here a scripted context plays that part, and the example
//! prints the exchange that a server would see.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_wire::sasl::{Exchange, Mechanism, SaslError, Step};
use zk_wire::{Config, Host};

/// One security context of GSSAPI, as `GSS_Init_sec_context` makes it.
trait SecurityContext: Send {
    /// Takes a token of the server, none at first. Returns the next token for the server, which may be empty.
    fn step(&mut self, token: Option<&[u8]>) -> Result<Vec<u8>, SaslError>;
    /// Returns whether the context is established.
    fn is_established(&self) -> bool;
    /// `GSS_Unwrap`.
    fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, SaslError>;
    /// `GSS_Wrap`, with integrity and without confidentiality.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, SaslError>;
}

/// Opens a security context with a service such as `zookeeper@host`.
type Open = dyn Fn(&str) -> Result<Box<dyn SecurityContext>, SaslError> + Send + Sync;

/// The mechanism GSSAPI. The ticket is where the library behind it keeps tickets; nothing here is a secret.
struct Gssapi {
    service: String,
    open: Box<Open>,
}

impl Mechanism for Gssapi {
    fn start(
        &self,
        host: &Host,
        _nonce: [u8; 16],
    ) -> Result<(Box<dyn Exchange>, Vec<u8>), SaslError> {
        let mut context = (self.open)(&format!("{}@{}", self.service, host.name))?;
        let first = context.step(None)?;
        let exchange = GssapiExchange {
            context,
            is_last: false,
        };
        Ok((Box::new(exchange), first))
    }
}

impl fmt::Debug for Gssapi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gssapi")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

struct GssapiExchange {
    context: Box<dyn SecurityContext>,
    /// Whether the last token of the client is on its way. The server replies to it with one that says nothing.
    is_last: bool,
}

impl Exchange for GssapiExchange {
    fn step(&mut self, token: &[u8]) -> Result<Step, SaslError> {
        if self.is_last {
            return Ok(Step::Done);
        }
        if !self.context.is_established() {
            return Ok(Step::Send(self.context.step(Some(token))?));
        }
        // The server offers security layers, of which ZooKeeper uses none.
        let offer = self.context.unwrap(token)?;
        let layers = *offer.first().ok_or_else(|| {
            SaslError::new("the server offered no security layers; is it a server with GSSAPI?")
        })?;
        if layers & NO_LAYER == 0 {
            return Err(SaslError::new(
                "the server requires a security layer, which ZooKeeper does not have; set its `javax.security.sasl.qop` to `auth`",
            ));
        }
        self.is_last = true;
        // No layer, and therefore no buffer for messages. The identity is that of the ticket.
        Ok(Step::Send(self.context.wrap(&[NO_LAYER, 0, 0, 0])?))
    }
}

/// The bit for "no security layer".
const NO_LAYER: u8 = 1;

/// Plays a context: established after one token of the server, and wraps messages in brackets.
struct Scripted {
    is_established: bool,
}

impl SecurityContext for Scripted {
    fn step(&mut self, token: Option<&[u8]>) -> Result<Vec<u8>, SaslError> {
        match token {
            None => Ok(b"AP-REQ".to_vec()),
            Some(b"AP-REP") => {
                self.is_established = true;
                Ok(Vec::new())
            }
            Some(_) => Err(SaslError::new("the server could not prove who it is")),
        }
    }

    fn is_established(&self) -> bool {
        self.is_established
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, SaslError> {
        let inner = token
            .strip_prefix(b"[")
            .and_then(|rest| rest.strip_suffix(b"]"));
        let inner = inner.ok_or_else(|| SaslError::new("a message of the server was changed"))?;
        Ok(inner.to_vec())
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, SaslError> {
        Ok([b"[", message, b"]"].concat())
    }
}

fn scripted() -> Gssapi {
    Gssapi {
        service: "zookeeper".to_owned(),
        open: Box::new(|_| {
            Ok(Box::new(Scripted {
                is_established: false,
            }))
        }),
    }
}

#[expect(clippy::print_stdout, reason = "it is what an example is for")]
fn main() -> Result<(), SaslError> {
    let host = Host {
        name: "zk1.example".to_owned(),
        port: 2181,
    };
    let (mut exchange, first) = scripted().start(&host, [0; 16])?;
    println!("client: {}", String::from_utf8_lossy(&first));
    for token in [&b"AP-REP"[..], b"[\x01\x00\x00\x00]", b""] {
        println!("server: {:?}", String::from_utf8_lossy(token));
        match exchange.step(token)? {
            Step::Send(token) => println!("client: {:?}", String::from_utf8_lossy(&token)),
            Step::Done => println!("the session goes on"),
        }
    }
    let mut config = Config::new(Duration::from_secs(10));
    config.sasl = Some(Arc::new(scripted()));
    println!(
        "a client with {:?} authenticates like this on each connection",
        config.sasl
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Box<dyn Exchange> {
        let host = Host {
            name: "zk1.example".to_owned(),
            port: 2181,
        };
        let (exchange, first) = scripted().start(&host, [0; 16]).unwrap();
        assert_eq!(first, b"AP-REQ");
        exchange
    }

    #[test]
    fn no_security_layer_is_chosen() {
        let mut exchange = started();
        assert_eq!(exchange.step(b"AP-REP"), Ok(Step::Send(Vec::new())));
        // All three layers are offered, with a buffer of 64 KiB.
        let chosen = exchange.step(b"[\x07\x01\x00\x00]");
        assert_eq!(chosen, Ok(Step::Send(b"[\x01\x00\x00\x00]".to_vec())));
        assert_eq!(exchange.step(b""), Ok(Step::Done));
    }

    #[test]
    fn a_server_that_requires_a_layer_is_refused() {
        let mut exchange = started();
        exchange.step(b"AP-REP").unwrap();
        let refused = exchange.step(b"[\x06\x01\x00\x00]").unwrap_err();
        assert!(refused.to_string().contains("qop"), "{refused}");
        let mut impostor = started();
        assert!(impostor.step(b"AP-REX").is_err());
    }
}
