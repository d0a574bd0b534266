//! Which public types may move between threads and be shared: tables the compiler checks.

use std::time::Duration;

use zk_id::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            BlockError, BlockIds, ClaimError, ComposeError, Generator, Id, IdRange, Layout, NextError, ParseIdError,
            Parts, SequenceError, SequenceIds, Snowflakes, SystemClock, WorkerIds, WorkerLoss, ZxidError, ZxidIds;
        // There is one of each lease.
        Send + Sync: Snowflake, WorkerId;
        Error + Send + Sync:
            BlockError, ClaimError, ComposeError, NextError, ParseIdError, SequenceError, ZxidError;
    }
}

#[test]
fn public_futures_are_send() {
    assert_send_futures! {
        (ids: BlockIds) => ids.next(), ids.next_many(7);
        (ids: Generator) => ids.next(), ids.next_many(7);
        (ids: SequenceIds) => ids.next();
        (ids: Snowflakes) => ids.claim();
        (ids: Snowflake) => ids.lost(), ids.release();
        (ids: WorkerIds) => ids.claim(), ids.holders(), ids.claim_timeout(Duration::ZERO);
        (worker: WorkerId) => worker.lost(), worker.release();
        (ids: ZxidIds) => ids.next();
    }
}
