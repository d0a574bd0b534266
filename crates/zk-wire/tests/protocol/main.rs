//! The messages of the protocol, compared with those of others. No test here starts a server.

#![cfg(test)]

mod fault_proxy;
mod java_client;
mod java_requests;
