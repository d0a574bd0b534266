//! Access control lists as people write them: `scheme:id:permissions`.
//!
//! Pure: no I/O and no clock.

use serde_json::{Value, json};
use zk_core::{Acl, AclEntry, Permissions};

/// The ACL of the nodes that are created; `None` for that of the session, which is open to all.
#[derive(Debug, Clone)]
pub(crate) struct DefaultAcl(pub(crate) Option<Acl>);

/// Parses the ACL of the nodes that are created. An empty text is none, as for the other variables.
pub(crate) fn parse_default(text: &str) -> Result<DefaultAcl, String> {
    if text.is_empty() {
        return Ok(DefaultAcl(None));
    }
    Ok(DefaultAcl(Some(Acl::new(parse(text)?))))
}

/// Returns an entry as [`parse`] reads it.
pub(crate) fn entry(entry: &AclEntry) -> String {
    format!("{}:{}:{}", entry.scheme(), entry.id(), entry.permissions())
}

/// Returns the document of an entry.
pub(crate) fn document(entry: &AclEntry) -> Value {
    json!({
        "scheme": entry.scheme(),
        "id": entry.id(),
        "permissions": entry.permissions().to_string(),
    })
}

/// Parses one entry, or several with commas between them, as ZooKeeper's own shell takes them.
///
/// An id may have colons and commas itself, as names in certificates do: a text that is one entry as a whole is not
/// split, unless each of its parts is an entry too.
pub(crate) fn parse(text: &str) -> Result<Vec<AclEntry>, String> {
    let parts: Result<Vec<_>, _> = text.split(',').map(parse_entry).collect();
    match parts {
        Ok(entries) => Ok(entries),
        Err(_) => Ok(vec![parse_entry(text)?]),
    }
}

fn parse_entry(text: &str) -> Result<AclEntry, String> {
    let (scheme, rest) = text.split_once(':').ok_or("write scheme:id:permissions")?;
    let (id, letters) = rest
        .rsplit_once(':')
        .ok_or("write scheme:id:permissions; the id of auth is empty, as in auth::cdrwa")?;
    if scheme.is_empty() {
        return Err("the scheme is empty".to_owned());
    }
    if letters.is_empty() {
        return Err("there are no permissions; write letters of cdrwa".to_owned());
    }
    let permissions = permissions(letters)?;
    Ok(AclEntry::new(permissions, scheme, id))
}

/// Parses permissions, as they are printed or in another order.
pub(crate) fn permissions(letters: &str) -> Result<Permissions, String> {
    let mut permissions = Permissions::NONE;
    for letter in letters.chars() {
        let one = match letter {
            'c' => Permissions::CREATE,
            'd' => Permissions::DELETE,
            'r' => Permissions::READ,
            'w' => Permissions::WRITE,
            'a' => Permissions::ADMIN,
            _ => {
                return Err(format!(
                    "{letter:?} is no permission; write letters of cdrwa"
                ));
            }
        };
        permissions = permissions | one;
    }
    Ok(permissions)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> Option<Vec<String>> {
        Some(parse(text).ok()?.iter().map(entry).collect())
    }

    #[test]
    fn entries_are_read_as_they_are_printed() {
        for text in [
            "world:anyone:cdrwa",
            "world:anyone:r",
            "auth::cdrwa",
            "digest:alice:aGFzaA==:cdrwa",
            "ip:10.0.0.0/8:cr",
            "ip:fe80::1:r",
            "x509:CN=alice,OU=ops,O=shop:cdrwa",
        ] {
            assert_eq!(written(text), Some(vec![text.to_owned()]));
        }
        assert_eq!(
            written("world:anyone:r,auth::awrdc").unwrap(),
            ["world:anyone:r", "auth::cdrwa"]
        );
    }

    #[test]
    fn every_set_of_permissions_is_read_in_any_order() {
        for bits in 1_u32..32 {
            let letters = ['c', 'd', 'r', 'w', 'a'].into_iter().enumerate();
            let letters: String = letters
                .filter(|(at, _)| bits >> at & 1 == 1)
                .map(|(_, letter)| letter)
                .collect();
            let backwards: String = letters.chars().rev().collect();
            for text in [&letters, &backwards] {
                assert_eq!(
                    written(&format!("a:b:{text}")).unwrap(),
                    [format!("a:b:{letters}")]
                );
            }
        }
    }

    #[test]
    fn what_is_no_entry_is_refused_with_the_rule() {
        for text in [
            "",
            "world",
            "world:anyone",
            ":a:r",
            "world:anyone:",
            "world:anyone:x",
            "a:b:r,",
            ",",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_it_is_printed_or_refused(
            text in prop_oneof![any::<String>(), "[a,:é]{0,6}(:[a-z]{0,3})?", "([a-z]{0,2}:[^:]{0,3}:[cdrwa,]{0,6},?){0,3}"],
        ) {
            if let Ok(entries) = parse(&text) {
                let printed: Vec<_> = entries.iter().map(entry).collect();
                let again: Vec<_> = printed.iter().map(|entry| parse_entry(entry)).collect();
                let entries: Vec<_> = entries.into_iter().map(Ok).collect();
                prop_assert_eq!(again, entries);
            }
        }
    }
}
