//! Listeners: any number of them, and none in the way of another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use zk_core::WatchEvent::{Created, DataChanged};
use zk_core::{ListenerEnd, Update};
use zk_sim::Ensemble;

use crate::{at, pass, soon, without_zxid};

#[tokio::test(start_paused = true)]
async fn a_slow_or_reentrant_listener_delays_no_other() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let other = sim.connect().await;
    let (tell, mut received) = mpsc::unbounded_channel();
    let asking = session.subscribe("/a").only([Created]).await.unwrap();
    let reader = session.clone();
    let asks = asking.for_each(move |update| {
        let (session, tell) = (reader.clone(), tell.clone());
        async move {
            // It takes its time, then asks the session, waits for the answer, and changes what it listens to.
            pass(Duration::from_secs(10)).await;
            let found = session
                .exists("/a")
                .await
                .expect("a session that is not held up");
            drop(session.set("/a", "x").await);
            tell.send((without_zxid(update), found.is_some()))
                .expect("the test listens");
        }
    });
    let never = session
        .subscribe("/a")
        .await
        .unwrap()
        .for_each(|_| std::future::pending());
    let quick = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&quick);
    let notes = session
        .subscribe("/a")
        .await
        .unwrap()
        .for_each(move |update| {
            seen.lock().unwrap().push(without_zxid(update));
            async {}
        });
    pass(Duration::from_millis(10)).await;
    other.create("/a", "").await.unwrap();
    pass(Duration::from_millis(10)).await;
    assert_eq!(
        *quick.lock().unwrap(),
        [Update::Resynchronize, at("/a", Created)]
    );
    assert_eq!(
        soon("the slow one", received.recv()).await,
        Some((Update::Resynchronize, true))
    );
    assert_eq!(
        soon("the slow one", received.recv()).await,
        Some((at("/a", Created), true))
    );
    assert_eq!(quick.lock().unwrap().last(), Some(&at("/a", DataChanged)));
    drop((asks, never, notes));
    pass(Duration::from_millis(20)).await;
    assert_eq!(sim.watch_count(), 0);
    assert!(
        received.recv().await.is_none(),
        "the function is gone with its listener"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_one_listener_and_is_reported() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let others = Arc::new(Mutex::new(0));
    let count = Arc::clone(&others);
    let fine = session
        .subscribe("/a")
        .await
        .unwrap()
        .for_each_blocking(move |_| *count.lock().unwrap() += 1);
    let at_once = session.subscribe("/a").await.unwrap().for_each(|update| {
        assert_eq!(update, Update::Resynchronize, "no more");
        async {}
    });
    let later = session
        .subscribe("/a")
        .await
        .unwrap()
        .for_each(|_| async { panic!("later") });
    let blocking = session
        .subscribe("/a")
        .await
        .unwrap()
        .for_each_blocking(|_| panic!("{}", "blocking"));
    session.create("/a", "").await.unwrap();
    assert_eq!(
        soon("a panic", later.ended()).await,
        ListenerEnd::Panicked("later".to_owned())
    );
    assert_eq!(
        soon("a panic", blocking.ended()).await,
        ListenerEnd::Panicked("blocking".to_owned())
    );
    match soon("a panic", at_once.ended()).await {
        ListenerEnd::Panicked(message) => assert!(message.contains("no more"), "{message}"),
        end => panic!("{end:?}"),
    }
    assert_eq!(fine.end(), None);
    session.close().await.unwrap();
    assert_eq!(soon("the end", fine.ended()).await, ListenerEnd::Finished);
    assert_eq!(
        *others.lock().unwrap(),
        3,
        "the beginning, the change and the end"
    );
}
