//! Writes a subtree to a file or a directory.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use zk_core::{NodePath, Session, Stat};

use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::subtree::archive::{ArchiveWriter, Format};
use crate::subtree::background_writer::BackgroundWriter;
use crate::subtree::counts::nodes;
use crate::subtree::node_line::Header;
use crate::subtree::reconcile::{no_root, unreadable};
use crate::subtree::validator::Summary;
use crate::subtree::walk::{Found, Walk};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Write ephemeral nodes too
    #[arg(long)]
    ephemerals: bool,
    /// The format, unless the name of the file shows it: .json, .tar, or a slash at the end
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The root of the subtree
    path: String,
    /// The file or directory, which must not exist yet; - for JSON on standard output
    file: PathBuf,
}

impl Export {
    /// Writes the subtree. The time limit applies to each request.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let is_stdout = self.file == Path::new("-");
        let format = match self.format.or_else(|| Format::of(&self.file)) {
            Some(format) => format,
            None if is_stdout => Format::Json,
            None => {
                return Err(Failure::usage(
                    format!("the name {} does not show a format", self.file.display()),
                    "name it .json or .tar, end it with a slash for a directory, or choose with --format",
                ));
            }
        };
        if is_stdout && format != Format::Json {
            return Err(Failure::usage(
                "standard output takes JSON only",
                "give the name of a file",
            ));
        }
        let session = context.session().await?;
        // Everything that was written before is in the export.
        session.sync(&path).await?;
        let root = session.stat(&path).await?;
        let header = Header::new(path.as_str());
        let file = self.file.clone();
        let (writer, thread) = BackgroundWriter::start(move || {
            if is_stdout {
                let stdout = io::BufWriter::new(io::stdout());
                ArchiveWriter::to_stream(Box::new(stdout), &header)
            } else {
                ArchiveWriter::create(&file, format, &header)
            }
        });
        if !is_stdout {
            context.wait_at_end(thread, self.file.clone());
        }
        let summary = self.write(&session, &path, &root, writer).await?;
        let text = || {
            format!(
                "Exported {} with {} bytes of data from {}\nsha256 {}\n",
                nodes(summary.nodes),
                summary.bytes,
                escape::line(path.as_str()),
                summary.sha256
            )
        };
        let document = || {
            json!({
                "exported": summary.nodes,
                "bytes": summary.bytes,
                "sha256": summary.sha256,
                "path": path.as_str(),
            })
        };
        if is_stdout {
            let said = if context.output().is_json() {
                format!("{}\n", escape::json(&document().to_string()))
            } else {
                text()
            };
            context.output().print_beside(said).await;
            return Ok(());
        }
        context.output().result(text, document).await
    }

    async fn write(
        &self,
        session: &Session,
        path: &NodePath,
        root: &Stat,
        mut writer: BackgroundWriter,
    ) -> Result<Summary, Failure> {
        // Servers before 3.6 do not count.
        let total = session.descendant_count(path).await.ok();
        let progress = Progress::new("exported", total.map(u64::from));
        let mut walk = Walk::new(session, path);
        while let Some(found) = walk.next().await? {
            match found {
                Found::Node { node, .. } if node.is_ephemeral && !self.ephemerals => {}
                Found::Node { node, .. } => {
                    let written = writer.add(node).await;
                    written.map_err(|error| not_written(&self.file, &error))?;
                    progress.add(1);
                }
                Found::Unreadable(below) => return Err(unreadable(below.below(path)?.as_str())),
            }
        }
        if root.ephemeral_owner.is_some() && !self.ephemerals {
            return Err(no_root());
        }
        let root_now = session.exists(path).await?;
        if root_now.is_none_or(|now| now.czxid != root.czxid) {
            return Err(Failure::operation(
                format!("{path} was deleted or replaced meanwhile"),
                Some("export it again once it is complete"),
            ));
        }
        let written = writer.finish().await;
        written.map_err(|error| not_written(&self.file, &error))
    }
}

fn not_written(file: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::reader_gone(),
        io::ErrorKind::AlreadyExists => Failure::operation(
            format!("{} exists already, and nothing was written", file.display()),
            Some("choose another name, or remove it first"),
        ),
        _ => Failure::operation(format!("cannot write {}: {error}", file.display()), None),
    }
}
