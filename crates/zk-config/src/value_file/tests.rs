//! Files that are written while others wait, after a crash, and after the end of a runtime.

use std::path::Path;

use zk_core::NodePath;

use super::*;
use crate::snapshot_check::Extent;

fn subtree(value: usize) -> Arc<Subtree> {
    let root: NodePath = "/app".parse().expect("a valid path");
    let value = value.to_string();
    Arc::new(Subtree::new(root, [("/app", value.as_bytes())]))
}

fn file(path: &Path) -> ValueFile {
    let subject = FileSubject::new("/app".parse().expect("a valid path"), &Extent::Node);
    ValueFile::new(path.to_owned(), Duration::ZERO, subject)
}

fn saved(file: &ValueFile) -> Option<usize> {
    let saved = file.shared.read().ok()??;
    let data = String::from_utf8(saved.nodes.get("")?.to_vec()).ok()?;
    data.parse().ok()
}

/// Waits until nothing is being written.
async fn idle(file: &ValueFile) {
    let idle = zk_sim::wait::until("nothing is written", async || {
        !file.shared.state().is_writing
    });
    idle.await;
}

#[tokio::test]
async fn of_values_that_wait_the_newest_is_written_last() {
    let directory = tempfile::tempdir().unwrap();
    let file = file(&directory.path().join("value"));
    for round in 0..20 {
        for value in 0..=round {
            file.save(Some(1), &subtree(1000 * round + value));
        }
        idle(&file).await;
        assert_eq!(saved(&file), Some(1001 * round));
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_value_is_written_after_a_writer_that_never_ran() {
    let directory = tempfile::tempdir().unwrap();
    let file = file(&directory.path().join("value"));
    file.shared.state().is_writing = true;
    file.save(None, &subtree(1));
    drop(Writer {
        shared: Arc::clone(&file.shared),
        is_over: false,
    });
    assert_eq!(saved(&file), None);
    file.save(None, &subtree(2));
    idle(&file).await;
    assert_eq!(saved(&file), Some(2));
}

#[test]
fn what_a_crash_or_a_failure_leaves_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("value");
    let file = file(&path);
    let temporary = directory
        .path()
        .join(format!("value.{}.tmp", std::process::id()));
    fs::write(&temporary, "the beginning of").unwrap();
    fs::write(&path, "an old file").unwrap();
    let data = file.shared.subject.encode(None, &subtree(1));
    file.shared.write(&data).unwrap();
    assert_eq!(saved(&file), Some(1));
    assert!(!temporary.exists());
    // A directory cannot be replaced by a file.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    file.shared.write(&data).unwrap_err();
    assert!(!temporary.exists());
    let problem = file.shared.read().unwrap_err();
    assert!(
        matches!(problem, FileProblem::Unreadable { .. }),
        "{problem}"
    );
}
