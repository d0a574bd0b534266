//! Writes an export on a thread of its own, so that a slow disk or pipe delays neither the session nor a signal.

use std::io;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::archive::ArchiveWriter;
use super::node::SubtreeNode;
use super::validator::Summary;

/// An export that a thread writes. If it is dropped before it has finished, the thread removes what it has written.
pub(crate) struct BackgroundWriter {
    /// `None` is the end.
    nodes: mpsc::Sender<Option<SubtreeNode>>,
    result: oneshot::Receiver<io::Result<Summary>>,
}

impl BackgroundWriter {
    /// Begins an export, and returns the thread, too, so that the end of the program can wait for it.
    pub(crate) fn start(
        create: impl FnOnce() -> io::Result<ArchiveWriter> + Send + 'static,
    ) -> (Self, JoinHandle<()>) {
        let (nodes, mut received) = mpsc::channel(NODES_AHEAD);
        let (sender, result) = oneshot::channel();
        let thread = tokio::task::spawn_blocking(move || {
            // Without a receiver the command has ended.
            let is_wanted = || !sender.is_closed();
            if let Some(result) = write(create, &mut received, &is_wanted).transpose() {
                drop(sender.send(result));
            }
        });
        (Self { nodes, result }, thread)
    }

    /// Writes the next node of a walk. An error of the thread is returned here or at the end.
    pub(crate) async fn add(&mut self, node: SubtreeNode) -> io::Result<()> {
        if self.nodes.send(Some(node)).await.is_err() {
            return self.result().await.map(drop);
        }
        Ok(())
    }

    /// Ends the export, and returns what was written.
    pub(crate) async fn finish(mut self) -> io::Result<Summary> {
        // If the thread has ended, it says why.
        drop(self.nodes.send(None).await);
        self.result().await
    }

    async fn result(&mut self) -> io::Result<Summary> {
        let result = (&mut self.result).await;
        result.unwrap_or_else(|_| Err(io::Error::other("the thread that writes it has ended")))
    }
}

/// Writes nodes up to the end; `None` if that does not come, or the export is not wanted then.
fn write(
    create: impl FnOnce() -> io::Result<ArchiveWriter>,
    nodes: &mut mpsc::Receiver<Option<SubtreeNode>>,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<Option<Summary>> {
    let mut writer = create()?;
    while let Some(node) = nodes.blocking_recv() {
        match node {
            Some(node) => writer.add(&node)?,
            None => return writer.finish(is_wanted),
        }
    }
    Ok(None)
}

/// How many nodes may wait; the data of each may be long.
const NODES_AHEAD: usize = 16;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::archive::Format;
    use super::super::archive::tests::nodes;
    use super::super::node_line::Header;
    use super::*;

    const FORMATS: [(Format, &str); 3] = [
        (Format::Json, "a.json"),
        (Format::Tar, "a.tar"),
        (Format::Dir, "a/"),
    ];

    /// Begins an export, and writes more nodes than may wait for the thread.
    async fn begun(file: &Path, format: Format) -> (BackgroundWriter, JoinHandle<()>) {
        let file = file.to_owned();
        let create = move || ArchiveWriter::create(&file, format, &Header::new("/app"));
        let (mut writer, thread) = BackgroundWriter::start(create);
        for node in nodes(&[("", "")]).into_iter().chain(many()) {
            writer.add(node).await.unwrap();
        }
        (writer, thread)
    }

    fn count(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[tokio::test]
    async fn an_export_has_its_name_only_when_it_is_complete() {
        for (format, name) in FORMATS {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join(name);
            let (writer, thread) = begun(&file, format).await;
            assert_eq!(
                (count(directory.path()), file.exists()),
                (1, false),
                "{name}"
            );
            drop(writer);
            thread.await.unwrap();
            assert_eq!(count(directory.path()), 0, "{name}");

            let (writer, thread) = begun(&file, format).await;
            assert_eq!(writer.finish().await.unwrap().nodes, 41);
            thread.await.unwrap();
            assert_eq!(
                (count(directory.path()), file.exists()),
                (1, true),
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn an_export_never_replaces_what_was_made_meanwhile() {
        for (format, name) in FORMATS {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join(name);
            let (writer, thread) = begun(&file, format).await;
            let other = directory.path().join(name.trim_end_matches('/'));
            fs::write(&other, "other").unwrap();
            let error = writer.finish().await.unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::AlreadyExists,
                "{name}: {error}"
            );
            thread.await.unwrap();
            assert_eq!(fs::read_to_string(&other).unwrap(), "other");
            assert_eq!(count(directory.path()), 1, "{name}");
        }
    }

    #[tokio::test]
    async fn an_export_that_is_interrupted_at_its_end_does_not_get_its_name() {
        for (format, name) in FORMATS {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join(name);
            let at = file.clone();
            let (go, started) = std::sync::mpsc::channel();
            let (mut writer, thread) = BackgroundWriter::start(move || {
                started.recv().unwrap();
                ArchiveWriter::create(&at, format, &Header::new("/app"))
            });
            for node in nodes(&[("", "")]) {
                writer.add(node).await.unwrap();
            }
            {
                // The end of the export waits for the thread.
                let mut finishing = std::pin::pin!(writer.finish());
                assert!(futures_util::poll!(&mut finishing).is_pending());
            }
            go.send(()).unwrap();
            thread.await.unwrap();
            assert_eq!(count(directory.path()), 0, "{name}");
        }
    }

    fn many() -> Vec<SubtreeNode> {
        let paths: Vec<_> = (10..50).map(|node| node.to_string()).collect();
        let paths: Vec<_> = paths.iter().map(|path| (path.as_str(), "data")).collect();
        nodes(&paths)
    }
}
