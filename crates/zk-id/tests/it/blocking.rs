//! Ids for threads without a runtime.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::thread;

use zk_core::blocking::block_on;
use zk_harness::Ensemble;
use zk_id::{BlockIds, Layout, NextError, Snowflakes};

use crate::{connect, soon};

#[test]
fn threads_without_a_runtime_claim_and_share_ids() {
    let ensemble = block_on(Ensemble::builder().servers(1).start()).expect("a server starts");
    let session = block_on(connect(&ensemble));
    let snowflakes = Snowflakes::new(&session, "/flakes", Layout::MANY_WORKERS).unwrap();
    let flakes = block_on(soon("a number is claimed", snowflakes.claim())).unwrap();
    let blocks = BlockIds::new(&session, "/blocks", NonZeroU32::new(10).unwrap()).unwrap();
    let (mut seen_flakes, mut seen_blocks) = (BTreeSet::new(), BTreeSet::new());
    thread::scope(|scope| {
        let take = || {
            let flakes: Vec<_> = (0..100)
                .map(|_| flakes.generator().next_blocking().unwrap())
                .collect();
            let blocks: Vec<_> = (0..25).map(|_| block_on(blocks.next()).unwrap()).collect();
            (flakes, blocks)
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        for thread in threads {
            let (flakes, blocks) = thread.join().unwrap();
            seen_flakes.extend(flakes);
            seen_blocks.extend(blocks);
        }
    });
    assert_eq!((seen_flakes.len(), seen_blocks.len()), (400, 100));
    let generator = flakes.generator().clone();
    block_on(flakes.release()).unwrap();
    let error = generator.next_blocking().unwrap_err();
    assert!(matches!(error, NextError::Lost(_)), "{error:?}");
    block_on(ensemble.down()).unwrap();
}
