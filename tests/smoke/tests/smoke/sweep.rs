//! A short sweep: requests of a lock are struck, one at a time, by each fault of a network.

use zk_sweep::{Stage, lock};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_granted_once_whatever_is_lost() {
    let stage = Stage::new().await;
    lock::sweep(&stage).await;
    stage.down().await;
}
