//! The names and data of other clients.

use zk_core::codec::Raw;
use zk_queue::Layout;
use zk_queue::Queue;
use zk_queue::QueueOptions;
use zk_sim::Ensemble;

use crate::PATH;
use crate::all;
use crate::children;
use crate::queue_of;
use crate::text;
use crate::texts;

// covers: Q1 Q4
#[tokio::test(start_paused = true)]
async fn nodes_are_those_of_the_layout() {
    for (layout, name) in [
        (Layout::Recipe, "qn-0000000000"),
        (Layout::Native, "w-0-0-0-0000000000"),
        (Layout::Kazoo, "entry-100-0000000000"),
        (Layout::Curator, "queue-0000000000"),
        (Layout::CuratorPriority, "queue-1000000000000000000"),
        (Layout::CuratorDelay, "queue-|00000000|0000000000"),
    ] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = queue_of(&session, layout);
        queue.offer(&text("AB")).await.unwrap();
        assert_eq!(children(&ensemble, PATH), [name]);
        let path = format!("{PATH}/{name}");
        let data = ensemble.tree().node(&path).unwrap().data().to_vec();
        let is_framed = name.starts_with("queue-");
        let expected: &[u8] = if is_framed {
            b"\x00\x01\x00\x01\x01\x00\x00\x00\x02AB\x02"
        } else {
            b"AB"
        };
        assert_eq!(data, expected, "{layout:?}");
        assert_eq!(all(&queue).await, ["AB"]);
    }
}

// covers: Q1
#[tokio::test(start_paused = true)]
async fn items_that_share_a_node_are_taken_one_by_one() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = queue_of(&session, Layout::Curator);
    queue.offer(&text("0")).await.unwrap();
    let several =
        b"\x00\x01\x00\x01\x01\x00\x00\x00\x011\x01\x00\x00\x00\x012\x01\x00\x00\x00\x013\x02";
    let several = session.create(format!("{PATH}/queue-"), several.to_vec());
    several.sequential().await.unwrap();
    queue.offer(&text("4")).await.unwrap();
    assert_eq!(queue.poll().await.unwrap().as_deref(), Some("0"));
    assert_eq!(queue.poll().await.unwrap().as_deref(), Some("1"));
    // Another consumer continues.
    assert_eq!(
        queue_of(&other, Layout::Curator)
            .poll()
            .await
            .unwrap()
            .as_deref(),
        Some("2")
    );
    assert_eq!(all(&queue).await, ["3", "4"]);
}

// covers: Q2
#[tokio::test(start_paused = true)]
async fn a_malformed_frame_stays_and_the_next_item_is_taken() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue_of(&session, Layout::Curator);
    queue.offer(&text("0")).await.unwrap();
    for (at, data) in [b"no frame".as_slice(), b"\x00\x01\x00\x01\x02", b""]
        .into_iter()
        .enumerate()
    {
        let path = format!("{PATH}/queue-{:010}", at + 5);
        session.create(path, data.to_vec()).await.unwrap();
    }
    assert_eq!(all(&queue).await, ["0"]);
    assert_eq!(children(&ensemble, PATH).len(), 3);
}

// covers: Q1
#[tokio::test(start_paused = true)]
async fn an_unusable_path_is_refused_with_the_reason() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let options = QueueOptions::default();
    let error = Queue::with_options(&session, "/", Raw, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"a queue cannot be at the root; give it a path of its own, like "/queue""#
    );
    let error = Queue::new(&session, "a", Raw).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"path "a" does not start with '/'; write "/a""#
    );
}

// covers: Q1
#[tokio::test(start_paused = true)]
async fn a_queue_in_a_namespace_and_one_at_the_top_work() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let spaced = session.with_namespace("/space/s").unwrap();
    for (session, path) in [(&session, "/top"), (&spaced, "/a/b")] {
        let queue = Queue::with_options(
            session,
            path,
            zk_core::codec::Text,
            &QueueOptions::default(),
        )
        .unwrap();
        queue.offer_all(texts(0..3)).await.unwrap();
        assert_eq!(all(&queue).await, texts(0..3));
    }
    assert!(ensemble.tree().node("/space/s/a/b").is_some());
}
