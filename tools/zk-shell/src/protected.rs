//! Decides which nodes no command deletes or replaces, because the ensemble or everything in it depends on them.
//!
//! Pure: no I/O and no clock.

use zk_core::NodePath;

use crate::subtree::walk::RESERVED;

/// Returns why a node is protected: as the whole ensemble sees it, it is the root, or in `/zookeeper`.
///
/// `chroot` is that of the session which `path` is for.
pub(crate) fn protected(path: &NodePath, chroot: &NodePath) -> Option<&'static str> {
    let mut names = [chroot, path].into_iter().flat_map(|path| {
        let names = path.as_str().split('/');
        names.filter(|name| !name.is_empty())
    });
    match names.next() {
        None => Some("it holds everything"),
        Some(RESERVED) => Some("the servers keep their own nodes there"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everything_depends_on_is_protected() {
        for (chroot, path, is_protected) in [
            ("/", "/", true),
            ("/", "/zookeeper", true),
            ("/", "/zookeeper/quota", true),
            ("/", "/zookeeper/quota/a", true),
            ("/", "/zookeepers", false),
            ("/", "/a/zookeeper", false),
            ("/", "/a", false),
            ("/zookeeper", "/", true),
            ("/zookeeper", "/quota", true),
            ("/zookeeper/quota", "/a", true),
            ("/app", "/", false),
            ("/app", "/zookeeper", false),
            ("/app", "/zookeeper/a", false),
            ("/zookeepers", "/zookeeper", false),
        ] {
            let [chroot, path] = [chroot, path].map(|path| NodePath::parse(path).unwrap());
            let reason = protected(&path, &chroot);
            assert_eq!(reason.is_some(), is_protected, "{chroot} {path}");
        }
    }
}
