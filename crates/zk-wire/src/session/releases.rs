//! Which release of ZooKeeper each server runs, and so which requests it knows.
//!
//! A server that does not know a request answers `Unimplemented` or nothing, and closes the connection: other requests
//! in flight are lost with it. So the servers are asked for their releases, but only when there is a reason to: a
//! connection has ended that way before. A server that does not name its release may know everything.
//!
//! Nothing that a server has said is kept for good. Its answer may be missed, and it may run another release by
//! now. So a server is asked again on each connection, unless it knows everything. If
//! it does not answer, or if a connection ends that way although its release knows the request, its last answer is
//! forgotten.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};

use super::Server;
use crate::proto::Release;

/// What the session knows of the releases of its servers.
#[derive(Debug, Default)]
pub(super) struct Releases {
    /// The release that all servers are taken to run, whatever they say.
    assumed: Option<Release>,
    /// Whether a connection has ended after a request that its server may not have known.
    is_asking: bool,
    /// The releases that servers have named.
    known: BTreeMap<Server, Release>,
    /// The server of the present connection, while it has not answered.
    asked: Option<Server>,
    /// The servers that have closed a connection after a request to remove watches and have named no release since.
    closing_at_removals: BTreeSet<Server>,
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
    pub(super) fn new(assumed: Option<Release>) -> Self {
        Self {
            assumed,
            ..Self::default()
        }
    }

    /// Records a connection to a server; returns whether to ask it for its release.
    pub(super) fn connected(&mut self, server: &Server) -> bool {
        let is_complete = |release: &Release| *release >= Release::COMPLETE;
        let is_asked = self.is_asking
            && self.assumed.is_none()
            && !self.known.get(server).is_some_and(is_complete);
        self.asked = is_asked.then(|| server.clone());
        is_asked
    }

    /// Records that the connection is lost.
    pub(super) fn disconnected(&mut self) {
        self.asked = None;
    }

    /// Records that a server did not carry out a request which `needs` a release, and closed the connection or is about
    /// to. Servers are asked from then on, also this one again.
    pub(super) fn failed(&mut self, server: &Server, needs: Release) {
        self.is_asking = true;
        if self.known.get(server).is_some_and(|known| *known >= needs) {
            self.known.remove(server);
        }
    }

    /// Records that a server has closed a connection after a request to remove watches.
    pub(super) fn removal_failed(&mut self, server: &Server) {
        if !self.known.contains_key(server) {
            self.closing_at_removals.insert(server.clone());
        }
    }

    /// Records the answer of a server; `None` if there was none.
    pub(super) fn answered(&mut self, server: &Server, reply: Option<&str>) {
        let is_serving = self.asked.as_ref() == Some(server);
        if is_serving {
            self.asked = None;
        }
        match reply.and_then(Release::from_srvr) {
            Some(release) => {
                self.known.insert(server.clone(), release);
                self.closing_at_removals.remove(server);
            }
            None if is_serving => {
                self.known.remove(server);
            }
            None => {}
        }
    }

    /// Returns whether a server knows a request which `needs` a release.
    pub(super) fn support(&self, server: &Server, needs: Option<Release>) -> Support {
        let Some(needs) = needs else {
            return Support::Possible;
        };
        if self.asked.as_ref() == Some(server) {
            return Support::Asked;
        }
        match self.release(server) {
            Some(release) if release < needs => Support::Missing(release),
            _ => Support::Possible,
        }
    }

    /// Returns the release of a server, if it is known or assumed.
    fn release(&self, server: &Server) -> Option<Release> {
        self.assumed.or_else(|| self.known.get(server).copied())
    }

    /// Returns whether a request to remove watches may cost the connection, as far as is known. `ClickHouse` Keeper
    /// does not know it before ClickHouse/ClickHouse#88813, and names no release of `ZooKeeper`.
    pub(super) fn closes_at_removals(&self, server: &Server) -> bool {
        self.closing_at_removals.contains(server)
    }

    /// Returns whether a server is known to have no persistent watches.
    pub(super) fn lacks_persistent_watches(&self, server: &Server) -> bool {
        let release = self.release(server);
        release.is_some_and(|release| release < Release::PERSISTENT_WATCHES)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Host;
    use super::*;

    const NEEDS: Release = Release::new(3, 5, 0);
    const OLD: &str = "Zookeeper version: 3.4.13-2d71af4, built on 06/29/2018";
    const NEW: &str = "Zookeeper version: 3.9.2-e454e8c, built on 2024-02-12";

    fn server(name: &str) -> Server {
        Server {
            host: Host {
                name: name.to_owned(),
                port: 2181,
            },
            address: ([10, 0, 0, 1], 2181).into(),
        }
    }

    /// A session that has lost a connection to `a` with a request that needs 3.5.
    fn lost() -> Releases {
        let mut releases = Releases::default();
        assert!(!releases.connected(&server("a")), "there is no reason yet");
        releases.failed(&server("a"), NEEDS);
        releases.disconnected();
        releases
    }

    #[test]
    fn after_one_loss_each_server_is_asked() {
        let mut releases = lost();
        for name in ["a", "b"] {
            let server = server(name);
            assert!(releases.connected(&server));
            assert_eq!(releases.support(&server, Some(NEEDS)), Support::Asked);
            assert_eq!(releases.support(&server, None), Support::Possible);
            releases.answered(&server, Some(NEW));
            assert_eq!(releases.support(&server, Some(NEEDS)), Support::Possible);
            assert!(!releases.connected(&server), "it knows everything");
        }
    }

    #[test]
    fn an_old_server_is_asked_again_on_each_connection() {
        let (mut releases, a) = (lost(), server("a"));
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
            let (mut releases, a) = (lost(), server("a"));
            assert!(releases.connected(&a));
            releases.answered(&a, reply);
            assert_eq!(releases.support(&a, Some(NEEDS)), Support::Possible);
            assert!(releases.connected(&a), "it is asked again");
        }
        // An answer that was overtaken by the end of the connection says nothing of the server.
        let (mut releases, a) = (lost(), server("a"));
        assert!(releases.connected(&a));
        releases.disconnected();
        releases.answered(&a, None);
        assert!(releases.connected(&a));
    }

    #[test]
    fn a_missed_answer_takes_back_the_last_one() {
        let (mut releases, a) = (lost(), server("a"));
        assert!(releases.connected(&a));
        releases.answered(&a, Some(OLD));
        assert!(releases.connected(&a));
        releases.answered(&a, None);
        assert_eq!(releases.support(&a, Some(NEEDS)), Support::Possible);
        assert!(!releases.lacks_persistent_watches(&a));
        assert!(releases.connected(&a), "it is asked again");
    }

    #[test]
    fn a_loss_takes_back_what_it_contradicts() {
        let (mut releases, a) = (lost(), server("a"));
        releases.answered(&a, Some(NEW));
        releases.answered(&server("b"), Some(NEW));
        releases.failed(&a, NEEDS);
        assert!(releases.connected(&a), "another server may have its name");
        assert!(!releases.connected(&server("b")));
        // That an old server closes a connection is what it is known for.
        releases.answered(&a, Some("Zookeeper version: 3.5.9-83df9301, built"));
        releases.failed(&a, Release::new(3, 6, 0));
        assert!(releases.lacks_persistent_watches(&a));
    }

    #[test]
    fn an_assumed_release_is_that_of_every_server() {
        let old = Release::new(3, 4, 0);
        let (mut releases, a) = (Releases::new(Some(old)), server("a"));
        for _ in 0..2 {
            assert!(!releases.connected(&a), "it need not be asked");
            assert_eq!(releases.support(&a, Some(NEEDS)), Support::Missing(old));
            assert_eq!(releases.support(&a, Some(old)), Support::Possible);
            assert_eq!(releases.support(&a, None), Support::Possible);
            assert!(releases.lacks_persistent_watches(&a));
            releases.failed(&a, NEEDS);
            releases.answered(&a, Some(NEW));
            releases.disconnected();
        }
        let releases = Releases::new(Some(Release::new(3, 6, 0)));
        assert!(!releases.lacks_persistent_watches(&a));
        assert_eq!(releases.support(&a, Some(NEEDS)), Support::Possible);
    }

    #[test]
    fn only_a_host_without_a_release_is_spared_removals() {
        let (mut releases, a) = (Releases::default(), server("a"));
        assert!(!releases.closes_at_removals(&a));
        releases.removal_failed(&a);
        assert!(releases.closes_at_removals(&a));
        assert!(!releases.closes_at_removals(&server("b")));
        releases.answered(&a, Some(NEW));
        assert!(!releases.closes_at_removals(&a));
        releases.asked = Some(a.clone());
        releases.answered(&a, None);
        assert!(!releases.closes_at_removals(&a), "it has named one before");
        releases.answered(&server("b"), Some(NEW));
        releases.removal_failed(&server("b"));
        assert!(
            !releases.closes_at_removals(&server("b")),
            "a loss like any"
        );
    }
}
