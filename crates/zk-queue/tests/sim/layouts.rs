//! The names and data of other clients.

use zk_core::ErrorClass;
use zk_core::codec::{Raw, Text};
use zk_queue::{Layout, LayoutError, Queue, QueueOptions, WorkQueue};
use zk_sim::Ensemble;

use crate::{LAYOUTS, PATH, all, children, queue_of, text, texts};

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

#[tokio::test(start_paused = true)]
async fn a_queue_in_a_namespace_and_one_at_the_top_work() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let spaced = session.with_namespace("/space/s").unwrap();
    for (session, path) in [(&session, "/top"), (&spaced, "/a/b")] {
        let queue = Queue::with_options(session, path, Text, &QueueOptions::default()).unwrap();
        queue.offer_all(texts(0..3)).await.unwrap();
        assert_eq!(all(&queue).await, texts(0..3));
    }
    assert!(ensemble.tree().node("/space/s/a/b").is_some());
}

/// The layouts of the queue and of the handle, if they are not the same.
async fn mismatch<T: Send + 'static>(queue: &Queue<T>) -> Option<(Layout, Layout)> {
    match queue.check_layout().await {
        Ok(()) => None,
        Err(LayoutError::Mismatch {
            found, expected, ..
        }) => Some((found, expected)),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_layout_is_that_with_which_the_node_was_created() {
    for layout in LAYOUTS {
        for is_offered in [false, true] {
            let ensemble = Ensemble::new(3);
            let (session, other) = (ensemble.connect().await, ensemble.connect().await);
            let queue = queue_of(&session, layout);
            if is_offered {
                queue.offer(&text("AB")).await.unwrap();
            } else {
                assert_eq!(mismatch(&queue).await, None, "there is no node");
            }
            for handle in LAYOUTS {
                let found = mismatch(&queue_of(&other, handle)).await;
                let expected = (handle != layout).then_some((layout, handle));
                assert_eq!(found, expected, "offered: {is_offered}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn items_show_the_layout_of_a_node_that_names_none() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session
        .create(PATH, "of an operator")
        .parents()
        .await
        .unwrap();
    let (ours, kazoos) = (
        queue_of(&session, Layout::Recipe),
        queue_of(&session, Layout::Kazoo),
    );
    assert_eq!(
        (mismatch(&ours).await, mismatch(&kazoos).await),
        (None, None),
        "it is empty"
    );
    let foreign = format!("{PATH}/entry-100-0000000000");
    session.create(&foreign, "theirs").await.unwrap();
    assert_eq!(mismatch(&ours).await, Some((Layout::Kazoo, Layout::Recipe)));
    assert_eq!(mismatch(&kazoos).await, None);
    // A queue with items of this handle has its layout, whatever else is there.
    session
        .create(format!("{PATH}/qn-0000000001"), "ours")
        .await
        .unwrap();
    assert_eq!(
        (mismatch(&ours).await, mismatch(&kazoos).await),
        (None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn the_error_names_both_layouts() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let work = WorkQueue::new(&session, "/jobs", Text).unwrap();
    work.offer(&"one".to_owned()).await.unwrap();
    let options = QueueOptions::default().with_layout(Layout::Curator);
    let items = Queue::with_options(&session, "/jobs/items", Text, &options).unwrap();
    let error = items.check_layout().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Outcome);
    assert_eq!(
        error.to_string(),
        "the queue /jobs/items has the layout native, and this handle the layout curator; open it with the layout that it has"
    );
}
