//! The examples do what they say.

#[path = "../../examples/guarded_counter/count.rs"]
mod count;

use crate::with_ensemble;

// covers: L1 L12
#[tokio::test(flavor = "multi_thread")]
async fn guarded_counter_counts_every_step_once() {
    with_ensemble(async |ensemble| {
        let store = count::count(&ensemble.connect_string(), 4, 10)
            .await
            .unwrap();
        assert_eq!((store.value, store.tokens.len()), (40, 40));
        assert!(store.tokens.is_sorted());
    })
    .await;
}
