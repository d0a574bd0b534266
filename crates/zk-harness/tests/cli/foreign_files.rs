//! Tests ensembles with copied, corrupted or foreign files, and unusual environments.

use std::fs;
use std::io;
use std::path::Path;

use crate::support::{EnsembleDir, processes_below};

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

#[test]
fn a_copy_of_an_ensemble_is_refused() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--servers", "1", "--data", "memory"]);
    let (original, copied) = (
        dir.ensembles().join("default"),
        dir.ensembles().join("copied"),
    );
    copy(&original, &copied);
    for command in [&["down"][..], &["kill", "1"], &["status"], &["up"]] {
        let error = dir.fails(&[command, &["--name", "copied"]].concat());
        assert!(
            error.ends_with(&format!(
                "{} is not the state of an ensemble: it was copied or moved from the ensemble in {}\n",
                copied.join("ensemble.json").display(),
                original.display()
            )),
            "{error}"
        );
    }
    assert_eq!(processes_below(&dir.ensembles()), 1);
    dir.ok(&["status"]);
    // A path through a link is the same ensemble.
    let link = dir.ensembles().join("link");
    std::os::unix::fs::symlink(&original, &link).unwrap();
    dir.ok(&["status", "--name", "link"]);
    fs::remove_file(link).unwrap();
}

#[test]
fn a_broken_ensemble_does_not_prevent_down_of_the_others() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--servers", "1", "--data", "memory", "--name", "fine"]);
    // It comes first in the alphabet.
    let broken = dir.ensembles().join("broken");
    fs::create_dir(&broken).unwrap();
    for text in ["", "{", "[]", "{\"spec\": 1}"] {
        fs::write(broken.join("ensemble.json"), text).unwrap();
        for command in ["status", "up", "down"] {
            let error = dir.fails(&[command, "--name", "broken"]);
            let expected = format!(
                "error: the ensemble broken cannot be used; if {0} contains nothing of value, remove that directory\n  because: {0}/ensemble.json is not the state of an ensemble: ",
                broken.display()
            );
            assert!(error.contains(&expected), "{error}");
        }
    }
    let list = dir.run(&["list"]);
    assert_eq!(list.code, Some(1), "{list:?}");
    assert!(
        list.out.contains("fine") && list.err.contains("broken"),
        "{list:?}"
    );

    let down = dir.run(&["down", "--all"]);
    assert_eq!(down.code, Some(1), "{down:?}");
    assert_eq!(down.out, "ensemble fine is down; its files are removed\n");
    assert!(
        down.err.contains("the ensemble broken cannot be used"),
        "{down:?}"
    );
    assert_eq!(processes_below(&dir.ensembles()), 0);
    assert!(broken.exists(), "foreign files were removed");
}

#[test]
fn files_without_an_ensemble_are_not_changed() {
    let dir = EnsembleDir::new();
    let directory = dir.ensembles().join("default");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("precious"), "").unwrap();
    let error = dir.fails(&["up", "--servers", "3"]);
    assert_eq!(
        error,
        format!(
            "error: {} contains files but no ensemble, possibly of an interrupted start; if they are of no value, remove them, or choose another --name\n",
            directory.display()
        )
    );
    assert!(directory.join("precious").exists());
}

#[test]
fn a_dangling_link_is_reported_at_once() {
    let dir = EnsembleDir::new();
    fs::create_dir(dir.ensembles()).unwrap();
    let link = dir.ensembles().join("default");
    std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
    let begun = std::time::Instant::now();
    let error = dir.fails(&["up", "--servers", "3"]);
    assert_eq!(
        error,
        format!(
            "error: cannot create {0}: {0} is a dangling link\n",
            link.display()
        )
    );
    assert!(begun.elapsed() < std::time::Duration::from_secs(20));
}

#[test]
fn a_relative_home_is_refused() {
    let dir = EnsembleDir::new();
    let file = dir.file("here", "");
    let output = dir
        .command(&["up", "--servers", "3"])
        .current_dir(file.parent().unwrap())
        .env_remove("ZK_ENSEMBLE_DIR")
        .env_remove("XDG_STATE_HOME")
        .env("HOME", "relative")
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: neither XDG_STATE_HOME nor HOME is an absolute path; set --dir\n"
    );
    let left = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "a file was created in the current directory");
}

/// Returns a pipe without a reader.
fn unread() -> io::PipeWriter {
    io::pipe().unwrap().1
}

#[test]
fn a_command_completes_when_its_output_is_closed() {
    let dir = EnsembleDir::new();
    let run = |args: &[&str]| {
        let mut command = dir.command(args);
        let status = command.stdout(unread()).stderr(unread()).status().unwrap();
        assert!(status.success(), "{args:?}: {status}");
    };
    run(&["up", "--servers", "2", "--data", "memory"]);
    dir.ok(&["status"]);
    run(&["kill", "all"]);
    assert_eq!(processes_below(&dir.ensembles()), 0);
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
    assert_eq!(processes_below(&dir.ensembles()), 0);
    assert!(!dir.ensembles().exists());
}

#[test]
fn a_failed_write_to_standard_output_is_reported() {
    let dir = EnsembleDir::new();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = dir.command(&["list"]).stdout(full).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: cannot write to standard output\n  because: No space left on device (os error 28)\n"
    );
}
