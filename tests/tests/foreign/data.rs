//! What reads data alone: the codecs of typed values, and the configuration of the ensemble.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use zk_core::codec::{Codec, Gzip, Json, Raw, Text, Toml};
use zk_core::transport::{
    Authenticating, Credentials, LinkReceiver, Reply, Request, RoleReply, Transport,
};
use zk_core::{NodePath, Session, SessionId};
use zk_sim::{Ensemble, SimTransport};

use crate::input::PATH;

/// Decodes data with each codec, into types that accept anything of the format and into others.
pub(crate) fn decode(data: &[u8]) {
    decode_with::<Vec<u8>>(&Raw, data);
    decode_with::<String>(&Text, data);
    decode_with::<String>(&Gzip::new(Text), data);
    decode_with::<Vec<u8>>(&Gzip::new(Raw).with_limit(100), data);
    decode_with::<serde_json::Value>(&Json, data);
    decode_with::<(u16, String)>(&Json, data);
    decode_with::<serde_json::Value>(&Gzip::new(Json), data);
    decode_with::<serde_json::Value>(&Toml, data);
    decode_with::<BTreeMap<String, (u16, String)>>(&Toml, data);
    decode_with::<serde_json::Value>(&Gzip::new(Toml), data);
}

fn decode_with<T: Debug>(codec: &impl Codec<T>, data: &[u8]) {
    drop(match codec.decode(data) {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    });
}

/// Reads the configuration of the ensemble through a session, as if it were the data of the recipe's node.
pub(crate) async fn read_config(ensemble: &Ensemble) {
    let transport = ConfigAtPath(ensemble.connect().transport().await);
    let servers = "simulated:2181".parse().expect("a connect string");
    let session = Session::with_transport(transport, servers);
    if let Ok(config) = session.config().await {
        drop(format!("{config:?} {:?}", config.version()));
        for address in config.client_addresses() {
            drop(address.to_string());
        }
    }
    drop(session.close().await);
}

/// A session whose ensemble keeps its configuration where others may write.
#[derive(Debug)]
struct ConfigAtPath(SimTransport);

impl Transport for ConfigAtPath {
    fn session_id(&self) -> SessionId {
        self.0.session_id()
    }

    fn session_timeout(&self) -> Duration {
        self.0.session_timeout()
    }

    fn link(&self) -> LinkReceiver {
        self.0.link()
    }

    fn broken(&self) -> Option<Instant> {
        self.0.broken()
    }

    fn draw(&self) -> Option<u64> {
        self.0.draw()
    }

    fn add_auth(&self, credentials: Credentials) -> Authenticating {
        self.0.add_auth(credentials)
    }

    fn server_role(&self) -> RoleReply {
        self.0.server_role()
    }

    fn submit(&self, request: Request) -> Reply {
        self.0.submit(match request {
            Request::GetConfig { watch: false } => Request::GetData {
                path: NodePath::parse(PATH).expect("a path"),
                watch: false,
            },
            other => other,
        })
    }

    fn close(&self) {
        self.0.close();
    }
}
