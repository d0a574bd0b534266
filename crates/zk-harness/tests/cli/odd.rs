//! Ensembles whose files were moved, broken or made by somebody else.

use std::fs;
use std::io;
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

// covers: H3
#[test]
fn broken_ensemble_is_named_and_does_not_keep_the_others_up() {
    let place = Place::new();
    place.ok(&["up", "--servers", "1", "--data", "memory", "--name", "fine"]);
    // It comes first in the alphabet.
    let broken = place.ensembles().join("broken");
    fs::create_dir(&broken).unwrap();
    for text in ["", "{", "[]", "{\"spec\": 1}"] {
        fs::write(broken.join("ensemble.json"), text).unwrap();
        for command in ["status", "up", "down"] {
            let error = place.fails(&[command, "--name", "broken"]);
            let said = format!(
                "error: the ensemble broken cannot be used; if nothing in {0} is of value, remove that directory\n  because: {0}/ensemble.json is not the state of an ensemble: ",
                broken.display()
            );
            assert!(error.contains(&said), "{error}");
        }
    }
    let list = place.run(&["list"]);
    assert_eq!(list.code, Some(1), "{list:?}");
    assert!(
        list.out.contains("fine") && list.err.contains("broken"),
        "{list:?}"
    );

    let down = place.run(&["down", "--all"]);
    assert_eq!(down.code, Some(1), "{down:?}");
    assert_eq!(down.out, "ensemble fine is down; its files are removed\n");
    assert!(
        down.err.contains("the ensemble broken cannot be used"),
        "{down:?}"
    );
    assert_eq!(processes_below(&place.ensembles()), 0);
    assert!(broken.exists(), "what is none of ours was removed");
}

// covers: H3
#[test]
fn files_without_an_ensemble_are_left_alone() {
    let place = Place::new();
    let directory = place.ensembles().join("default");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("precious"), "").unwrap();
    let error = place.fails(&["up", "--servers", "3"]);
    assert_eq!(
        error,
        format!(
            "error: {} has files in it but no ensemble, as after a start that a power failure cut off; if nothing in it is of value, remove it, or choose another --name\n",
            directory.display()
        )
    );
    assert!(directory.join("precious").exists());
}

// covers: H3
#[test]
fn link_to_nowhere_is_named_at_once() {
    let place = Place::new();
    fs::create_dir(place.ensembles()).unwrap();
    let link = place.ensembles().join("default");
    std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
    let begun = std::time::Instant::now();
    let error = place.fails(&["up", "--servers", "3"]);
    assert_eq!(
        error,
        format!(
            "error: cannot make {0}: {0} is a link to what is not there\n",
            link.display()
        )
    );
    assert!(begun.elapsed() < std::time::Duration::from_secs(20));
}

// covers: H3
#[test]
fn home_that_is_no_absolute_path_is_refused() {
    let place = Place::new();
    let file = place.file("here", "");
    let output = place
        .command(&["up", "--servers", "3"])
        .current_dir(file.parent().unwrap())
        .env_remove("ZK_ENSEMBLE_DIR")
        .env_remove("XDG_STATE_HOME")
        .env("HOME", "relative")
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: neither XDG_STATE_HOME nor HOME is an absolute path of a directory to keep ensembles in; give --dir\n"
    );
    let left = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "something was made in the current directory");
}

/// A pipe that nobody reads.
fn unread() -> io::PipeWriter {
    io::pipe().unwrap().1
}

// covers: H3
#[test]
fn command_is_done_whole_when_nobody_reads_what_it_says() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        let status = command.stdout(unread()).stderr(unread()).status().unwrap();
        assert!(status.success(), "{args:?}: {status}");
    };
    run(&["up", "--servers", "2", "--data", "memory"]);
    place.ok(&["status"]);
    run(&["kill", "all"]);
    assert_eq!(processes_below(&place.ensembles()), 0);
    run(&[
        "up",
        "--name",
        "other",
        "--servers",
        "1",
        "--data",
        "memory",
    ]);
    run(&["down", "--all"]);
    assert_eq!(processes_below(&place.ensembles()), 0);
    assert!(!place.ensembles().exists());
}

// covers: H3
#[test]
fn full_output_is_named() {
    let place = Place::new();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = place.command(&["list"]).stdout(full).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: cannot write to standard output\n  because: No space left on device (os error 28)\n"
    );
}
