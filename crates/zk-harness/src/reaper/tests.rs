use std::fs;

use super::*;

/// A process that carries the marker of the ensemble in `directory` and does nothing.
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
    let lock = File::open(&place.ensemble).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut guard = Reaper::spawn(&place.ensemble, Some(lock)).unwrap();
    let probe = File::open(&place.ensemble).unwrap();
    assert!(flock(&probe, FlockOperation::NonBlockingLockExclusive).is_err());
    guard.finish().unwrap();
    flock(&probe, FlockOperation::NonBlockingLockExclusive).unwrap();
}

// covers: H3
#[test]
fn whoever_gets_the_lock_next_is_left_alone() {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{FlockOperation, flock};

    for _ in 0..30 {
        let place = place();
        let lock = File::open(&place.ensemble).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut guard = Reaper::spawn(&place.ensemble, Some(lock)).unwrap();
        guard.remove_at_end(&place.ensemble).unwrap();
        // Its pipe ends here; it works on while the next one is after the directory.
        guard.orders = None;
        let next = until_blocking(Duration::from_secs(10), Duration::ZERO, || {
            // The directory may vanish between any two of these calls.
            drop(fs::create_dir(&place.ensemble));
            let next = File::open(&place.ensemble).map_err(drop)?;
            flock(&next, FlockOperation::NonBlockingLockExclusive).map_err(drop)?;
            let (held, there) = (
                next.metadata().map_err(drop)?,
                fs::metadata(&place.ensemble).map_err(drop)?,
            );
            if held.ino() == there.ino() {
                Ok(next)
            } else {
                Err(())
            }
        })
        .expect("the lock is free within 10 s");
        fs::write(place.ensemble.join("of the next one"), "").unwrap();
        guard.finish().unwrap();
        assert!(place.ensemble.join("of the next one").exists());
        drop(next);
    }
}

// covers: H3
#[test]
fn process_that_only_mentions_the_marker_is_left_alone() {
    let place = place();
    let marker = format!("{}server-1/", marker(&place.ensemble));
    let mut server = Decoy::of(&place.ensemble);
    let mut proxies = Decoy::with_argument(&marker.replace("server-1", "proxies"));
    let mut strangers = [
        format!("grep -F -e {marker} /proc/*/cmdline"),
        format!("{marker}server.log"),
        marker.replace("server-1/", ""),
        marker.replace("server-1/", "another/server-1/"),
    ]
    .map(|argument| Decoy::with_argument(&argument));
    let mut guard = Reaper::spawn(&place.ensemble, None).unwrap();
    guard.finish().unwrap();
    assert!(!server.runs() && !proxies.runs());
    for stranger in &mut strangers {
        assert!(stranger.runs(), "somebody else's process was killed");
    }
}

// covers: H3
#[test]
fn killed_guard_is_succeeded() {
    let place = place();
    let mut server = Decoy::of(&place.ensemble);
    let lock = File::open(&place.ensemble).unwrap();
    let mut guard = Reaper::spawn(&place.ensemble, Some(lock)).unwrap();
    guard.remove_at_end(&place.ensemble).unwrap();
    guard.child.kill().unwrap();
    guard.child.wait().unwrap();
    guard.finish().unwrap();
    assert!(!server.runs());
    assert!(!place.ensemble.exists());
    assert!(place.other.exists());
}

// covers: H3
#[test]
fn dropped_guard_is_done_when_the_drop_returns() {
    let place = place();
    let mut server = Decoy::of(&place.ensemble);
    let mut guard = Reaper::spawn(&place.ensemble, None).unwrap();
    guard.remove_at_end(&place.ensemble).unwrap();
    drop(guard);
    assert!(!server.runs());
    assert!(!place.ensemble.exists());
}

// covers: H3
#[cfg(target_os = "linux")]
#[test]
fn file_that_cannot_be_removed_is_reported() {
    let place = place();
    let mut guard = Reaper::spawn(&place.ensemble, None).unwrap();
    // Nobody can remove it.
    guard.remove_at_end(Path::new("/proc/uptime")).unwrap();
    guard.remove_at_end(&place.ensemble).unwrap();
    let error = guard.finish().unwrap_err();
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "not every file could be removed"
    );
    assert!(!place.ensemble.exists());
}

#[test]
fn guard_finds_its_tools_whatever_the_path_is() {
    let path = |path: &str| search_path(Some(OsStr::new(path)));
    assert_eq!(path("/nix/bin"), "/usr/bin:/bin:/nix/bin");
    // An empty part would be the current directory.
    assert_eq!(path(""), "/usr/bin:/bin");
    assert_eq!(search_path(None), "/usr/bin:/bin");
}
