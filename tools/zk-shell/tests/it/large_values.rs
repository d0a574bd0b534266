//! Values that only servers with a raised `jute.maxbuffer` accept, through the libraries and the shell.

use zk_cache::NodeCache;
use zk_config::{PublishOptions, Publisher, Typed};
use zk_core::codec::Text;
use zk_core::{ErrorKind, Session};
use zk_harness::{DataStore, Ensemble};

use crate::{MAX_WAIT, command, finish, zk};

const LIMIT: usize = 4 << 20;
const VALUE: usize = 2 << 20;

/// Waits for what is expected.
async fn expected<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(MAX_WAIT, waiting).await;
    waited.unwrap_or_else(|_| panic!("not within {MAX_WAIT:?}: {what}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn values_beyond_the_default_limit_are_written_and_read() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .max_buffer(u32::try_from(LIMIT).unwrap())
        .start()
        .await
        .expect("the servers start");
    let connect = &ensemble.connect_string();
    let value = vec![b'v'; VALUE];

    let usual = Session::builder(connect).connect().await.unwrap();
    let error = usual.create("/a", value.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let text = error.to_string();
    for part in ["1048575", "`max_buffer`", "`jute.maxbuffer`"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }

    let session = Session::builder(connect).max_buffer(LIMIT);
    let session = session.connect().await.unwrap();
    session.create("/a", value.clone()).await.unwrap();
    assert_eq!(session.get("/a").await.unwrap().0, value);
    // The longest that fits, and one byte more.
    let error = session.set("/a", vec![0; LIMIT]).await.unwrap_err();
    let fitting = error.to_string();
    let fitting = fitting.split("at most ").nth(1).unwrap();
    let fitting: usize = fitting.split(' ').next().unwrap().parse().unwrap();
    session.set("/a", vec![0; fitting]).await.unwrap();
    let error = session.set("/a", vec![0; fitting + 1]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    session.set("/a", value.clone()).await.unwrap();
    // Several at once are longer than the default limit of replies.
    let paths: Vec<_> = (0..8).map(|number| format!("/a/{number}")).collect();
    for path in &paths {
        session.create(path.as_str(), value.clone()).await.unwrap();
    }
    let read = session.get_many(&paths).await.unwrap();
    let is_whole = |node: &Result<_, _>| matches!(node, Ok((data, _)) if *data == value);
    assert!(read.iter().all(is_whole));

    let cache = NodeCache::start(&session, "/a").unwrap();
    expected("the cache", cache.synchronized()).await.unwrap();
    assert_eq!(cache.node().unwrap().data(), Some(&*value));

    let options = PublishOptions::default().with_history(1);
    let publisher = Publisher::with_options(&session, Text, options);
    let mut motto = Typed::<String>::node("/motto", Text).unwrap().build();
    let _following = motto.follow(&session);
    let published = "m".repeat(VALUE - 1024);
    for text in ["first", &published] {
        let publish = publisher.publish("/motto", &text.to_owned());
        publish.await.unwrap();
    }
    while **expected("the value", motto.ready()).await != published {
        expected("the next value", motto.changed()).await;
    }

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, &value).unwrap();
    let file = file.path().to_str().unwrap();
    let refused = zk(connect, &["create", "/b", "--file", file]).await;
    assert!(refused.contains("--max-buffer"), "{refused}");
    let created = zk(
        connect,
        &["--max-buffer", "4M", "create", "/b", "--file", file],
    )
    .await;
    assert_eq!(created, "Created /b\nexit 0");
    let mut get = command(connect, &["get", "--raw", "/b"]);
    get.env("ZK_MAX_BUFFER", LIMIT.to_string());
    assert_eq!(finish(get, b"").await.stdout, value);
    ensemble.down().await.expect("the servers go down");
}
