//! Numbers of sequential nodes, which do not accumulate.

use std::collections::BTreeSet;
use std::time::Duration;

use zk_core::ErrorClass;
use zk_id::{SequenceError, SequenceIds};
use zk_sim::{Counters, Ensemble, matching};

use crate::{PATH, children, pass, polled, soon};

#[tokio::test(start_paused = true)]
async fn numbers_rise_over_all_processes_and_no_node_is_left() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let ids = [&one, &other].map(|session| SequenceIds::new(session, PATH).unwrap());
    for expected in 0..100 {
        let id = ids[usize::from(expected % 3 == 0)].next().await.unwrap();
        assert_eq!(id, expected);
        assert!(children(&ensemble, PATH).len() < 5, "nodes accumulate");
    }
    one.settled().await;
    other.settled().await;
    assert_eq!(children(&ensemble, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_number_is_given_out_twice_whatever_is_lost() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ids = SequenceIds::new(&session, PATH).unwrap();
    let mut seen = BTreeSet::new();
    for round in 0..60 {
        let script = ensemble.on(matching::writes());
        drop(match round % 3 {
            0 => script.lose_reply(),
            1 => script.lose_request(),
            _ => script.stall_then_move(1 + round % 2),
        });
        match soon("there is an answer", ids.next()).await {
            Ok(id) => assert!(seen.last() < Some(&id) && seen.insert(id)),
            Err(error) => assert_eq!(error.class(), ErrorClass::Recoverable, "{error}"),
        }
    }
    assert!(seen.len() > 50);
    session.settled().await;
    pass(Duration::from_secs(10)).await;
    assert_eq!(children(&ensemble, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn numbers_that_are_used_up_are_refused() {
    for counters in [Counters::Stick, Counters::Wrap] {
        let ensemble = Ensemble::builder().counters(counters).build();
        let session = ensemble.connect().await;
        let ids = SequenceIds::new(&session, PATH).unwrap();
        ids.next().await.unwrap();
        ensemble.set_counter(PATH, i32::MAX - 1030);
        let mut given = 0;
        let error = loop {
            match ids.next().await {
                Ok(_) => given += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(given, 7);
        assert!(
            matches!(error, SequenceError::SequenceExhausted { .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("continue with another path, and add 2147483647"),
            "{text}"
        );
        ensemble.set_counter(PATH, i32::MAX);
        for _ in 0..5 {
            assert!(matches!(
                ids.next().await,
                Err(SequenceError::SequenceExhausted { .. })
            ));
        }
        session.settled().await;
        assert_eq!(children(&ensemble, PATH), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_that_restart_are_refused() {
    let ensemble = Ensemble::builder()
        .reap_every(Duration::from_millis(50))
        .build();
    let session = ensemble.connect().await;
    let ids = SequenceIds::new(&session, PATH).unwrap();
    assert_eq!(
        (ids.next().await.unwrap(), ids.next().await.unwrap()),
        (0, 1)
    );
    // It is no container: the ensemble does not remove it.
    pass(Duration::from_secs(3600)).await;
    assert_eq!(ids.next().await.unwrap(), 2);
    session.settled().await;
    session.delete(PATH).await.unwrap();
    let error = ids.next().await.unwrap_err();
    assert!(
        matches!(
            error,
            SequenceError::SequenceRestarted {
                number: 0,
                last: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn call_that_is_dropped_leaves_no_node() {
    for polls in 0..20 {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ids = SequenceIds::new(&session, PATH).unwrap();
        let done = polled(polls, ids.next()).await.is_some();
        session.settled().await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(children(&ensemble, PATH), [""; 0], "{polls}");
        assert!(ids.next().await.is_ok());
        assert!(done || polls < 19);
    }
}
