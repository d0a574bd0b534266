//! Tests servers that apt provisioned from the machine's mirror.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use tempfile::TempDir;
use zk_provision::{Distribution, Installed, Search, Source};

use crate::servers::start_and_stop;
use crate::world::Heard;

/// Provisions a version, with Java where the cache has none, as on a machine that has neither.
fn provision(version: &str, dir: &Path) -> Distribution {
    let path = std::env::var_os("PATH").expect("PATH is set");
    let vars = [
        (OsString::from("PATH"), path),
        (OsString::from("ZK_HARNESS_CACHE"), dir.join("cache").into()),
    ];
    let heard = Heard::default();
    let search = Search::from_vars(vars)
        .unwrap()
        .version(version)
        .use_installed(Installed::Ignore)
        .progress(heard.listener());
    let started = Instant::now();
    let found = search.find().unwrap_or_else(|error| {
        panic!("this test needs a Debian or Ubuntu whose apt reaches its mirror: {error}")
    });
    let mut bytes = BTreeMap::new();
    for progress in heard.all() {
        let most = bytes.entry(progress.what).or_insert(0);
        *most = progress.done.max(*most);
    }
    println!(
        "ZooKeeper {version} after {:?}: {bytes:#?}",
        started.elapsed()
    );
    assert_eq!(found.source, Source::Provisioned);
    assert!(
        found.java.starts_with(dir.join("cache")),
        "{}",
        found.java.display()
    );

    let started = Instant::now();
    assert_eq!(search.find().unwrap().source, Source::Cached);
    println!("again, from the cache, after {:?}", started.elapsed());
    found
}

#[test]
fn every_series_is_provisioned_and_serves() {
    let dir = TempDir::new().unwrap();
    let [oldest, older, newer] = ["3.4", "3.8", "3.9"].map(|series| {
        let found = provision(series, dir.path());
        assert!(
            found.version.starts_with(&format!("{series}.")),
            "{}",
            found.version
        );
        start_and_stop(&found, &dir.path().join(series));
        found
    });
    assert_eq!(
        [&oldest.java, &older.java],
        [&newer.java; 2],
        "the runtime in the cache serves all"
    );
}
