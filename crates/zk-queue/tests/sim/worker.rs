//! Workers whose handlers or codecs fail without affecting other items.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::codec::{Codec, DecodeError, EncodeError, Text};
use zk_core::{Jitter, Session};
use zk_queue::{Delivery, WorkOptions, WorkQueue, WorkerOptions};
use zk_sim::Ensemble;

use crate::{PATH, pass, soon, texts};

fn three_times(session: &Session, codec: impl Codec<String> + 'static) -> WorkQueue<String> {
    let options = WorkOptions::default().with_max_deliveries(3);
    WorkQueue::with_options(session, PATH, codec, &options).expect("a good path")
}

fn quick() -> WorkerOptions {
    WorkerOptions::default()
        .with_concurrency(5)
        .with_delays(Duration::from_millis(100), Duration::from_secs(1))
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_ends_only_its_delivery() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = three_times(&session, Text);
    queue.offer_all(texts(0..20)).await.unwrap();
    let delivered = Mutex::new(Vec::new());
    let handler = async |delivery: Delivery<String>| {
        let item = delivery.item().clone();
        delivered
            .lock()
            .unwrap()
            .push((item, delivery.deliveries()));
        pass(Duration::from_millis(50)).await;
        assert_ne!(delivery.item(), "2", "two is too many");
        Ok::<_, String>(())
    };
    let quick = quick();
    let working = queue.work_until(pass(Duration::from_secs(10)), &quick, handler);
    let tally = soon("it ends", working).await.unwrap();
    assert_eq!((tally.acknowledged, tally.rejected), (19, 3));
    let mut delivered = delivered.into_inner().unwrap();
    delivered.retain(|(item, _)| item != "2");
    assert_eq!(delivered.len(), 19, "{delivered:?}");
    assert!(
        delivered.iter().all(|(_, times)| *times == 1),
        "{delivered:?}"
    );
    let letters = queue.dead_letters().await.unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].deliveries, 3);
    let reason = &letters[0].reason;
    assert!(reason.starts_with("the handler panicked: "), "{reason}");
    assert!(reason.contains("two is too many"), "{reason}");
}

/// A codec that panics instead of returning an error.
pub(crate) struct Panicking;

impl Codec<String> for Panicking {
    fn encode(&self, value: &String) -> Result<Vec<u8>, EncodeError> {
        Text.encode(value)
    }

    fn decode(&self, data: &[u8]) -> Result<String, DecodeError> {
        assert_ne!(data, b"2", "cannot happen");
        Text.decode(data)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_codec_ends_no_worker() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = three_times(&session, Panicking);
    queue.offer_all(texts(0..5)).await.unwrap();
    let handler = async |_| Ok::<_, String>(());
    let quick = quick();
    let working = queue.work_until(pass(Duration::from_secs(20)), &quick, handler);
    let tally = soon("it ends", working).await.unwrap();
    assert_eq!(tally.acknowledged, 4);
    let letters = queue.dead_letters().await.unwrap();
    let reasons: Vec<_> = letters.iter().map(|letter| &letter.reason).collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("the codec panicked: "), "{reasons:?}");
    assert!(reasons[0].contains("cannot happen"), "{reasons:?}");
}

/// Text of a later version, which begins with a marker that the earlier one does not know.
#[derive(Clone, Copy)]
struct Format {
    is_new: bool,
}

impl Codec<String> for Format {
    fn encode(&self, value: &String) -> Result<Vec<u8>, EncodeError> {
        let mark = if self.is_new { "v2 " } else { "" };
        Ok(format!("{mark}{value}").into_bytes())
    }

    fn decode(&self, data: &[u8]) -> Result<String, DecodeError> {
        let text = Text.decode(data)?;
        match text.strip_prefix("v2 ") {
            Some(text) if self.is_new => Ok(text.to_owned()),
            // As the codec of a real format does for another one.
            Some(_) => Text.decode(b"\xff"),
            None => Ok(text),
        }
    }
}

/// Producers and some of the consumers are deployed before the others.
#[tokio::test(start_paused = true)]
async fn items_of_a_new_format_wait_for_a_worker_that_decodes_them() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let work = |session, is_new| WorkQueue::new(session, PATH, Format { is_new }).unwrap();
    let (old, new) = (work(&one, false), work(&two, true));
    old.offer_all(texts(0..3)).await.unwrap();
    new.offer_all(texts(3..9)).await.unwrap();
    let done = Arc::new(Mutex::new(Vec::new()));
    let handler = async |delivery: Delivery<String>| {
        done.lock().unwrap().push(delivery.into_item());
        Ok::<_, String>(())
    };
    let quick = quick();
    let old_works = old.work_until(pass(Duration::from_secs(200)), &quick, handler);
    // The new consumers come three minutes later.
    let new_works = async {
        pass(Duration::from_secs(180)).await;
        let stop = pass(Duration::from_secs(80));
        new.work_until(stop, &quick, handler).await
    };
    let (old_tally, new_tally) = tokio::join!(old_works, new_works);
    assert_eq!(old.dead_letters().await.unwrap(), []);
    assert_eq!(old_tally.unwrap().acknowledged, 3);
    assert_eq!(new_tally.unwrap().acknowledged, 6);
    let mut done = done.lock().unwrap().clone();
    done.sort();
    assert_eq!(done, texts(0..9));
}

/// Both wait for the same moment, and the one that cannot decode the items knew it first.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_knows_the_format_gets_items_when_due() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let old = WorkQueue::new(&one, PATH, Format { is_new: false }).unwrap();
    let new = WorkQueue::new(&two, PATH, Format { is_new: true }).unwrap();
    new.offer_all(texts(3..23)).await.unwrap();
    assert!(old.try_claim().await.unwrap().is_none());
    let reads = async {
        for _ in 0..20 {
            let claim = new.claim().await.unwrap();
            assert_eq!(claim.deliveries(), 2);
            claim.acknowledge().await.unwrap();
        }
    };
    let began = tokio::time::Instant::now();
    tokio::select! {
        () = reads => {}
        claim = old.claim() => panic!("it cannot read {:?}", claim.unwrap().item()),
    }
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_item_is_dead_after_its_deliveries() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let new = three_times(&session, Format { is_new: true });
    let old = three_times(&session, Format { is_new: false });
    new.offer(&"strange".to_owned()).priority(7).await.unwrap();
    let began = tokio::time::Instant::now();
    for attempt in 0..3 {
        assert_eq!(old.dead_letters().await.unwrap(), [], "{attempt}");
        assert_eq!(old.len().await.unwrap(), 1, "{attempt}");
        assert!(old.try_claim().await.unwrap().is_none(), "{attempt}");
        assert!(old.try_claim().await.unwrap().is_none(), "{attempt}");
        // A second, doubling each time, and a quarter more for other consumers.
        pass(Duration::from_millis(1_250 << attempt)).await;
        pass(Duration::from_millis(50)).await;
    }
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    let letters = old.dead_letters().await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].deliveries, 3);
    assert!(letters[0].reason.starts_with("not readable: "));
    // It is unchanged, and a consumer that can decode it gets it when it is offered again.
    assert_eq!(old.dead_letter(&letters[0]).await.unwrap(), b"v2 strange");
    assert!(letters[0].name.starts_with("w-7-"), "{:?}", letters[0]);
    new.redrive(&letters[0]).await.unwrap();
    let claim = soon("it is there again", new.claim()).await.unwrap();
    assert_eq!((claim.item().as_str(), claim.deliveries()), ("strange", 1));
}

#[tokio::test(start_paused = true)]
async fn items_that_failed_together_come_back_one_by_one() {
    for (jitter, spread) in [(Jitter::Half, 3_000..=5_500), (Jitter::None, 0..=500)] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = WorkQueue::new(&session, PATH, Text).unwrap();
        queue.offer_all(texts(0..50)).await.unwrap();
        let again = Mutex::new(Vec::new());
        let began = tokio::time::Instant::now();
        let handler = async |delivery: Delivery<String>| {
            if delivery.deliveries() == 1 {
                return Err("not available");
            }
            again.lock().unwrap().push(began.elapsed());
            Ok(())
        };
        let delay = Duration::from_secs(10);
        let options = WorkerOptions::default()
            .with_concurrency(50)
            .with_delays(delay, delay)
            .with_jitter(jitter);
        let working = queue.work_until(pass(Duration::from_secs(20)), &options, handler);
        let stats = soon("it ends", working).await.unwrap();
        assert_eq!((stats.rejected, stats.acknowledged), (50, 50));
        let again = again.into_inner().unwrap();
        let (first, last) = (again.iter().min().unwrap(), again.iter().max().unwrap());
        assert!(*first >= delay / 2 && *last <= delay * 6 / 5, "{again:?}");
        assert!(
            spread.contains(&last.saturating_sub(*first).as_millis()),
            "{jitter:?}: {again:?}"
        );
    }
}
