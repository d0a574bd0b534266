//! Which public types may move between threads and be shared: a table the compiler checks.

use zk_id::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_future<T: 'static, F: Future + Send>(_: impl Fn(&'static T) -> F) {}
fn is_send_value<T: Send>(_: &T) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        BlockError,
        BlockIds,
        ClaimError,
        ComposeError,
        Generator,
        Id,
        Layout,
        WorkerLoss,
        NextError,
        ParseIdError,
        Parts,
        IdRange,
        SequenceError,
        SequenceIds,
        Snowflakes,
        SystemClock,
        WorkerIds,
        ZxidError,
        ZxidIds,
    );
    // There is one of each lease.
    is_send::<Snowflake>();
    is_sync::<Snowflake>();
    is_send::<WorkerId>();
    is_sync::<WorkerId>();
    is_error::<BlockError>();
    is_error::<ClaimError>();
    is_error::<ComposeError>();
    is_error::<NextError>();
    is_error::<ParseIdError>();
    is_error::<SequenceError>();
    is_error::<ZxidError>();
}

#[test]
fn public_futures_are_send() {
    is_send_future(BlockIds::next);
    is_send_future(|ids: &BlockIds| ids.next_many(7));
    is_send_future(Generator::next);
    is_send_future(|ids: &Generator| ids.next_many(7));
    is_send_future(SequenceIds::next);
    is_send_future(Snowflakes::claim);
    is_send_future(Snowflake::lost);
    is_send_future(WorkerIds::claim);
    is_send_future(WorkerIds::holders);
    is_send_future(|ids: &WorkerIds| ids.claim_timeout(std::time::Duration::ZERO));
    is_send_future(WorkerId::lost);
    is_send_future(ZxidIds::next);
    let _ = |ids: Snowflake| is_send_value(&ids.release());
    let _ = |worker: WorkerId| is_send_value(&worker.release());
}
