//! Uses each recipe with two users on servers that encrypt and authenticate; where it is about waiting, one waits for
//! the other.

use std::time::Duration;

use zk_core::{Acl, AclEntry, Permissions};
use zk_harness::{DataStore, Ensemble, EnsembleBuilder, SaslDigest};
use zk_smoke::RECIPES;

use super::{PASSWORDS, encrypted, nodes_below, soon};

#[tokio::test]
async fn two_users_share_each_recipe_on_the_newest_servers() {
    share_each_recipe(Ensemble::builder().servers(3)).await;
}

#[tokio::test]
async fn two_users_share_each_recipe_on_a_server_of_3_8() {
    share_each_recipe(Ensemble::builder().servers(1).zookeeper("3.8")).await;
}

async fn share_each_recipe(servers: EnsembleBuilder) {
    let users = ["alice", "bob"];
    let passwords = users.into_iter().zip(PASSWORDS);
    let users_of_servers = SaslDigest::new(passwords.clone()).required();
    // No empty parent is deleted while it is read.
    let servers = servers.container_check_interval(Duration::from_secs(3600));
    let servers = servers.data(DataStore::Memory).tls(true);
    let servers = servers.sasl_digest(users_of_servers);
    let ensemble = servers.start().await.expect("the servers start");
    // Not the identity of the certificate, which both have.
    let acl = Acl::new(users.map(|user| AclEntry::new(Permissions::ALL, "sasl", user)));
    let mut sessions = Vec::new();
    for (user, password) in passwords {
        let builder = encrypted(&ensemble).sasl_digest(user, password);
        sessions.push(builder.acl(acl.clone()).connect().await.unwrap());
    }
    let [alice, bob] = &sessions[..] else {
        panic!("there are two users");
    };
    for recipe in RECIPES {
        let used = soon(recipe.name, (recipe.run)(alice, bob)).await;
        used.unwrap_or_else(|error| panic!("{}: {error:#}", recipe.name));
    }
    for session in &sessions {
        soon("nothing is being deleted", session.settled()).await;
        session.sync("/").with_quorum().await.unwrap();
    }
    let (names, _) = alice.list("/").await.unwrap();
    let of_recipes = names.iter().filter(|name| *name != "zookeeper");
    for root in of_recipes.map(|name| format!("/{name}")) {
        let (found, _) = alice.acl(&root).await.expect(&root);
        assert_eq!(found, acl, "{root}");
        for (node, (_, found)) in nodes_below(alice, &root).await {
            assert_eq!(found, acl, "{node}");
        }
    }
    for session in &sessions {
        session.close().await.unwrap();
    }
    ensemble.down().await.unwrap();
}
