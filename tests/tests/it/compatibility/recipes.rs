//! The rows about recipes.

use anyhow::{bail, ensure};
use zk_fault_proxy::Op;
use zk_smoke::Recipe;

use super::{Outcome, Servers};

/// Uses a recipe, and returns how it worked.
pub(super) async fn run(servers: &Servers, recipe: &Recipe) -> anyhow::Result<Outcome> {
    let [one, other] = [servers.connect().await?, servers.connect().await?];
    (recipe.run)(&one, &other).await?;
    let mut ops = servers.carried_out(&one);
    ops.extend(servers.carried_out(&other));
    for session in [one, other] {
        session.close().await?;
    }
    let is_plain = ops.contains(&Op::Create);
    let is_new = [Op::Create2, Op::CreateContainer]
        .iter()
        .any(|op| ops.contains(op));
    ensure!(
        is_plain != is_new,
        "it creates nodes, in one of two ways: {ops:?}"
    );
    let has_persistent_watches = ops.contains(&Op::AddWatch);
    Ok(match (is_plain, recipe.follows_nodes) {
        (false, false) => Outcome::Works,
        (false, true) if has_persistent_watches => Outcome::Works,
        (false, true) => bail!("it follows nodes without persistent watches: {ops:?}"),
        (true, _) if has_persistent_watches => bail!("no server is that old and that new: {ops:?}"),
        (true, false) => Outcome::Degraded("by `create`"),
        (true, true) => Outcome::Degraded("by `create` and one-shot watches"),
    })
}
