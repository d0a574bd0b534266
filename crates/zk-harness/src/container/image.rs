//! Pulls or builds the image of a server's container.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testcontainers::core::BuildImageOptions;
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncBuilder as _;
use testcontainers::{GenericBuildableImage, GenericImage};
use zk_provision::{Distribution, Search};

use crate::config::MAIN_CLASS;
use crate::error::Error;
use crate::unique_name::unique_name;

/// The image of an ensemble's containers.
///
/// An image must start a server from `/conf/zoo.cfg`, with its id in `/data/myid`, as the official one does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ContainerImage {
    /// The image in `ZK_HARNESS_IMAGE`, where `debian` means [`Debian`](Self::Debian); by default the official image,
    /// `zookeeper:3.9`.
    #[default]
    Default,
    /// An image with name and tag, such as `zookeeper:3.8`. It is pulled if the engine does not have it.
    Named(String),
    /// An image that needs no registry: built once from the ZooKeeper and Java that the harness finds or downloads and
    /// Debian's packages of the C library, and kept by the engine as `zk-harness:<version>`.
    Debian,
}

impl ContainerImage {
    /// Returns the image's name; `None` if the harness builds it.
    pub(crate) fn chosen(&self) -> Option<String> {
        match self {
            Self::Default => match std::env::var(IMAGE) {
                Ok(name) if name == "debian" => None,
                Ok(name) if !name.is_empty() => Some(name),
                _ => Some(OFFICIAL.to_owned()),
            },
            Self::Named(name) => Some(name.clone()),
            Self::Debian => None,
        }
    }

    /// Returns the image, and builds it if necessary.
    pub(super) async fn prepare(&self, distribution: &Distribution) -> Result<GenericImage, Error> {
        match self.chosen() {
            Some(name) => Ok(named(&name)),
            None => build(distribution).await,
        }
    }
}

/// Parses the name of an image; the text after the last colon is the tag, unless it is a registry's port.
fn named(name: &str) -> GenericImage {
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => GenericImage::new(name, tag),
        _ => GenericImage::new(name, "latest"),
    }
}

async fn build(distribution: &Distribution) -> Result<GenericImage, Error> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Image { source };
    let distribution = distribution.clone();
    let tag = format!("{}-{LAYOUT}", distribution.version);
    let docker = docker_client_instance()
        .await
        .map_err(|error| failed(error.into()))?;
    if docker.inspect_image(&format!("{NAME}:{tag}")).await.is_ok() {
        return Ok(GenericImage::new(NAME, &tag));
    }
    let staged = tokio::task::spawn_blocking(move || stage(&distribution))
        .await
        .map_err(|error| failed(error.into()))??;
    let image = GenericBuildableImage::new(NAME, &tag)
        .with_dockerfile_string(dockerfile())
        .with_file(staged.path().join("root"), "root");
    image
        .build_image_with(BuildImageOptions::new().with_skip_if_exists(true))
        .await
        .map_err(|error| failed(error.into()))
}

fn dockerfile() -> String {
    format!(
        "FROM scratch\n\
         COPY root/ /\n\
         ENTRYPOINT [\"/opt/java/bin/java\", \"-cp\", \"/opt/zookeeper/*\", \"{MAIN_CLASS}\", \"/conf/zoo.cfg\"]\n"
    )
}

/// Creates the image's file system in a temporary directory.
fn stage(distribution: &Distribution) -> Result<Staged, Error> {
    let staged = Staged::new()?;
    let root = staged.path().join("root");
    let written = || -> io::Result<()> {
        for jar in &distribution.classpath {
            let name = jar.file_name().unwrap_or(jar.as_os_str());
            copy(jar, &root.join("opt/zookeeper").join(name), &|_| true)?;
        }
        let java = fs::canonicalize(&distribution.java)?;
        let home = java.parent().and_then(Path::parent).unwrap_or(&java);
        // Files that only compilers and debuggers need are most of the size.
        let is_needed = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !["src.zip", "ct.sym", "jmods", "man", "legal", "classlist"].contains(&&*name)
        };
        for part in ["bin/java", "lib", "conf"] {
            copy(
                &home.join(part),
                &root.join("opt/java").join(part),
                &is_needed,
            )?;
        }
        for directory in ["tmp", "conf", "data", "datalog"] {
            // The engine would not receive an empty directory.
            let keep = root.join(directory).join(".keep");
            fs::create_dir_all(root.join(directory))?;
            fs::write(keep, "")?;
        }
        Ok(())
    };
    written().map_err(|source| Error::io("create the image in", &root, source))?;
    let libraries = Search::from_env()
        .map_err(|error| Error::Find(Box::new(error.into())))?
        .packages(LIBRARIES)
        .map_err(Box::new)?;
    for package in libraries {
        for directory in ["lib", "lib64", "usr/lib"] {
            let from = package.join(directory);
            if from.exists() {
                let is_library = |path: &Path| path.is_dir() || is_library(path);
                copy(&from, &root.join(directory), &is_library)
                    .map_err(|source| Error::io("copy", &from, source))?;
            }
        }
    }
    Ok(staged)
}

/// Returns whether it is a shared library; the packages also contain tables for character sets and locales.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains(".so") && !path.components().any(|part| part.as_os_str() == "gconv")
}

/// Copies a file or a tree and follows links, because their targets may not be in the image.
fn copy(from: &Path, to: &Path, is_included: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    let metadata = match fs::metadata(from) {
        Ok(metadata) => metadata,
        // A dangling link, for example to sources that are not installed.
        Err(error) if error.kind() == io::ErrorKind::NotFound && from.is_symlink() => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_included(from) {
        return Ok(());
    }
    if !metadata.is_dir() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        return fs::copy(from, to).map(|_bytes| ());
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()), is_included)?;
    }
    Ok(())
}

/// A temporary directory that is removed on drop.
struct Staged(PathBuf);

impl Staged {
    fn new() -> Result<Self, Error> {
        let path = crate::ports::temp_dir().join(unique_name("zk-harness-image-"));
        fs::create_dir(&path).map_err(|source| Error::io("create the directory", &path, source))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, directory = %self.0.display(), "cannot remove a temporary directory");
        }
    }
}

const NAME: &str = "zk-harness";
const IMAGE: &str = "ZK_HARNESS_IMAGE";
const OFFICIAL: &str = "zookeeper:3.9";
/// Part of the tag, so that a change of the layout results in a new image.
const LAYOUT: u32 = 1;
const LIBRARIES: [&str; 4] = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g"];
/// How long the engine may take to build or pull an image.
pub(super) const IMAGE_WITHIN: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use testcontainers::Image as _;

    use super::*;

    #[test]
    fn a_port_of_a_registry_is_not_a_tag() {
        for (text, name, tag) in [
            ("zookeeper:3.8", "zookeeper", "3.8"),
            ("zookeeper", "zookeeper", "latest"),
            ("here:5000/zookeeper", "here:5000/zookeeper", "latest"),
            ("here:5000/zookeeper:1", "here:5000/zookeeper", "1"),
        ] {
            let image = named(text);
            assert_eq!((image.name(), image.tag()), (name, tag), "{text}");
        }
    }
}
