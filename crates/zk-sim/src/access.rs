//! Checks ACLs as servers do.
//!
//! Pure: no I/O and no clock.

use zk_core::{Acl, AclEntry, ErrorKind, Permissions};

use crate::digest;

/// An identity that a session has authenticated as, besides `world:anyone`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    scheme: &'static str,
    id: String,
}

impl Identity {
    /// Returns the identity of a user of the `digest` scheme.
    pub(crate) fn digest(user: &str, password: &str) -> Self {
        Self {
            scheme: "digest",
            id: digest::id_of(user, password),
        }
    }

    /// Returns what a server tells of it.
    pub(crate) fn public(&self) -> zk_core::Identity {
        let user = self.id.split(':').next().unwrap_or_default();
        zk_core::Identity {
            scheme: self.scheme.to_owned(),
            name: user.to_owned(),
        }
    }

    fn is(&self, entry: &AclEntry) -> bool {
        entry.scheme() == self.scheme && entry.id() == self.id
    }
}

/// Returns whether `acl` grants one of the permissions `wanted` to one of `identities`.
pub(crate) fn is_granted(acl: &Acl, wanted: &[Permissions], identities: &[Identity]) -> bool {
    acl.entries().iter().any(|entry| {
        wanted
            .iter()
            .any(|wanted| entry.permissions().contains(*wanted))
            && (is_anyone(entry) || identities.iter().any(|identity| identity.is(entry)))
    })
}

/// Returns the ACL as servers store it: each entry `auth` is replaced by the identities of the session.
pub(crate) fn resolved(acl: &Acl, identities: &[Identity]) -> Result<Acl, ErrorKind> {
    let mut entries: Vec<AclEntry> = Vec::new();
    let mut add = |entry: AclEntry| {
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    };
    for entry in acl.entries() {
        match entry.scheme() {
            "world" if entry.id() == "anyone" => add(entry.clone()),
            "auth" if !identities.is_empty() => {
                for identity in identities {
                    add(AclEntry::new(
                        entry.permissions(),
                        identity.scheme,
                        identity.id.clone(),
                    ));
                }
            }
            "digest" if entry.id().split(':').count() == 2 => add(entry.clone()),
            // Sessions have no address here.
            "ip" if !entry.id().is_empty() => add(entry.clone()),
            _ => return Err(ErrorKind::InvalidAcl),
        }
    }
    if entries.is_empty() {
        return Err(ErrorKind::InvalidAcl);
    }
    Ok(Acl::new(entries))
}

/// Returns the ACL as a session without the permission `ADMIN` sees it: without password hashes.
pub(crate) fn masked(acl: &Acl) -> Acl {
    Acl::new(
        acl.entries()
            .iter()
            .map(|entry| match (entry.scheme(), entry.id().split_once(':')) {
                ("digest", Some((user, _))) => {
                    AclEntry::new(entry.permissions(), "digest", format!("{user}:x"))
                }
                _ => entry.clone(),
            }),
    )
}

fn is_anyone(entry: &AclEntry) -> bool {
    entry.scheme() == "world" && entry.id() == "anyone"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anyone(permissions: Permissions) -> AclEntry {
        AclEntry::new(permissions, "world", "anyone")
    }

    #[test]
    fn auth_stands_for_every_identity_and_is_refused_without_one() {
        let ann = Identity::digest("ann", "pw");
        let bob = Identity::digest("bob", "pw");
        let stored = resolved(&Acl::creator_only(), &[ann.clone(), bob.clone()]).unwrap();
        for user in [ann, bob] {
            assert!(is_granted(&stored, &[Permissions::ADMIN], &[user]));
        }
        assert!(!is_granted(&stored, &[Permissions::READ], &[]));
        assert_eq!(
            resolved(&Acl::creator_only(), &[]),
            Err(ErrorKind::InvalidAcl)
        );
    }

    #[test]
    fn rules_that_mean_nobody_are_refused() {
        for (scheme, id) in [
            ("world", "everyone"),
            ("digest", "ann"),
            ("digest", "a:b:c"),
            ("ip", ""),
            ("nonsense", "x"),
        ] {
            let acl = Acl::new([AclEntry::new(Permissions::ALL, scheme, id)]);
            assert_eq!(
                resolved(&acl, &[Identity::digest("ann", "pw")]),
                Err(ErrorKind::InvalidAcl),
                "{scheme}:{id}"
            );
        }
        assert_eq!(resolved(&Acl::new([]), &[]), Err(ErrorKind::InvalidAcl));
    }

    #[test]
    fn a_rule_twice_is_stored_once() {
        let entry = anyone(Permissions::READ);
        let acl = Acl::new([entry.clone(), entry.clone()]);
        assert_eq!(resolved(&acl, &[]), Ok(Acl::new([entry])));
    }

    #[test]
    fn each_permission_is_granted_by_itself() {
        let acl = Acl::new([anyone(Permissions::READ), anyone(Permissions::CREATE)]);
        assert!(is_granted(&acl, &[Permissions::CREATE], &[]));
        assert!(!is_granted(&acl, &[Permissions::WRITE], &[]));
        assert!(is_granted(
            &acl,
            &[Permissions::WRITE, Permissions::READ],
            &[]
        ));
    }
}
