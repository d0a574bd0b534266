//! Several credentials, from the start and later.

use zk_core::{Acl, AclEntry, ErrorKind, Permissions, Session, SessionEnd};

use crate::{MAX_WAIT, with_ensemble, within};

#[tokio::test(flavor = "multi_thread")]
async fn credentials_add_up_and_a_refused_one_ends_the_session() {
    with_ensemble(async |ensemble| {
        let builder = || Session::builder(ensemble.connect_string());
        for user in ["ann", "bob", "eve"] {
            let only_theirs = Acl::new([AclEntry::new(Permissions::ALL, "auth", "")]);
            let session = builder().digest_auth(user, "secret");
            let session = session.connect().await.unwrap();
            let create = session.create(format!("/{user}"), user);
            create.acl(only_theirs).await.unwrap();
        }
        let session = builder()
            .digest_auth("ann", "secret")
            .auth("digest", "bob:secret");
        let session = session.connect().await.unwrap();
        assert_eq!(session.get("/ann").await.unwrap().0, "ann");
        assert_eq!(session.get("/bob").await.unwrap().0, "bob");
        assert_eq!(
            session.get("/eve").await.unwrap_err().kind(),
            ErrorKind::NoAuth
        );
        session.add_digest_auth("eve", "secret").await.unwrap();
        assert_eq!(session.get("/eve").await.unwrap().0, "eve");
        // ip and three users
        assert_eq!(session.whoami().await.unwrap().len(), 4);

        let refused = session.add_auth("no-such-scheme", "x").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AuthFailed, "{refused}");
        let lost = within(MAX_WAIT, "the end of the session", session.lost()).await;
        assert_eq!(lost, SessionEnd::AuthFailed);
    })
    .await;
}
