//! Ensembles whose files were moved, broken or made by somebody else.

use std::fs;
use std::path::Path;

use crate::support::{Place, processes_below};

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

// covers: H3
#[test]
fn copy_of_an_ensemble_is_not_taken_for_it() {
    let place = Place::new();
    place.ok(&["up", "--servers", "1", "--data", "memory"]);
    let (original, copied) = (
        place.ensembles().join("default"),
        place.ensembles().join("copied"),
    );
    copy(&original, &copied);
    for command in [&["down"][..], &["kill", "1"], &["status"], &["up"]] {
        let error = place.fails(&[command, &["--name", "copied"]].concat());
        assert!(
            error.ends_with(&format!(
                "{} is not the state of an ensemble: it is that of the ensemble in {}, and was copied or moved from there\n",
                copied.join("ensemble.json").display(),
                original.display()
            )),
            "{error}"
        );
    }
    assert_eq!(processes_below(&place.ensembles()), 1);
    place.ok(&["status"]);
    // A path through a link is another name, not another ensemble.
    let link = place.ensembles().join("link");
    std::os::unix::fs::symlink(&original, &link).unwrap();
    place.ok(&["status", "--name", "link"]);
    fs::remove_file(link).unwrap();
}
