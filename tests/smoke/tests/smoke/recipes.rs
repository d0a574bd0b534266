//! Each recipe once, on one ensemble.

use zk_smoke::RECIPES;

use super::{connect, soon, three_servers};

#[tokio::test(flavor = "multi_thread")]
async fn every_recipe_works_on_real_servers() {
    let ensemble = three_servers().await;
    let (one, other) = (connect(&ensemble).await, connect(&ensemble).await);
    for recipe in RECIPES {
        let used = soon(recipe.name, (recipe.run)(&one, &other)).await;
        used.unwrap_or_else(|error| panic!("{}: {error:#}", recipe.name));
    }
    one.close().await.unwrap();
    other.close().await.unwrap();
    ensemble.down().await.unwrap();
}
