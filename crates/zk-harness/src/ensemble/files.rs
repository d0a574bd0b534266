//! Writes the files of an ensemble, and saves and loads its state.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::config::{Plan, STATE_FILE};
use crate::container;
use crate::error::Error;
use crate::movable_clock::ClockShift;
use crate::private_files::{create_directory, write as write_file, write_program};
use crate::unique_name::unique_name;

/// Writes every file that the servers need. It is idempotent.
pub(super) fn write(plan: &Plan) -> Result<(), Error> {
    for member in &plan.members {
        let id = member.id;
        for directory in [
            plan.server_directory(id),
            plan.data_directory(id),
            plan.log_directory(id),
        ] {
            create_directory(&directory)?;
        }
        write_file(&plan.data_directory(id).join("myid"), &format!("{id}\n"))?;
        write_file(&plan.config_file(id), &plan.render_config(member))?;
        if let Some((name, text)) = plan.render_logging() {
            write_file(&plan.server_directory(id).join(name), text)?;
        }
        if let Some(text) = plan.render_jaas() {
            write_file(&plan.jaas_file(id), &text)?;
        }
        let clock = plan.clock_file(id);
        // A restarted server keeps the offset of its clock.
        if plan.clock_library.is_some() && !clock.exists() {
            write_file(&clock, &ClockShift::None.text())?;
        }
        write_program(&plan.start_script(id), &plan.render_start_script(member))?;
    }
    Ok(())
}

/// Returns the files and directories to remove with the ensemble.
pub(super) fn removable_paths(plan: &Plan) -> Vec<&Path> {
    let mut paths: Vec<&Path> = Vec::new();
    paths.extend(plan.memory_directory.as_deref());
    paths.extend(plan.port_file.as_deref());
    paths.push(&plan.directory);
    paths
}

pub(super) fn save(plan: &Plan) -> Result<(), Error> {
    let file = plan.state_file();
    let text = serde_json::to_string_pretty(plan)
        .map_err(|error| Error::io("write", &file, error.into()))?;
    write_file(&file, &text)
}

pub(super) fn load(directory: &Path) -> Result<Plan, Error> {
    let file = directory.join(STATE_FILE);
    let bad = |reason: String| Error::BadState {
        path: file.clone(),
        reason,
    };
    let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => bad("the file does not exist".into()),
        _ => bad(error.to_string()),
    })?;
    let plan: Plan = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    // Taking a copy down would otherwise kill the servers of the original and remove its files.
    if !is_same(&plan.directory, directory) {
        return Err(bad(format!(
            "it was copied or moved from the ensemble in {}",
            plan.directory.display()
        )));
    }
    if !plan.memory_directory.iter().all(|path| is_own_memory(path)) {
        return Err(bad(
            "its memory_directory does not belong to an ensemble".into()
        ));
    }
    let is_own = |name: &String| name.starts_with(container::PREFIX);
    if !plan.containers.iter().all(is_own) {
        return Err(bad("its containers do not belong to an ensemble".into()));
    }
    Ok(plan)
}

/// Returns a new path in the memory file system.
pub(super) fn memory_directory() -> PathBuf {
    Path::new(MEMORY).join(unique_name(MEMORY_PREFIX))
}

/// Returns whether [`memory_directory`] returns such paths: the directory is removed with its contents.
fn is_own_memory(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    path.parent() == Some(Path::new(MEMORY))
        && name.is_some_and(|name| name.starts_with(MEMORY_PREFIX))
}

/// Returns whether two paths are the same directory, links resolved.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// The machine's memory file system.
pub(super) const MEMORY: &str = "/dev/shm";
const MEMORY_PREFIX: &str = "zk-ensemble-";
