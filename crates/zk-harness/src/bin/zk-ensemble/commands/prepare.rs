//! `prepare` does the work that otherwise slows down the first start on a machine.

use std::process::ExitCode;
use std::sync::Arc;

use zk_harness::{Ensemble, Spec};
use zk_provision::{Progress, Search};

use crate::display::Display;
use crate::say::print;

pub(crate) async fn prepare(zookeeper: Option<String>) -> anyhow::Result<ExitCode> {
    let progress = Display::new();
    let shown = Arc::clone(&progress);
    let search = Search::from_env()?.progress(Arc::new(move |progress: &Progress| {
        shown.progress(progress);
    }));
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
