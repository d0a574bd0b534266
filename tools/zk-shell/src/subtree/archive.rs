//! An exported subtree in one of three formats: lines of JSON, a tar file, or a directory.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

use super::format_error::FormatError;
use super::node::SubtreeNode;
use super::node_line::Header;
use super::validator::{Summary, Validator};
use super::{directory, json_lines, tar_file};
use crate::file_io::{TEMPORARY, parent, sync_directory};

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
    validator: Validator,
}

enum Target {
    Stream(Box<dyn Write>),
    Json(BufWriter<NamedTempFile>, PathBuf),
    Tar(tar::Builder<BufWriter<NamedTempFile>>, PathBuf),
    /// With the directory that is being written in it.
    Dir(TempDir, PathBuf),
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
    /// Begins a file or directory, which must not exist, under a temporary name beside it, and writes the header.
    ///
    /// It is removed if the writer is dropped before it has finished.
    pub(crate) fn create(file: &Path, format: Format, header: &Header) -> io::Result<Self> {
        // Without the slash at the end that stands for a directory.
        let file: PathBuf = file.components().collect();
        if fs::symlink_metadata(&file).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut temporary = tempfile::Builder::new();
        temporary.prefix(TEMPORARY);
        let target = match format {
            Format::Json => {
                let mut lines = BufWriter::new(temporary.tempfile_in(parent(&file))?);
                json_lines::begin(&mut lines, header)?;
                Target::Json(lines, file)
            }
            Format::Tar => {
                let created = temporary.tempfile_in(parent(&file))?;
                let mut archive = tar::Builder::new(BufWriter::new(created));
                tar_file::begin(&mut archive, header)?;
                Target::Tar(archive, file)
            }
            Format::Dir => {
                let temporary = temporary.tempdir_in(parent(&file))?;
                directory::begin(&temporary.path().join(DIRECTORY), header)?;
                Target::Dir(temporary, file)
            }
        };
        Ok(Self {
            target,
            validator: Validator::default(),
        })
    }

    /// Writes lines of JSON to a stream.
    pub(crate) fn to_stream(mut stream: Box<dyn Write>, header: &Header) -> io::Result<Self> {
        json_lines::begin(&mut stream, header)?;
        Ok(Self {
            target: Target::Stream(stream),
            validator: Validator::default(),
        })
    }

    /// Writes the next node of a walk.
    pub(crate) fn add(&mut self, node: &SubtreeNode) -> io::Result<()> {
        self.validator
            .accept("", node)
            .map_err(|error| io::Error::other(error.to_string()))?;
        match &mut self.target {
            Target::Stream(file) => json_lines::add(file, node),
            Target::Json(file, _) => json_lines::add(file, node),
            Target::Tar(file, _) => tar_file::add(file, node),
            Target::Dir(at, _) => directory::add(&at.path().join(DIRECTORY), node),
        }
    }

    /// Writes the trailer, without which the export counts as interrupted, and gives a file or directory its name, once
    /// it is on its disk. It never replaces another. If it is not wanted by then, it is removed, and `None` returned.
    pub(crate) fn finish(self, is_wanted: &dyn Fn() -> bool) -> io::Result<Option<Summary>> {
        let summary = self.validator.summary();
        let (file, name) = match self.target {
            Target::Stream(mut file) => {
                json_lines::finish(&mut file, &summary)?;
                return Ok(Some(summary));
            }
            Target::Json(mut file, name) => {
                json_lines::finish(&mut file, &summary)?;
                (file, name)
            }
            Target::Tar(mut file, name) => {
                tar_file::finish(&mut file, &summary)?;
                (file.into_inner()?, name)
            }
            Target::Dir(at, name) => {
                let written = at.path().join(DIRECTORY);
                directory::finish(&written, &summary)?;
                if !is_wanted() {
                    return Ok(None);
                }
                // It replaces at most an empty directory that was made meanwhile.
                fs::rename(written, &name).map_err(|error| match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => {
                        io::ErrorKind::AlreadyExists.into()
                    }
                    _ => error,
                })?;
                sync_directory(&parent(&name))?;
                return Ok(Some(summary));
            }
        };
        let file = file.into_inner()?;
        file.as_file().sync_all()?;
        if !is_wanted() {
            return Ok(None);
        }
        file.persist_noclobber(&name)?;
        sync_directory(&parent(&name))?;
        Ok(Some(summary))
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
    pub(crate) fn from_stream(stream: impl io::Read) -> io::Result<Self> {
        Self::from_limited(stream, MAX_STREAM)
    }

    fn from_limited(stream: impl io::Read, limit: u64) -> io::Result<Self> {
        let mut file = tempfile::tempfile()?;
        if io::copy(&mut stream.take(limit + 1), &mut file)? > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it goes on beyond {limit} bytes; import a file instead"),
            ));
        }
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

/// The directory of an export until it has its name.
const DIRECTORY: &str = "export";
/// How many bytes are copied from a stream: more would fill the disk with what may have no end.
const MAX_STREAM: u64 = 8 << 30;
/// The longest data of a node: more does not fit into a reply that clients read.
pub(crate) const MAX_DATA: u64 = 16 << 20;

#[cfg(test)]
pub(crate) mod tests;
