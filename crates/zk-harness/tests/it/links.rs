//! Tests delays, blocks and cuts of the links between real servers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use zk_fault_proxy::Close;
use zk_harness::{Ensemble, Error, Role};

use crate::support::raw::{NO_NODE, OK, RawClient, request};
use crate::support::{eventually, in_memory};

const SOON: Duration = Duration::from_secs(60);

async fn linked(version: &str) -> Ensemble {
    in_memory(3)
        .zookeeper(version)
        .quorum_links(true)
        .start()
        .await
        .unwrap()
}

/// Waits until a server other than `old` leads.
async fn wait_successor(ensemble: &Ensemble, old: u32) -> u32 {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let status = ensemble.status().await;
        let leader = status.health.leader().map(|at| status.servers[at].id);
        match leader {
            Some(leader) if leader != old => return leader,
            _ => assert!(tokio::time::Instant::now() < deadline, "{}", status.seen()),
        }
    }
}

/// Waits until a server has this role; `None` for not serving.
async fn wait_role(ensemble: &Ensemble, server: u32, role: Option<Role>) {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let status = ensemble.status().await;
        let seen = status.servers.iter().find(|seen| seen.id == server);
        if seen.unwrap().role == role {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{}", status.seen());
    }
}

/// Returns the connections between servers that bypass the links.
fn direct_connections(ensemble: &Ensemble) -> Vec<String> {
    let peers: BTreeSet<u16> = ensemble
        .servers()
        .iter()
        .flat_map(|server| own_ports(&server.directory(), server.id()))
        .collect();
    let mut found = Vec::new();
    for server in ensemble.servers() {
        let Some(pid) = server.pid() else { continue };
        let own = sockets_of(pid);
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
        let table6 = std::fs::read_to_string(format!("/proc/{pid}/net/tcp6")).unwrap_or_default();
        for line in table.lines().chain(table6.lines()).skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            let port = |address: &str| {
                let port = address.rsplit(':').next().unwrap();
                u16::from_str_radix(port, 16).unwrap_or(0)
            };
            if own.contains(fields[9]) && peers.contains(&port(fields[2])) {
                found.push(format!("server {}: {line}", server.id()));
            }
        }
    }
    found
}

/// Returns the quorum and election ports of a server from its own configuration.
fn own_ports(directory: &std::path::Path, id: u32) -> Vec<u16> {
    let file = directory.join(format!("zoo-{id}.cfg"));
    let text = std::fs::read_to_string(file).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("server.{id}=")));
    // The address for clients is behind the semicolon.
    let own = line.unwrap().split(';').next().unwrap();
    let ports = own.split(':').skip(1);
    ports.map(|port| port.parse().unwrap()).collect()
}

/// Returns the inodes of a process's sockets.
fn sockets_of(pid: i32) -> BTreeSet<String> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let inodes = links.filter_map(|link| {
        let link = link.to_str()?.strip_prefix("socket:[")?.to_owned();
        Some(link.strip_suffix(']')?.to_owned())
    });
    inodes.collect()
}

async fn an_isolated_leader_is_replaced(version: &str) {
    let ensemble = linked(version).await;
    let links = ensemble.links().unwrap();
    assert!(
        links.all().connections() >= 5,
        "3 for elections, 2 for the quorum"
    );
    assert_eq!(direct_connections(&ensemble), [""; 0]);
    let old = ensemble.leader().await.unwrap().id();
    links.isolate(old).unwrap();
    let new = wait_successor(&ensemble, old).await;
    wait_role(&ensemble, old, None).await;
    let mut raw = RawClient::open(ensemble.server(new).unwrap().client_address())
        .await
        .unwrap();
    assert_eq!(
        raw.call(&request::create("/without-it"))
            .await
            .unwrap()
            .code,
        OK
    );
    assert_eq!(direct_connections(&ensemble), [""; 0]);

    links.heal();
    ensemble.wait_serving().await.unwrap();
    assert_eq!(ensemble.leader().await.unwrap().id(), new);
    let mut raw = RawClient::open(ensemble.server(old).unwrap().client_address())
        .await
        .unwrap();
    assert_eq!(
        raw.call(&request::exists("/without-it"))
            .await
            .unwrap()
            .code,
        OK
    );
    assert_eq!(direct_connections(&ensemble), [""; 0]);

    // Each in turn is killed and restarted, so that each has opened connections to each other.
    for server in ensemble.servers() {
        server.kill().await.unwrap();
        ensemble.wait_quorum().await.unwrap();
        server.start().unwrap();
        ensemble.wait_serving().await.unwrap();
        assert_eq!(direct_connections(&ensemble), [""; 0]);
    }
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn an_isolated_leader_is_replaced_until_healed_on_3_8() {
    an_isolated_leader_is_replaced("3.8").await;
}

#[tokio::test]
async fn an_isolated_leader_is_replaced_until_healed_on_3_9() {
    an_isolated_leader_is_replaced("3.9").await;
}

async fn a_slow_link_makes_a_follower_lag(version: &str) {
    let ensemble = linked(version).await;
    let leader = ensemble.leader().await.unwrap();
    let follower = ensemble
        .servers()
        .iter()
        .find(|server| server.id() != leader.id())
        .unwrap();
    let mut writer = RawClient::open(leader.client_address()).await.unwrap();
    let mut reader = RawClient::open(follower.client_address()).await.unwrap();
    // A fifth of the sync limit.
    let lag = Duration::from_secs(1);
    let links = ensemble.links().unwrap();
    links
        .one_way(leader.id(), follower.id())
        .unwrap()
        .delay(lag);

    for name in ["seen-late", "synced"] {
        let (path, since) = write_unseen(name, &mut writer, &mut reader, lag).await;
        if name == "synced" {
            assert_eq!(reader.call(&request::sync("/")).await.unwrap().code, OK);
            assert_eq!(reader.call(&request::exists(&path)).await.unwrap().code, OK);
            continue;
        }
        while reader.call(&request::exists(&path)).await.unwrap().code != OK {
            assert!(since.elapsed() < SOON, "the follower does not show {path}");
        }
        assert!(since.elapsed() >= lag, "{:?}", since.elapsed());
    }
    ensemble.down().await.unwrap();
}

/// Creates a node through the leader that the follower does not show yet; returns its path and the time before.
async fn write_unseen(
    name: &str,
    writer: &mut RawClient,
    reader: &mut RawClient,
    lag: Duration,
) -> (String, Instant) {
    for attempt in 0..20 {
        let path = format!("/{name}-{attempt}");
        let since = Instant::now();
        assert_eq!(writer.call(&request::create(&path)).await.unwrap().code, OK);
        let seen = reader.call(&request::exists(&path)).await.unwrap().code;
        // A slower attempt proves nothing, and is repeated.
        if since.elapsed() < lag {
            assert_eq!(seen, NO_NODE, "{path} after {:?}", since.elapsed());
            return (path, since);
        }
    }
    panic!("no write and read took less than {lag:?}");
}

#[tokio::test]
async fn a_delayed_follower_lags_unless_it_syncs_on_3_8() {
    a_slow_link_makes_a_follower_lag("3.8").await;
}

#[tokio::test]
async fn a_delayed_follower_lags_unless_it_syncs_on_3_9() {
    a_slow_link_makes_a_follower_lag("3.9").await;
}

#[tokio::test]
async fn a_follower_with_blocked_inbound_links_leaves_and_rejoins() {
    let ensemble = linked("3.9").await;
    let leader = ensemble.leader().await.unwrap().id();
    let follower = if leader == 1 { 2 } else { 1 };
    let links = ensemble.links().unwrap();
    let link = links.one_way(leader, follower).unwrap();
    link.block();
    wait_role(&ensemble, follower, None).await;
    assert_eq!(ensemble.leader().await.unwrap().id(), leader);
    link.unblock();
    ensemble.wait_serving().await.unwrap();
    assert_eq!(direct_connections(&ensemble), [""; 0]);
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn servers_reconnect_after_a_cut_and_proxies_stay() {
    let ensemble = in_memory(3)
        .quorum_links(true)
        .proxied(true)
        .start()
        .await
        .unwrap();
    let links = ensemble.links().unwrap();
    let proxy = ensemble.proxy().unwrap();
    for close in [Close::Fin, Close::Rst] {
        let leader = ensemble.leader().await.unwrap();
        links.around(leader.id()).unwrap().cut(close);
        // The status may not show the cut yet, but the write of the probe needs the links.
        ensemble.wait_serving().await.unwrap();
        leader.kill().await.unwrap();
        ensemble.wait_quorum().await.unwrap();
        leader.start().unwrap();
        ensemble.wait_serving().await.unwrap();
        let address = proxy.address(leader.id()).unwrap();
        let mut raw = RawClient::open(address).await.unwrap();
        assert_eq!(raw.call(&request::exists("/")).await.unwrap().code, OK);
        assert_eq!(raw.call(&request::close()).await.unwrap().code, OK);
    }
    let ports = links.clone();
    ensemble.down().await.unwrap();
    eventually("no connection is left", || ports.all().connections() == 0);
}

#[tokio::test]
async fn unsupported_links_are_refused() {
    let refused = |text: &str, error: Error| assert_eq!(error.to_string(), text);
    refused(
        "quorum_links = 33: must be at most 32, because the links need two ports for each pair of servers",
        in_memory(33).quorum_links(true).start().await.unwrap_err(),
    );
    refused(
        "properties.reconfigEnabled = \"true\": not supported with quorum_links, because servers would announce their \
         own ports; omit one of them",
        in_memory(3)
            .quorum_links(true)
            .property("reconfigEnabled", "true")
            .start()
            .await
            .unwrap_err(),
    );
    let ensemble = in_memory(1).quorum_links(true).start().await.unwrap();
    refused(
        "the ensemble has no links between its servers: start it with `Ensemble::builder().quorum_links(true)`",
        ensemble.links().unwrap_err(),
    );
    ensemble.down().await.unwrap();
}
