//! `down` kills the servers, and removes the files unless they are kept.

use std::process::ExitCode;

use zk_harness::Ensemble;

use super::KEEP_FILE;
use crate::output::print;
use crate::store::Store;

/// Takes all ensembles down, even if this fails for some.
pub(crate) async fn down_all(store: &Store, keep: bool, remove: bool) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for name in store.names()? {
        if let Err(error) = down(store, &name, keep, remove).await
            // Otherwise another command took it down meanwhile.
            && Ensemble::exists(&store.directory(&name))
        {
            code = crate::report(&error);
        }
    }
    Ok(code)
}

pub(crate) async fn down(
    store: &Store,
    name: &str,
    keep: bool,
    remove: bool,
) -> anyhow::Result<ExitCode> {
    let (ensemble, lock) = store.open_locked(name)?;
    let directory = store.directory(name);
    let keep = keep || (!remove && directory.join(KEEP_FILE).exists());
    if keep {
        ensemble.kill_all().await?;
        return print(&format!(
            "ensemble {name} is down; its files are kept in {}\n",
            directory.display()
        ));
    }
    // If this command is killed now, the next command waits until the guard process is done.
    ensemble.hold(lock).down().await?;
    store.remove_if_empty();
    print(&format!("ensemble {name} is down; its files are removed\n"))
}
