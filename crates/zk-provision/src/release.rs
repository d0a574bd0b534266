//! Names the official release archives, and pins their checksums. Pure.

use std::collections::BTreeMap;

use crate::version::{Request, Version};

/// SHA-512 of releases that can be provisioned, as published beside them; that of 3.9.5 is the one that nixpkgs records.
const PINNED: [(Version, &str); 3] = [
    (
        Version::new(3, 8, 4),
        "4d85d6f7644d5f36d9c4d65e78bd662ab35ebe1380d762c24c12b98af029027e\
         ee453437c9245dbdf2b9beb77cd6b690b69e26f91cf9d11b0a183a979c73fa43",
    ),
    (
        Version::new(3, 9, 3),
        "d44d870c1691662efbf1a8baf1859c901b820dc5ff163b36e81beb27b6fbf3cd\
         31b5f1f075697edaaf6d3e7a4cb0cc92f924dcff64b294ef13d535589bdaf143",
    ),
    (
        Version::new(3, 9, 5),
        "baa1c21dda4d57238fca751e4fa2bbf1daff9a28612b125e497dccd5c188ee64\
         49e2f79947e474c2dd4d19992789d4d36b27b1ba2feb80c2b0c45e7df0e22aa8",
    ),
];

/// The SHA-512 that the archive of each release must have.
pub(super) type Pins = BTreeMap<Version, String>;

/// The built-in checksums.
pub(super) fn pins() -> Pins {
    PINNED
        .map(|(version, sha512)| (version, sha512.to_owned()))
        .into()
}

/// Selects the newest pinned release that matches.
pub(super) fn choose(request: Request, pins: &Pins) -> Result<(Version, &str), String> {
    let newest = pins.iter().rfind(|(version, _)| request.accepts(**version));
    newest
        .map(|(version, sha512)| (*version, sha512.as_str()))
        .ok_or_else(|| {
            let pinned: Vec<String> = pins.keys().map(ToString::to_string).collect();
            let pinned = pinned.join(", ");
            format!("no SHA-512 is pinned for {request}; pinned are {pinned}")
        })
}

/// `apache-zookeeper-3.9.6-bin`, the archive's name and that of the directory in it.
pub(super) fn stem(version: Version) -> String {
    format!("apache-zookeeper-{version}-bin")
}

pub(super) fn url(mirror: &str, version: Version) -> String {
    format!("{mirror}/zookeeper-{version}/{}.tar.gz", stem(version))
}

#[cfg(test)]
mod tests;
