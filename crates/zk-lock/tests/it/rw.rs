//! A writer that becomes a reader.

use zk_lock::RwLock;

use crate::{connect, names, soon, until_enlisted};

const PATH: &str = "/rw";

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_for_the_writer_that_became_a_reader() {
    crate::with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        for _ in 0..8 {
            let ours = RwLock::new(&one, PATH).unwrap();
            let theirs = RwLock::new(&other, PATH).unwrap();
            let writer = ours.writer().acquire().await.unwrap();
            let waiting = tokio::spawn(async move { theirs.writer().acquire().await.unwrap() });
            until_enlisted(&one, PATH, 2).await;
            let reader = writer.downgrade().await.unwrap();
            for _ in 0..3 {
                other.sync(PATH).with_quorum().await.unwrap();
            }
            assert!(!waiting.is_finished(), "there are a reader and a writer");
            assert!(reader.is_valid());
            reader.release().await.unwrap();
            let writer = soon("the writer is granted the lock", waiting)
                .await
                .unwrap();
            writer.release().await.unwrap();
        }
        assert_eq!(names(&one, PATH).await, [""; 0]);
    })
    .await;
}
