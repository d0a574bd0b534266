use std::sync::Mutex;

use zk_core::Acl;
use zk_sim::Ensemble;
use zk_sim::matching::{lists, multi_reads};

use super::*;
use crate::top::sample::Tree;

/// Waits for the sample of a whole crawl, and calls `meanwhile` for each sample before it.
async fn whole_tree(
    samples: &mut mpsc::Receiver<Sample>,
    mut meanwhile: impl FnMut(&Reading),
) -> Tree {
    let reading = async {
        while let Some(sample) = samples.recv().await {
            match sample.reading {
                Reading::Tree(tree) if !tree.is_running => return tree,
                reading => meanwhile(&reading),
            }
        }
        panic!("the reader has ended without a tree");
    };
    let found = tokio::time::timeout(Duration::from_secs(600), reading).await;
    found.expect("a crawl ends within 10 simulated minutes")
}

#[tokio::test(start_paused = true)]
async fn a_crawl_whose_session_is_lost_starts_again_with_the_next() {
    let ensemble = Ensemble::new(1);
    let writer = ensemble.connect().await;
    // More than one request lists.
    for number in 0..2 * LISTED_TOGETHER {
        let path = format!("/n/{number}");
        writer.create(path, "").parents().await.unwrap();
    }
    let opened = Mutex::new(Vec::new());
    let open = async || {
        let session = ensemble.connect().await;
        opened.lock().unwrap().push(session.id());
        Ok(session)
    };
    let (to_samples, mut samples) = mpsc::channel(1);
    let (to_crawls, crawls) = mpsc::channel(1);
    let reader = NodeReader::new(Clock::start(), to_samples, 10_000, Vec::new());
    to_crawls.send(()).await.unwrap();
    let mut is_lost = false;
    let lose = |reading: &Reading| {
        let is_begun = matches!(reading, Reading::Tree(_));
        if is_begun && !std::mem::replace(&mut is_lost, true) {
            ensemble.expire(opened.lock().unwrap()[0]);
        }
    };
    let tree = tokio::select! {
        tree = whole_tree(&mut samples, lose) => tree,
        () = reader.run(open, crawls) => panic!("the reader has ended"),
    };
    assert!(is_lost);
    assert_eq!(opened.lock().unwrap().len(), 2);
    let family = tree.subtrees.iter().find(|subtree| subtree.path == "/n");
    let children = family.map(|subtree| subtree.children);
    assert_eq!(children, Some(2 * LISTED_TOGETHER as u64), "{tree:?}");
    assert_eq!((tree.refused, tree.failed), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_crawl_tells_refused_from_failed_and_compares_only_complete_ones() {
    let ensemble = Ensemble::new(1);
    let writer = ensemble.connect().digest("alice", "hunter2").await;
    for path in ["/n", "/n/child"] {
        writer.create(path, "").await.unwrap();
    }
    let creating = writer.create("/secret", "").acl(Acl::creator_only());
    creating.await.unwrap();
    writer.create("/secret/child", "").await.unwrap();
    let open = async || Ok(ensemble.connect().await);
    let (to_samples, mut samples) = mpsc::channel(1);
    let (to_crawls, crawls) = mpsc::channel(1);
    let reader = NodeReader::new(Clock::start(), to_samples, 10_000, Vec::new());
    let crawls_in_turn = async {
        let mut crawl = async || {
            to_crawls.send(()).await.unwrap();
            whole_tree(&mut samples, |_| {}).await
        };
        let first = crawl().await;
        let lost = [
            ensemble.on(multi_reads("/n")).every().lose_request(),
            ensemble.on(lists("/n")).every().lose_request(),
        ];
        let failed = crawl().await;
        for fault in lost {
            assert!(fault.count() > 0);
            fault.withdraw();
        }
        (first, failed, crawl().await)
    };
    let (first, failed, last) = tokio::select! {
        trees = crawls_in_turn => trees,
        () = reader.run(open, crawls) => panic!("the reader has ended"),
    };
    let of = |tree: &Tree| (tree.refused, tree.failed, tree.compared_with.is_some());
    assert_eq!(of(&first), (1, 0, false), "{first:?}");
    assert_eq!(of(&failed), (1, 1, false), "{failed:?}");
    let failure = failed.failure.expect("a reason");
    assert!(failure.contains("/n"), "{failure}");
    // The last one is compared with the first.
    assert_eq!(of(&last), (1, 0, true), "{last:?}");
    let growth: Vec<_> = last.subtrees.iter().map(|subtree| subtree.growth).collect();
    assert!(growth.iter().all(|growth| *growth == Some(0)), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_found_recipe_whose_node_is_gone_is_left_out_and_a_named_one_is_not() {
    let ensemble = Ensemble::new(1);
    let writer = ensemble.connect().await;
    for path in ["/found/x-lock-0000000001", "/named/x-lock-0000000001"] {
        writer.create(path, "holder-1").parents().await.unwrap();
    }
    let open = async || Ok(ensemble.connect().await);
    let (to_samples, mut samples) = mpsc::channel(1);
    let (to_crawls, crawls) = mpsc::channel(1);
    let named = vec!["/named".to_owned()];
    let reader = NodeReader::new(Clock::start(), to_samples, 10_000, named);
    to_crawls.send(()).await.unwrap();
    let reading = async {
        // What is read of the two paths from now on, up to a reading of each.
        let mut both = async || {
            let mut readings = Vec::new();
            let is_of = |readings: &[Reading], path: &str| {
                readings.iter().any(|reading| match reading {
                    Reading::Recipe(recipe) => recipe.path == path,
                    Reading::RecipeGone(gone) => gone == path,
                    _ => false,
                })
            };
            while !(is_of(&readings, "/found") && is_of(&readings, "/named")) {
                let sample = samples.recv().await.expect("the reader goes on");
                readings.push(sample.reading);
            }
            readings
        };
        for reading in both().await {
            if let Reading::Recipe(recipe) = reading {
                assert_eq!(recipe.kind, RecipeKind::Lock, "{recipe:?}");
                assert_eq!(recipe.holder.as_deref(), Some("holder-1"));
                assert!(recipe.since.is_some());
            }
        }
        for path in ["/found", "/named"] {
            let child = format!("{path}/x-lock-0000000001");
            writer.delete(child).await.unwrap();
            writer.delete(path).await.unwrap();
        }
        let mut gone = Vec::new();
        let mut kinds = Vec::new();
        // Those of the time before may come first.
        while gone.is_empty() || kinds.last() != Some(&RecipeKind::NoNode) {
            match samples.recv().await.expect("the reader goes on").reading {
                Reading::RecipeGone(path) => gone.push(path),
                Reading::Recipe(recipe) if recipe.path == "/named" => kinds.push(recipe.kind),
                _ => {}
            }
        }
        assert_eq!(gone, ["/found"]);
    };
    tokio::select! {
        read = tokio::time::timeout(Duration::from_secs(600), reading) => {
            read.expect("each path is read within 10 simulated minutes");
        }
        () = reader.run(open, crawls) => panic!("the reader has ended"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_crawl_of_single_lists_ends_after_three_failures() {
    let ensemble = Ensemble::new(1);
    let writer = ensemble.connect().await;
    for number in 0..40 {
        let path = format!("/n/{number}");
        writer.create(path, "").parents().await.unwrap();
    }
    let open = async || Ok(ensemble.connect().await);
    let (to_samples, mut samples) = mpsc::channel(1);
    let (to_crawls, crawls) = mpsc::channel(1);
    let reader = NodeReader::new(Clock::start(), to_samples, 10_000, Vec::new());
    let _lost = [
        ensemble.on(multi_reads("/n/*")).every().lose_request(),
        ensemble.on(lists("/n/*")).every().lose_request(),
    ];
    to_crawls.send(()).await.unwrap();
    let mut failed = Vec::new();
    let count = |reading: &Reading| match reading {
        Reading::Tree(tree) if tree.failed > 0 => failed.push(tree.failed),
        _ => {}
    };
    let tree = tokio::select! {
        tree = whole_tree(&mut samples, count) => tree,
        () = reader.run(open, crawls) => panic!("the reader has ended"),
    };
    assert!(tree.failed >= 40, "{tree:?}");
    // One reading follows each list, and one the batch.
    assert_eq!(failed, [1, 2, tree.failed, tree.failed]);
}

#[tokio::test(start_paused = true)]
async fn the_session_is_closed_with_the_view_and_not_after_the_next_answer() {
    let ensemble = Ensemble::new(1);
    let open = async || Ok(ensemble.connect().await);
    let (to_samples, mut samples) = mpsc::channel(1);
    let (_to_crawls, crawls) = mpsc::channel(1);
    let paths = vec!["/n".to_owned()];
    let reader = NodeReader::new(Clock::start(), to_samples, 10_000, paths);
    let lost = ensemble.on(lists("/n")).every().lose_request();
    let view = async {
        let reading = tokio::time::timeout(Duration::from_secs(1), samples.recv()).await;
        assert!(reading.is_err(), "{reading:?}");
        assert!(ensemble.sessions().len() == 1 && lost.count() > 0);
        drop(samples);
    };
    let both = async { tokio::join!(view, reader.run(open, crawls)) };
    let ended = tokio::time::timeout(READ_TIMEOUT / 2, both).await;
    ended.expect("it ends before the answer is due");
    assert_eq!(ensemble.sessions(), []);
}
