//! A client of ZooKeeper for tokio that says exactly what became of each request.
//!
//! For locks, queues and the other recipes, and for retries, use `zk-core` and the crates on it.
//! This crate is for programs that want the protocol and nothing else: each request is tried once, on one connection.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use zk_wire::{Client, Config, Reply, Request};
//!
//! let config = Config::new(Duration::from_secs(10));
//! let client = Client::from_connect_string("zk1:2181,zk2:2181/app", config)?;
//! client.connected().await?;
//!
//! let get = Request::GetData { path: "/config".parse()?, watch: true };
//! let answer = client.request(&get).await?;
//! if let Reply::Data { data, stat } = answer.reply {
//!     println!("version {}: {} bytes", stat.version, data.as_slice().len());
//! }
//! let mut watch = answer.watch.ok_or("it was asked for")?;
//! println!("{:?}", watch.next().await);
//!
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//!
//! | for | see |
//! |---|---|
//! | requests, one by one or many at a time | [`Client::request`], [`Request`], [`Reply`] |
//! | several writes at once, several reads at once | [`Request::Multi`], [`Request::MultiRead`] |
//! | watches | [`Answer::watch`], [`Watch`] |
//! | the state of the connection and of the session | [`Client::states`], [`ConnectionState`] |
//! | the members of the ensemble | [`Request::GetConfig`], [`Request::Reconfig`] |
//! | hosts and chroot from a text | [`Client::from_connect_string`], [`ConnectString`] |
//! | all addresses of a name | every constructor of [`Client`] |
//! | hosts from SRV records, or from elsewhere | [`Client::with_host_provider`], `SrvHosts`, [`HostProvider`] |
//! | other hosts at run time | [`Client::update_hosts`], [`Client::rebalance`] |
//! | credentials | [`Config::auth`], [`Client::add_auth`] |
//! | encrypted connections | `Config::tls`, `Tls`, `Certificates` |
//! | SASL | [`Config::sasl`], [`sasl`], `DigestMd5` |
//! | reads while there is no quorum | [`Config::read_only`] |
//! | a session that moves to another process | [`Client::saved_session`], [`Config::resume`] |
//! | limits of requests, replies and memory | [`Config`] |
//!
//! # Guarantees
//!
//! 1. Every request that is accepted has exactly one outcome: done, refused by the server, not sent, or unknown.
//!    *Not sent* means that no server has received the whole request, nor will one. *Unknown* means that it was sent, and
//!    that its connection was lost or the server [does not say](ErrorCode::leaves_outcome_unknown) what became of it.
//! 2. Requests are sent in the order in which they were submitted, also over a reconnect. A server executes the
//!    requests of a connection in that order.
//! 3. A reply names the connection that it came over, and the newest transaction that the server had applied.
//! 4. Watches are set again on every new connection, however many there are. A one-shot watch reports what it missed.
//! 5. If the ensemble has ended the session, the client says so and makes no other one: also if a server grants a new
//!    session instead, as `ClickHouse` Keeper may. A session that only a read-only server knows is none of the
//!    ensemble: a writable server replaces it, and [`ConnectionState::Connected`] has another id.
//! 6. Memory is bounded. A request beyond a limit is a [`SubmitError`], except that those beyond
//!    [`max_in_flight`](Config::max_in_flight) wait; a reply beyond the limit is skipped
//!    ([`RequestErrorKind::Unreadable`]). Events of watches that are not read are not bounded.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, nothing has happened then, and no
//! event is lost.
//!
//! # Failure behaviour
//!
//! | event | what a caller sees |
//! |---|---|
//! | the connection breaks | requests without a reply are [unknown](RequestErrorKind::Unknown); others wait for the next connection, and are taken back if their futures are dropped |
//! | a server is silent for two thirds of the session timeout | as above; the connection is given up |
//! | a server cannot be connected to | the next one is tried after 750 ms, and after twice as long each time that the server is too slow again, up to half of the session timeout divided by the number of hosts, but at least 1 s |
//! | servers take long to grant a new session | after 750 ms, a second server is asked beside the first, and others once a third of the session timeout, or with more hosts the timeout divided by their number, is over for one of the two, but at least 1 s; this doubles with each round of all servers. The first grant is used, and each later one is closed, up to twice the session timeout after its handshake. (A server that requires SASL may refuse that; the session that it has granted stays until its timeout.) |
//! | servers take long to resume a session | one is asked at a time: for a third of the session timeout, or with more hosts the timeout divided by their number, but at least 1 s (1 s if it is the only one), then twice as long for each that was late; for two thirds of the session timeout as soon as so long a wait would not fit in after another one |
//! | no server grants a first session | `connected` and requests wait without end; bound them with a timeout |
//! | no server that has granted the session sends anything for 7/5 of the session timeout, and there is no connection | the session is [expired](SessionEnd::Expired) |
//! | the session timeout changes at a reconnect | [`ConnectionState::Connected`] has the new one |
//! | the credentials of the [`Config`] or the password for SASL are wrong | the session is over before it is connected: [`SessionEnd::AuthFailed`] |
//! | credentials that are added are refused | the request is refused, and the session is over: [`SessionEnd::AuthFailed`] |
//! | the server requires SASL, or another authentication that the session has not made | the first request is refused, and the session is over: [`SessionEnd::AuthRequired`] |
//! | a certificate is refused, by the client or by the server | [`Loss::Tls`], with what is wrong; the next host is dialled |
//! | a server does not prove that it knows the password, or has no SASL | [`Loss::Sasl`]; the next host is dialled |
//! | a server does not know an operation and drops the connection | unknown, with [`Loss::MaybeTooOld`] as long as the session has had no reply to an operation as new. With [`Config::assumed_release`] the request is [refused](SubmitError::Unsupported) instead |
//! | a server refuses to close the session | if its code says so, the session is expired, or its credentials are refused; otherwise [the connection is given up](Loss::CloseRefused), and the next one closes it |
//! | a server fails at a request, or gives up waiting for the others | [unknown](Loss::ServerFailed), with the code; the connection stays |
//! | the server is read-only | writes are refused with [`NOT_READ_ONLY`](ErrorCode::NOT_READ_ONLY), and writable servers are looked for |
//! | the hosts cannot be looked up | those of the last lookup are used; before the first one, [`Loss::NoHosts`] |
//! | the body of a reply is too long or makes no sense | [unreadable](RequestErrorKind::Unreadable); the connection stays, and other replies wait while a long one is skipped. One of more than 256 MiB, or that takes a minute, costs the connection |
//! | a path in a reply is none that a request can name, as `ClickHouse` Keeper may have them | as above; the events of such nodes are ignored |
//! | a message makes no sense otherwise | the connection is given up: [`Loss::Malformed`], [`Loss::OutOfOrder`] |
//! | the runtime of the client ends | requests are unknown or not sent, and the session is over: [`SessionEnd::RuntimeEnded`]; the ensemble expires it |
//!
//! A server is one address of a host: all addresses of all hosts are dialled in one random order, the next one at once
//! after a loss. A round without success is followed by a random pause of at most 500 ms, counted from the beginning of
//! its last dial. Names are looked up at the beginning, when a connection ends and after each such round; an address that
//! its name does not have any more is not dialled again, but a connection to it stays.
//!
//! # Parts
//!
//! - [`proto`]: the messages and frames, for every operation of the releases 3.4 to 3.9.
//! - [`session`]: the state machine, without I/O and without a clock: for other runtimes, and for tests.
//! - [`sasl`]: the interface of a mechanism, and DIGEST-MD5.
//! - [`Client`]: a task that drives a session over TCP, with TLS or without, and its handle.
//!
//! # Features
//!
//! - `srv`: `SrvHosts`, hosts from the SRV records of a name.
//! - `tls`: encrypted connections, with a configuration of [rustls] that the caller makes, or with certificates in PEM and
//!   a provider of cryptography that the caller chooses.
//! - `ring`: `tls`, and this cryptography for certificates in PEM. Another one is given with
//!   `Certificates::with_provider`, or in a configuration of rustls.
//! - `digest-md5`: the SASL mechanism DIGEST-MD5.
//!
//! [rustls]: https://docs.rs/rustls

mod acl;
mod chroot;
mod client;
mod config;
mod connect_string;
mod driver;
mod host_provider;
mod node_data;
mod path;
pub mod proto;
pub mod sasl;
mod server_role;
pub mod session;
mod shared;
mod stat;
#[cfg(feature = "tls")]
mod tls;

pub use acl::{Acl, AclEntry, Permissions};
pub use client::{Answer, Client, RequestError, RequestErrorKind, Watch};
pub use config::{Config, SavedSession};
pub use connect_string::{ConnectString, ParseConnectStringError};
#[cfg(feature = "srv")]
pub use host_provider::SrvHosts;
pub use host_provider::{HostProvider, HostsError, HostsFuture};
pub use node_data::NodeData;
pub use path::{IntoNodePath, NodePath, ParsePathError};
pub use proto::{
    CreateMode, Credentials, ErrorCode, Identity, MultiOp, MultiRead, MultiRefusal, MultiResult,
    NewNode, ReadResult, Release, Reply, Request, SaslToken, WatchEvent, WatchEventKind, WatchKind,
};
pub use server_role::ServerRole;
pub use session::{CertificateRefusal, Host, Loss, Server, SessionEnd, SubmitError, TlsFailure};
pub use shared::ConnectionState;
pub use stat::{SessionId, Stat};
#[cfg(feature = "tls")]
pub use tls::Certificates;
#[cfg(feature = "tls")]
pub use tls::InvalidServerName;
#[cfg(feature = "tls")]
pub use tls::Pem;
#[cfg(feature = "tls")]
pub use tls::Tls;

/// The version of rustls that [`Tls`] takes a configuration of.
#[cfg(feature = "tls")]
pub use rustls;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
