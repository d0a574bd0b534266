//! The zxids of writes as ids.

use std::collections::BTreeSet;
use std::time::Duration;

use zk_core::ErrorClass;
use zk_id::{BlockIds, ZxidError, ZxidIds};
use zk_sim::{Ensemble, matching};

use crate::{PATH, children, pass, polled, soon};

#[tokio::test(start_paused = true)]
async fn numbers_rise_over_all_processes_and_paths() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let ids = [(&one, PATH), (&other, PATH), (&other, "/elsewhere")];
    let ids = ids.map(|(session, path)| ZxidIds::new(session, path).unwrap());
    let mut last = 0;
    for turn in 0..90 {
        let id = ids[turn % 3].next().await.unwrap();
        assert!(id > last, "{id} after {last}");
        last = id;
    }
    assert_eq!(children(&ensemble, "/ids"), ["a"]);
    assert_eq!(children(&ensemble, PATH), [""; 0]);
    // Also after the node was deleted.
    one.delete(PATH).await.unwrap();
    for ids in &ids {
        let id = ids.next().await.unwrap();
        assert!(id > last, "{id} after {last}");
        last = id;
    }
}

/// A lost reply, while another process writes: the node then shows the zxid of the other one.
#[tokio::test(start_paused = true)]
async fn no_zxid_is_issued_twice_whatever_is_lost() {
    let ensemble = Ensemble::new(3);
    let sessions = [ensemble.connect().await, ensemble.connect().await];
    let ids = sessions.map(|session| ZxidIds::new(&session, PATH).unwrap());
    let mut seen = BTreeSet::new();
    let mut skipped = 0;
    for round in 0..60 {
        let script = ensemble.on(matching::sets(PATH));
        drop(match round % 3 {
            0 => script.lose_reply(),
            1 => script.lose_request(),
            _ => script.stall_then_move(1 + round % 2),
        });
        let before = seen.last().copied();
        let many = async |ids: &ZxidIds| {
            let mut taken = Vec::new();
            for pause in [0, 10, 300, 3_000] {
                pass(Duration::from_millis(pause)).await;
                taken.push(soon("there is an answer", ids.next()).await);
            }
            taken
        };
        let (one, other) = tokio::join!(many(&ids[0]), many(&ids[1]));
        for taken in [one, other] {
            let mut last = before;
            for id in taken {
                match id {
                    Ok(id) => {
                        assert!(last < Some(id), "it does not rise");
                        assert!(seen.insert(id), "{id} was issued twice");
                        last = Some(id);
                    }
                    Err(error) => {
                        assert_eq!(error.class(), ErrorClass::Recoverable, "{error}");
                        skipped += 1;
                    }
                }
            }
        }
    }
    assert!(skipped < 10 && seen.len() > 400, "{skipped} {}", seen.len());
}

#[tokio::test(start_paused = true)]
async fn a_node_with_other_data_is_refused_and_left_alone() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let blocks = BlockIds::new(&session, PATH, std::num::NonZeroU32::MIN).unwrap();
    blocks.next().await.unwrap();
    let before = ensemble.tree().describe();
    let error = ZxidIds::new(&session, PATH)
        .unwrap()
        .next()
        .await
        .unwrap_err();
    assert!(matches!(error, ZxidError::SchemaMismatch { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::Outcome);
    assert_eq!(ensemble.tree().describe(), before);
    // A node without data may be prepared by an operator.
    session.create("/ids/b", "").await.unwrap();
    ZxidIds::new(&session, "/ids/b")
        .unwrap()
        .next()
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_zxid_whose_call_is_dropped_is_skipped() {
    for polls in 0..20 {
        let ensemble = Ensemble::new(3);
        let (session, other) = (ensemble.connect().await, ensemble.connect().await);
        let ids = ZxidIds::new(&session, PATH).unwrap();
        let first = polled(polls, ids.next()).await.map(Result::unwrap);
        let others = ZxidIds::new(&other, PATH).unwrap();
        let mut last = first.unwrap_or_default();
        for ids in [&ids, &others, &ids] {
            let id = soon("there is a number", ids.next()).await.unwrap();
            assert!(id > last);
            last = id;
        }
        assert!(first.is_some() || polls < 19);
    }
}
