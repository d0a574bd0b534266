//! The files of an ensemble.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use crate::config::Plan;
use crate::error::Error;

/// Where a detached ensemble keeps how it was started.
pub(super) const STATE_FILE: &str = "ensemble.json";

/// Writes every file that the servers need. Doing it again changes nothing.
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
        let script = plan.start_script(id);
        write_file(&script, &plan.render_start_script(member))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
            .map_err(|source| Error::io("make executable", &script, source))?;
    }
    Ok(())
}

/// Everything that belongs to the ensemble on disk.
pub(super) fn everything(plan: &Plan) -> Vec<&Path> {
    let mut paths: Vec<&Path> = Vec::new();
    paths.extend(plan.memory_directory.as_deref());
    paths.extend(plan.port_file.as_deref());
    paths.push(&plan.directory);
    paths
}

pub(super) fn create_directory(directory: &Path) -> Result<(), Error> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)
        .map_err(|source| Error::io("create the directory", directory, source))
}

pub(super) fn save(plan: &Plan) -> Result<(), Error> {
    let file = plan.directory.join(STATE_FILE);
    let text = serde_json::to_string_pretty(plan)
        .map_err(|error| Error::io("write", &file, error.into()))?;
    // Complete or absent: a reader never sees half of it.
    let draft = plan.directory.join(format!("{STATE_FILE}.new"));
    write_file(&draft, &text)?;
    fs::rename(&draft, &file).map_err(|source| Error::io("write", &file, source))
}

pub(super) fn load(directory: &Path) -> Result<Plan, Error> {
    let file = directory.join(STATE_FILE);
    let bad = |reason: String| Error::BadState {
        path: file.clone(),
        reason,
    };
    let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => bad("there is no such file".into()),
        _ => bad(error.to_string()),
    })?;
    serde_json::from_str(&text).map_err(|error| bad(error.to_string()))
}

fn write_file(file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).map_err(|source| Error::io("write", file, source))
}
