//! An exported subtree in one of three formats: lines of JSON, a tar file, or a directory.

use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::BufWriter;
use std::io::Read as _;
use std::io::Seek as _;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use super::check::Checker;
use super::check::Summary;
use super::directory;
use super::format_error::FormatError;
use super::json_lines;
use super::node::SubtreeNode;
use super::node_line::Header;
use super::tar_file;

/// What is done with each node that is read; an error ends the reading.
pub(crate) type OnNode<'a> = &'a mut dyn FnMut(SubtreeNode) -> Result<(), FormatError>;

/// How a subtree is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines of JSON
    Json,
    /// A tar file
    Tar,
    /// A directory
    Dir,
}

/// An export that is being written.
pub(crate) struct ArchiveWriter {
    target: Target,
    checker: Checker,
}

enum Target {
    Stream(Box<dyn Write>),
    Json(BufWriter<File>),
    Tar(tar::Builder<BufWriter<File>>),
    Dir(PathBuf),
}

/// An export that can be read, more than once.
#[derive(Debug)]
pub(crate) enum ArchiveFile {
    Json(File),
    Tar(File),
    Dir(PathBuf),
}

impl Format {
    /// Returns the format that a file's name stands for.
    pub(crate) fn of(file: &Path) -> Option<Self> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("json" | "jsonl" | "ndjson") => Some(Self::Json),
            Some("tar") => Some(Self::Tar),
            _ if file
                .as_os_str()
                .to_str()
                .is_some_and(|name| name.ends_with('/')) =>
            {
                Some(Self::Dir)
            }
            _ => None,
        }
    }
}

impl ArchiveWriter {
    /// Creates a file or directory, which must not exist, and writes the header.
    pub(crate) fn create(file: &Path, format: Format, header: &Header) -> io::Result<Self> {
        let target = match format {
            Format::Json => {
                let mut lines = BufWriter::new(new_file(file)?);
                json_lines::begin(&mut lines, header)?;
                Target::Json(lines)
            }
            Format::Tar => {
                let mut archive = tar::Builder::new(BufWriter::new(new_file(file)?));
                tar_file::begin(&mut archive, header)?;
                Target::Tar(archive)
            }
            Format::Dir => {
                directory::begin(file, header)?;
                Target::Dir(file.to_owned())
            }
        };
        Ok(Self {
            target,
            checker: Checker::default(),
        })
    }

    /// Writes lines of JSON to a stream.
    pub(crate) fn to_stream(mut stream: Box<dyn Write>, header: &Header) -> io::Result<Self> {
        json_lines::begin(&mut stream, header)?;
        Ok(Self {
            target: Target::Stream(stream),
            checker: Checker::default(),
        })
    }

    /// Writes the next node of a walk.
    pub(crate) fn add(&mut self, node: &SubtreeNode) -> io::Result<()> {
        self.checker
            .accept("", node)
            .map_err(|error| io::Error::other(error.to_string()))?;
        match &mut self.target {
            Target::Stream(file) => json_lines::add(file, node),
            Target::Json(file) => json_lines::add(file, node),
            Target::Tar(file) => tar_file::add(file, node),
            Target::Dir(at) => directory::add(at, node),
        }
    }

    /// Writes the trailer, without which the export counts as interrupted, and has a file or directory written to its
    /// disk.
    pub(crate) fn finish(mut self) -> io::Result<Summary> {
        let summary = self.checker.summary();
        match &mut self.target {
            Target::Stream(file) => json_lines::finish(file, &summary)?,
            Target::Json(file) => {
                json_lines::finish(file, &summary)?;
                file.get_ref().sync_all()?;
            }
            Target::Tar(file) => {
                tar_file::finish(file, &summary)?;
                file.get_ref().get_ref().sync_all()?;
            }
            Target::Dir(at) => directory::finish(at, &summary)?,
        }
        Ok(summary)
    }
}

impl ArchiveFile {
    /// Opens an export; its content shows the format.
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        if file.is_dir() {
            return Ok(Self::Dir(file.to_owned()));
        }
        Self::of(File::open(file)?)
    }

    /// Copies a stream into a file without a name, so that it can be read twice.
    pub(crate) fn from_stream(mut stream: impl io::Read) -> io::Result<Self> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut stream, &mut file)?;
        file.rewind()?;
        Self::of(file)
    }

    fn of(mut file: File) -> io::Result<Self> {
        let mut first = [0; 1];
        let read = file.read(&mut first)?;
        Ok(if read == 0 || first == *b"{" {
            Self::Json(file)
        } else {
            Self::Tar(file)
        })
    }

    /// Reads all nodes in the order of a walk, and checks them up to the end.
    pub(crate) fn read(&mut self, on_node: OnNode<'_>) -> Result<(Header, Summary), FormatError> {
        let rewind = |file: &mut File| file.rewind().map_err(|error| FormatError::io("", &error));
        match self {
            Self::Json(file) => {
                rewind(file)?;
                json_lines::read(BufReader::new(&*file), on_node)
            }
            Self::Tar(file) => {
                rewind(file)?;
                tar_file::read(BufReader::new(&*file), on_node)
            }
            Self::Dir(at) => directory::read(at, on_node),
        }
    }
}

/// Data and access rules are for the person who exports them.
fn new_file(file: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).open(file)
}

/// The longest data of a node: more does not fit into a reply that clients read.
pub(crate) const MAX_DATA: u64 = 16 << 20;

#[cfg(test)]
pub(crate) mod tests;
