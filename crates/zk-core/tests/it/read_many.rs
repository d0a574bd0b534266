//! Many nodes that are read with few requests.

use zk_core::{Acl, AclEntry, Permissions, Session};
use zk_fault_proxy::Match;
use zk_harness::Ensemble;

use crate::{connect, with_ensemble};

/// Reads and lists nodes together and one by one, and compares the results.
async fn assert_as_single_reads(session: &Session, paths: &[String]) {
    let together = session.get_many(paths).await.unwrap();
    assert_eq!(together.len(), paths.len());
    for (path, found) in paths.iter().zip(together) {
        let alone = session.get(path).await;
        assert_eq!(
            found.map_err(|error| error.to_string()),
            alone.map_err(|error| error.to_string()),
            "{path}"
        );
    }
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let together = session.list_many(paths).await.unwrap();
    assert_eq!(together.len(), paths.len());
    for (path, found) in paths.iter().zip(together) {
        let alone = session.list(path).await.map(|(names, _)| sorted(names));
        assert_eq!(
            found.map(sorted).map_err(|error| error.to_string()),
            alone.map_err(|error| error.to_string()),
            "{path}"
        );
    }
}

/// Creates nodes, and returns their paths and those of some that cannot be read.
async fn create(session: &Session) -> Vec<String> {
    let secret = Acl::new([AclEntry::new(Permissions::ALL, "digest", "other:x")]);
    let mut paths = vec!["/".to_owned()];
    for node in 0..40 {
        let path = format!("/n{node}");
        session.create(&path, node.to_string()).await.unwrap();
        for child in 0..node % 4 {
            session.create(format!("{path}/{child}"), "").await.unwrap();
        }
        paths.push(path);
        if node % 10 == 3 {
            let path = format!("/secret{node}");
            session
                .create(&path, "x")
                .acl(secret.clone())
                .await
                .unwrap();
            paths.extend([
                path,
                format!("/missing{node}"),
                format!("not a path {node}"),
            ]);
        }
    }
    // Longer than servers read.
    paths.push(format!("/{}", "x".repeat(1 << 20)));
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_has_the_result_of_a_single_read() {
    with_ensemble(async |ensemble| {
        let raw = connect(ensemble).await;
        raw.create("/app/space", "").parents().await.unwrap();
        let below = format!("{}/app", ensemble.connect_string());
        let chrooted = Session::builder(below).connect().await.unwrap();
        let session = chrooted.with_namespace("/space").unwrap();
        for session in [&raw, &session] {
            let paths = create(session).await;
            assert_as_single_reads(session, &paths).await;
        }
        assert!(raw.get_many([""; 0]).await.unwrap().is_empty());
        assert_eq!(raw.counters().connection_losses, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_values_are_read_together_without_a_break() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let largest = vec![7; (1 << 20) - 200];
        let paths: Vec<_> = (0..31).map(|node| format!("/n{node}")).collect();
        for path in &paths {
            session.create(path, largest.as_slice()).await.unwrap();
        }
        for node in session.get_many(&paths).await.unwrap() {
            assert!(node.unwrap().0 == largest);
        }
        assert_eq!(session.counters().connection_losses, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_read_one_by_one_after_a_lost_multi_read() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.expect("a server starts");
    let session = connect(&ensemble).await;
    let paths = create(&session).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let lost = proxy.on(Match::multi_read()).nth(2).cut_on_reply();
    assert_as_single_reads(&session, &paths).await;
    assert_eq!((lost.count(), session.counters().connection_losses), (1, 1));
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_parts_of_the_reply_and_not_copies() {
    with_ensemble(async |ensemble| {
        let session = Session::builder(ensemble.connect_string());
        let session = session.connect().await.unwrap();
        for path in ["/a", "/b"] {
            session.create(path, [7; 1000]).await.unwrap();
        }
        let read = session.get_many(["/a", "/b"]).await.unwrap();
        let begins: Vec<_> = read
            .iter()
            .map(|read| read.as_ref().unwrap().0.as_ptr().addr())
            .collect();
        // Behind the first value come its stat, the header of the other read and the length of its value.
        assert_eq!(begins[1].wrapping_sub(begins[0]), 1000 + 68 + 9 + 4);
    })
    .await;
}
