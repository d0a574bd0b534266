//! Which release of ZooKeeper each server runs, and so which requests it knows.
//!
//! A server that does not know a request answers `Unimplemented` or nothing, and closes the connection: other requests
//! in flight are lost with it. So the servers are asked for their releases, but only when there is a reason to: a
//! connection has ended that way before. A server that does not name its release may know everything.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use super::Host;
use crate::proto::Release;

/// What the session knows of the releases of its servers.
#[derive(Debug, Default)]
pub(super) struct Releases {
    /// Whether a connection has ended after a request that its server may not have known.
    is_asking: bool,
    /// The releases of the servers that were asked; `None` for those that do not name it.
    known: BTreeMap<Host, Option<Release>>,
    /// The server of the present connection, while it has not answered.
    asked: Option<Host>,
}

/// Whether a server knows a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// It does, or may.
    Possible,
    /// It does not: it runs this older release.
    Missing(Release),
    /// It was asked and has not answered.
    Asked,
}

impl Releases {
    /// Records a connection to a server; returns whether to ask it for its release.
    pub(super) fn connected(&mut self, host: &Host) -> bool {
        self.asked = None;
        let is_settled = match self.known.get(host) {
            None => false,
            Some(None) => true,
            // It may run a newer one since.
            Some(Some(release)) => *release >= Release::COMPLETE,
        };
        if !self.is_asking || is_settled {
            return false;
        }
        self.asked = Some(host.clone());
        true
    }

    /// Records that the connection is lost.
    pub(super) fn disconnected(&mut self) {
        self.asked = None;
    }

    /// Records that a server did not carry out a request which `needs` a release, and closed the connection or is about
    /// to. Servers are asked from then on, unless this one is known to be new enough.
    pub(super) fn failed(&mut self, host: &Host, needs: Release) {
        if !matches!(self.known.get(host), Some(Some(release)) if *release >= needs) {
            self.is_asking = true;
        }
    }

    /// Records the answer of a server; `None` if there was none.
    pub(super) fn answered(&mut self, host: &Host, reply: Option<&str>) {
        let is_serving = self.asked.as_ref() == Some(host);
        if is_serving {
            self.asked = None;
        }
        match reply.and_then(Release::from_srvr) {
            Some(release) => {
                self.known.insert(host.clone(), Some(release));
            }
            // It serves this session, but does not name its release. Another server may do so later.
            None if is_serving => {
                self.known.insert(host.clone(), None);
            }
            None => {}
        }
    }

    /// Returns whether a server knows a request which `needs` a release.
    pub(super) fn support(&self, host: &Host, needs: Option<Release>) -> Support {
        let Some(needs) = needs else {
            return Support::Possible;
        };
        if self.asked.as_ref() == Some(host) {
            return Support::Asked;
        }
        match self.known.get(host) {
            Some(Some(release)) if *release < needs => Support::Missing(*release),
            _ => Support::Possible,
        }
    }

    /// Returns whether a server is known to have no persistent watches.
    pub(super) fn lacks_persistent_watches(&self, host: &Host) -> bool {
        let known = self.known.get(host).copied().flatten();
        known.is_some_and(|release| release < Release::PERSISTENT_WATCHES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Release = Release::new(3, 5, 0);
    const OLD: &str = "Zookeeper version: 3.4.13-2d71af4, built on 06/29/2018";
    const NEW: &str = "Zookeeper version: 3.9.2-e454e8c, built on 2024-02-12";

    fn host(name: &str) -> Host {
        Host {
            name: name.to_owned(),
            port: 2181,
        }
    }

    /// A session that has lost a connection to `a` with a request that needs 3.5.
    fn lost() -> Releases {
        let mut releases = Releases::default();
        assert!(!releases.connected(&host("a")), "there is no reason yet");
        releases.failed(&host("a"), NEEDS);
        releases.disconnected();
        releases
    }

    #[test]
    fn after_one_loss_each_server_is_asked_once() {
        let mut releases = lost();
        for name in ["a", "b"] {
            let host = host(name);
            assert!(releases.connected(&host));
            assert_eq!(releases.support(&host, Some(NEEDS)), Support::Asked);
            assert_eq!(releases.support(&host, None), Support::Possible);
            releases.answered(&host, Some(NEW));
            assert_eq!(releases.support(&host, Some(NEEDS)), Support::Possible);
            assert!(!releases.connected(&host));
        }
    }

    #[test]
    fn an_old_server_is_asked_again_on_each_connection() {
        let (mut releases, a) = (lost(), host("a"));
        let old = Release::new(3, 4, 13);
        for _ in 0..2 {
            assert!(releases.connected(&a));
            releases.answered(&a, Some(OLD));
            assert_eq!(releases.support(&a, Some(NEEDS)), Support::Missing(old));
            assert_eq!(releases.support(&a, None), Support::Possible);
            assert!(releases.lacks_persistent_watches(&a));
        }
        assert!(releases.connected(&a));
        releases.answered(&a, Some(NEW));
        assert_eq!(releases.support(&a, Some(NEEDS)), Support::Possible);
        assert!(!releases.lacks_persistent_watches(&a));
    }

    #[test]
    fn a_server_that_names_no_release_may_know_everything() {
        for reply in [
            None,
            Some("srvr is not executed because it is not in the whitelist."),
        ] {
            let (mut releases, a) = (lost(), host("a"));
            assert!(releases.connected(&a));
            releases.answered(&a, reply);
            assert_eq!(releases.support(&a, Some(NEEDS)), Support::Possible);
            assert!(!releases.connected(&a), "it is not asked again");
        }
        // An answer that was overtaken by the end of the connection says nothing of the server.
        let (mut releases, a) = (lost(), host("a"));
        assert!(releases.connected(&a));
        releases.disconnected();
        releases.answered(&a, None);
        assert!(releases.connected(&a));
    }

    #[test]
    fn a_server_known_to_be_new_gives_no_reason_to_ask_others() {
        let a = host("a");
        let mut releases = Releases::default();
        releases.answered(&a, Some(NEW));
        releases.failed(&a, NEEDS);
        assert!(!releases.connected(&host("b")));
    }
}
