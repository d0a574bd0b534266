//! `prepare` does the work that otherwise slows down the first start on a machine.

use std::process::ExitCode;

use zk_harness::{Ensemble, Spec};
use zk_provision::Search;

use crate::output::print;
use crate::progress::ProgressDisplay;

pub(crate) async fn prepare(zookeeper: Option<String>) -> anyhow::Result<ExitCode> {
    let progress = ProgressDisplay::new();
    let search = progress.follow(Search::from_env()?);
    let mut spec = Spec::default();
    spec.zookeeper = zookeeper;
    let prepared = Ensemble::builder()
        .spec(spec)
        .search(search)
        .prepare()
        .await;
    progress.clear();
    let distribution = prepared?;
    print(&format!(
        "ZooKeeper {} with {} is ready\n",
        distribution.version,
        distribution.java.display()
    ))
}
