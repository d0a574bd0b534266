//! The tables of the migration guides have every public class of the client that they are about.
//!
//! These tests start no server, but provision the other clients.

#![cfg(test)]

mod tables;

use std::fs;
use std::path::Path;

use tables::Guide;
use zk_tests::peers::{Curator, Kazoo};

/// Reads the tables of a guide whose first column has this title.
fn guide(file: &str, title: &str) -> Guide {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(file);
    Guide::parse(
        &fs::read_to_string(path).expect("the guide can be read"),
        title,
    )
}

#[tokio::test]
async fn the_guide_from_curator_has_every_public_class() {
    let curator = Curator::find().await.expect("Curator is there");
    let names = curator.public_names().await.expect("its classes are read");
    assert!(names.len() > 300, "{} classes", names.len());
    let problems = guide("from-curator.md", "Curator").problems(&names, &curator.version());
    assert!(problems.is_empty(), "{problems:#?}");
}

#[tokio::test]
async fn the_guide_from_kazoo_has_every_public_name() {
    let kazoo = Kazoo::find().await.expect("kazoo is there");
    let names = kazoo.public_names().await.expect("its names are read");
    assert!(names.len() > 130, "{} names", names.len());
    let problems = guide("from-kazoo.md", "kazoo").problems(&names, kazoo.version());
    assert!(problems.is_empty(), "{problems:#?}");
}
