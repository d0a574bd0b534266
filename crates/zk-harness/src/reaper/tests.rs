use std::fs;
use std::path::PathBuf;

use super::*;

/// A process that carries the marker of the ensemble in `directory` and does nothing.
struct Decoy(Child);

impl Decoy {
    fn of(directory: &Path) -> Self {
        let child = Command::new("/bin/sh")
            .args([
                "-c",
                "read nothing",
                "decoy",
                &format!("{}server-1/", marker(directory)),
            ])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Decoy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

struct Place {
    _root: tempfile::TempDir,
    ensemble: PathBuf,
    other: PathBuf,
}

fn place() -> Place {
    let root = tempfile::tempdir().unwrap();
    let ensemble = root.path().join("an ensemble's $HOME; *");
    let other = root.path().join("an ensemble's $HOME; *-2");
    for directory in [&ensemble, &other] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), "").unwrap();
    }
    Place {
        _root: root,
        ensemble,
        other,
    }
}

// covers: H3
#[test]
fn end_of_the_pipe_kills_the_servers_and_removes_the_files() {
    let place = place();
    let mut server = Decoy::of(&place.ensemble);
    let mut stranger = Decoy::of(&place.other);
    let mut guard = Reaper::spawn(&place.ensemble, None).unwrap();
    guard.remove_at_end(&place.ensemble).unwrap();
    guard
        .remove_at_end(&place.ensemble.join("never made"))
        .unwrap();
    assert!(server.runs());
    guard.finish().unwrap();
    assert!(!server.runs());
    assert!(stranger.runs(), "a process of another ensemble was killed");
    assert!(!place.ensemble.exists());
    assert!(place.other.join("file").exists());
}

// covers: H3
#[test]
fn files_can_be_kept() {
    let place = place();
    let mut server = Decoy::of(&place.ensemble);
    let mut guard = Reaper::spawn(&place.ensemble, None).unwrap();
    guard.remove_at_end(&place.ensemble).unwrap();
    guard.keep_files().unwrap();
    guard.finish().unwrap();
    assert!(!server.runs());
    assert!(place.ensemble.join("file").exists());
}

// covers: H3
#[test]
fn dismissed_guard_touches_nothing() {
    let place = place();
    let mut server = Decoy::of(&place.ensemble);
    let mut guard = Reaper::spawn(&place.ensemble, None).unwrap();
    guard.remove_at_end(&place.ensemble).unwrap();
    guard.dismiss().unwrap();
    assert!(server.runs());
    assert!(place.ensemble.join("file").exists());
}

// covers: H3
#[test]
fn lock_is_held_until_the_guard_is_done() {
    use rustix::fs::{FlockOperation, flock};

    let place = place();
    let lock = fs::File::open(&place.ensemble).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut guard = Reaper::spawn(&place.ensemble, Some(lock)).unwrap();
    let probe = fs::File::open(&place.ensemble).unwrap();
    assert!(flock(&probe, FlockOperation::NonBlockingLockExclusive).is_err());
    guard.finish().unwrap();
    flock(&probe, FlockOperation::NonBlockingLockExclusive).unwrap();
}
