use std::fs;

use super::*;

/// An idle process with the marker of the ensemble in `directory`.
struct Decoy(Child);

impl Decoy {
    fn of(directory: &Path) -> Self {
        Self::with_argument(&format!("{}server-1/", marker(directory)))
    }

    fn with_argument(argument: &str) -> Self {
        let child = Command::new("/bin/sh")
            .args(["-c", "read nothing", "decoy", argument])
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

struct TwoEnsembles {
    _root: tempfile::TempDir,
    ensemble: PathBuf,
    other: PathBuf,
}

fn two_ensembles() -> TwoEnsembles {
    let root = tempfile::tempdir().unwrap();
    let ensemble = root.path().join("an ensemble's $HOME; *");
    let other = root.path().join("an ensemble's $HOME; *-2");
    for directory in [&ensemble, &other] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), "").unwrap();
    }
    TwoEnsembles {
        _root: root,
        ensemble,
        other,
    }
}

#[test]
fn the_end_of_the_pipe_kills_servers_and_removes_files() {
    let dirs = two_ensembles();
    let mut server = Decoy::of(&dirs.ensemble);
    let mut other = Decoy::of(&dirs.other);
    let mut guard = Reaper::spawn(&dirs.ensemble, None).unwrap();
    guard.remove_at_end(&dirs.ensemble).unwrap();
    guard
        .remove_at_end(&dirs.ensemble.join("never made"))
        .unwrap();
    assert!(server.runs());
    guard.finish().unwrap();
    assert!(!server.runs());
    assert!(other.runs(), "a process of another ensemble was killed");
    assert!(!dirs.ensemble.exists());
    assert!(dirs.other.join("file").exists());
}

#[test]
fn files_can_be_kept() {
    let dirs = two_ensembles();
    let mut server = Decoy::of(&dirs.ensemble);
    let mut guard = Reaper::spawn(&dirs.ensemble, None).unwrap();
    guard.remove_at_end(&dirs.ensemble).unwrap();
    guard.keep_files().unwrap();
    guard.finish().unwrap();
    assert!(!server.runs());
    assert!(dirs.ensemble.join("file").exists());
}

#[test]
fn a_dismissed_guard_changes_nothing() {
    let dirs = two_ensembles();
    let mut server = Decoy::of(&dirs.ensemble);
    let mut guard = Reaper::spawn(&dirs.ensemble, None).unwrap();
    guard.remove_at_end(&dirs.ensemble).unwrap();
    guard.dismiss().unwrap();
    assert!(server.runs());
    assert!(dirs.ensemble.join("file").exists());
}

#[test]
fn a_lock_is_held_until_the_guard_is_done() {
    use rustix::fs::{FlockOperation, flock};

    let dirs = two_ensembles();
    let lock = File::open(&dirs.ensemble).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut guard = Reaper::spawn(&dirs.ensemble, Some(lock)).unwrap();
    let probe = File::open(&dirs.ensemble).unwrap();
    assert!(flock(&probe, FlockOperation::NonBlockingLockExclusive).is_err());
    guard.finish().unwrap();
    flock(&probe, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn the_guard_does_not_touch_the_next_holder_of_the_lock() {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{FlockOperation, flock};

    for _ in 0..30 {
        let dirs = two_ensembles();
        let lock = File::open(&dirs.ensemble).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut guard = Reaper::spawn(&dirs.ensemble, Some(lock)).unwrap();
        guard.remove_at_end(&dirs.ensemble).unwrap();
        // Its pipe ends here; it cleans up while the next holder waits for the lock.
        guard.commands = None;
        let next = until_blocking(Duration::from_secs(10), Duration::ZERO, || {
            // The directory may be removed between any two of these calls.
            drop(fs::create_dir(&dirs.ensemble));
            let next = File::open(&dirs.ensemble).map_err(drop)?;
            flock(&next, FlockOperation::NonBlockingLockExclusive).map_err(drop)?;
            let (held, there) = (
                next.metadata().map_err(drop)?,
                fs::metadata(&dirs.ensemble).map_err(drop)?,
            );
            if held.ino() == there.ino() {
                Ok(next)
            } else {
                Err(())
            }
        })
        .expect("the lock is free within 10 s");
        fs::write(dirs.ensemble.join("of the next one"), "").unwrap();
        guard.finish().unwrap();
        assert!(dirs.ensemble.join("of the next one").exists());
        drop(next);
    }
}

#[test]
fn a_marker_within_an_argument_does_not_count() {
    let dirs = two_ensembles();
    let marker = format!("{}server-1/", marker(&dirs.ensemble));
    let mut server = Decoy::of(&dirs.ensemble);
    let mut proxies = Decoy::with_argument(&marker.replace("server-1", "proxies"));
    let mut others = [
        format!("grep -F -e {marker} /proc/*/cmdline"),
        format!("{marker}server.log"),
        marker.replace("server-1/", ""),
        marker.replace("server-1/", "another/server-1/"),
    ]
    .map(|argument| Decoy::with_argument(&argument));
    let mut guard = Reaper::spawn(&dirs.ensemble, None).unwrap();
    guard.finish().unwrap();
    assert!(!server.runs() && !proxies.runs());
    for other in &mut others {
        assert!(other.runs(), "another process was killed");
    }
}

#[test]
fn a_killed_guard_is_replaced() {
    let dirs = two_ensembles();
    let mut server = Decoy::of(&dirs.ensemble);
    let lock = File::open(&dirs.ensemble).unwrap();
    let mut guard = Reaper::spawn(&dirs.ensemble, Some(lock)).unwrap();
    guard.remove_at_end(&dirs.ensemble).unwrap();
    guard.child.kill().unwrap();
    guard.child.wait().unwrap();
    guard.finish().unwrap();
    assert!(!server.runs());
    assert!(!dirs.ensemble.exists());
    assert!(dirs.other.exists());
}

#[test]
fn the_drop_of_a_guard_waits_until_it_is_done() {
    let dirs = two_ensembles();
    let mut server = Decoy::of(&dirs.ensemble);
    let mut guard = Reaper::spawn(&dirs.ensemble, None).unwrap();
    guard.remove_at_end(&dirs.ensemble).unwrap();
    drop(guard);
    assert!(!server.runs());
    assert!(!dirs.ensemble.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_removed_is_reported() {
    let dirs = two_ensembles();
    let mut guard = Reaper::spawn(&dirs.ensemble, None).unwrap();
    // Nothing can remove this file.
    guard.remove_at_end(Path::new("/proc/uptime")).unwrap();
    guard.remove_at_end(&dirs.ensemble).unwrap();
    let error = guard.finish().unwrap_err();
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "not every file could be removed"
    );
    assert!(!dirs.ensemble.exists());
}

#[test]
fn the_guard_finds_its_tools_with_any_path() {
    let path = |path: &str| search_path(Some(OsStr::new(path)));
    assert_eq!(path("/nix/bin"), "/usr/bin:/bin:/nix/bin");
    // An empty entry would be the current directory.
    assert_eq!(path(""), "/usr/bin:/bin");
    assert_eq!(search_path(None), "/usr/bin:/bin");
}
