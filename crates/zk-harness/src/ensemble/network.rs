//! Provides the connection strings of an ensemble, and starts its fault proxies and links.

#[cfg(feature = "tls")]
use std::sync::Arc;

use zk_fault_proxy::FaultProxy;
use zk_fault_proxy::links::QuorumLinks;

use super::Ensemble;
#[cfg(doc)]
use super::EnsembleBuilder;
#[cfg(feature = "tls")]
use crate::certificates::{Certificates, Flaw};
use crate::error::Error;
use crate::server::Server;

/// A proxy that ends with its ensemble, even if there are other handles.
#[derive(Debug)]
pub(super) struct Proxy(FaultProxy);

/// Links that end with their ensemble, even if there are other handles.
#[derive(Debug)]
pub(super) struct Links(QuorumLinks);

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Ensemble {
    /// Returns the connection string for clients: `host:port,host:port,…`.
    ///
    /// With [fault proxies](EnsembleBuilder::proxied) it contains their addresses;
    /// [`direct_connect_string`](Self::direct_connect_string) contains those of the servers.
    pub fn connect_string(&self) -> String {
        let proxied = self.plan.members.iter().map(|member| member.proxy_port);
        match proxied.collect::<Option<Vec<u16>>>() {
            Some(ports) => {
                let address = |port: &u16| format!("{}:{port}", std::net::Ipv4Addr::LOCALHOST);
                ports.iter().map(address).collect::<Vec<_>>().join(",")
            }
            None => self.direct_connect_string(),
        }
    }

    /// Returns the connection string for clients with TLS, which contains the servers' addresses.
    ///
    /// # Errors
    ///
    /// [`Error::NotPresent`] if the ensemble was started without [`EnsembleBuilder::tls`].
    pub fn secure_connect_string(&self) -> Result<String, Error> {
        let ports = self.servers.iter().map(Server::secure_port);
        let ports: Option<Vec<_>> = ports.collect();
        let address = |port: &u16| format!("{}:{port}", std::net::Ipv4Addr::LOCALHOST);
        let text = ports.map(|ports| ports.iter().map(address).collect::<Vec<_>>().join(","));
        text.ok_or(NO_TLS)
    }

    /// Returns the certificates of the servers and of clients.
    ///
    /// # Errors
    ///
    /// [`Error::NotPresent`] if the ensemble was started without [`EnsembleBuilder::tls`].
    #[cfg(feature = "tls")]
    pub fn certificates(&self) -> Result<Certificates, Error> {
        if self.plan.spec.tls {
            Ok(Certificates::new(Arc::clone(&self.plan)))
        } else {
            Err(NO_TLS)
        }
    }

    /// Replaces the certificates that servers show to clients, restarts these servers, and waits until all serve.
    ///
    /// The first server gets a certificate with the first flaw, or one without, and so on; the servers after the last
    /// flaw keep theirs.
    ///
    /// # Errors
    ///
    /// Those of [`certificates`](Self::certificates), [`Certificates::replace_server`], [`Server::restart`] and
    /// [`wait_serving`](Self::wait_serving). Some servers may have been restarted then.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may leave one server stopped.
    #[cfg(feature = "tls")]
    pub async fn replace_certificates(
        &self,
        flaws: impl IntoIterator<Item = Option<Flaw>>,
    ) -> Result<(), Error> {
        let certificates = self.certificates()?;
        for (server, flaw) in self.servers.iter().zip(flaws) {
            certificates.replace_server(server.id(), flaw)?;
            server.restart().await?;
        }
        self.wait_serving().await
    }

    /// Returns whether it was started with fault proxies or links, which [`start_proxies`](Self::start_proxies) restarts.
    pub fn has_proxies(&self) -> bool {
        let members = &self.plan.members;
        members
            .iter()
            .any(|member| member.proxy_port.is_some() || !member.relays.is_empty())
    }

    /// Returns the connection string of the servers themselves.
    ///
    /// It omits a server in a container that is stopped or disconnected from its network, because that has no port.
    pub fn direct_connect_string(&self) -> String {
        let addresses = self.servers.iter().map(Server::client_address);
        addresses
            .filter(|address| address.port() != 0)
            .map(|address| address.to_string())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Returns a handle to the fault proxies in front of the servers.
    ///
    /// # Errors
    ///
    /// [`Error::NotPresent`] if the ensemble was started without [`EnsembleBuilder::proxied`].
    pub fn proxy(&self) -> Result<FaultProxy, Error> {
        self.proxy
            .as_ref()
            .map(|proxy| proxy.0.clone())
            .ok_or(Error::NotPresent {
                what: "fault proxies",
                setting: "proxied",
            })
    }

    /// Returns a handle to the links between the servers.
    ///
    /// # Errors
    ///
    /// [`Error::NotPresent`] if the ensemble was started without [`EnsembleBuilder::quorum_links`], or has one server.
    pub fn links(&self) -> Result<QuorumLinks, Error> {
        self.links
            .as_ref()
            .map(|links| links.0.clone())
            .ok_or(Error::NotPresent {
                what: "links between its servers",
                setting: "quorum_links",
            })
    }

    /// Starts the fault proxies and links of an ensemble that was [attached to](Self::attach), on their former ports, or
    /// does nothing if they run in this process.
    ///
    /// # Errors
    ///
    /// [`Error::Proxy`] if a port is in use, for example by another process that has attached to the ensemble.
    pub fn start_proxies(&mut self) -> Result<(), Error> {
        let members = self.plan.members.iter().zip(&self.servers);
        let proxied: Vec<_> = members
            .filter_map(|(member, server)| {
                Some((member.id, member.proxy_port?, server.client_address()))
            })
            .collect();
        if self.proxy.is_none() && !proxied.is_empty() {
            self.proxy = Some(Proxy(FaultProxy::start_on(proxied)?));
        }
        let links = self.plan.links();
        if self.links.is_none() && !links.is_empty() {
            self.links = Some(Links(QuorumLinks::start(&links)?));
        }
        Ok(())
    }
}

const NO_TLS: Error = Error::NotPresent {
    what: "certificates",
    setting: "tls",
};
