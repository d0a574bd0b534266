//! Requests that are refused before anything is sent.

use zk_core::{Acl, ErrorKind};
use zk_sim::Ensemble;

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused_before_anything_is_sent() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let big = vec![0; 1 << 20];
    let created = [
        (
            session.create("a", "").await,
            ErrorKind::InvalidPath,
            "create: not a valid path",
        ),
        (
            session.create("/", "").await,
            ErrorKind::InvalidArgument,
            "create /: not possible (the root always exists)",
        ),
        (
            session.create("/a", "").ephemeral().container().await,
            ErrorKind::InvalidArgument,
            "create /a: not possible (a node is ephemeral or a container, not both)",
        ),
        (
            session.create("/a", "").acl(Acl::new([])).await,
            ErrorKind::InvalidAcl,
            "create /a: the server does not accept the acl (it has no entry)",
        ),
        (
            session.create("/a", big.clone()).await,
            ErrorKind::TooLarge,
            "create /a: the request is too large (1048576 bytes of data; with this path at most 1048486 fit, and the \
             limit of a request is 1048575; store it in pieces or elsewhere, or raise the limit with `max_buffer` if \
             `jute.maxbuffer` of the servers is higher)",
        ),
    ];
    for (result, kind, message) in created {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
    let long = format!("/{}", "x".repeat(1 << 20));
    let acl = Acl::new(vec![Acl::open().entries()[0].clone(); 50_000]);
    let versioned = session.delete("/a").recursive().version(1);
    for (error, kind) in [
        (
            session.set("/a", big).await.unwrap_err(),
            ErrorKind::TooLarge,
        ),
        (session.get(&long).await.unwrap_err(), ErrorKind::TooLarge),
        (
            session.delete(&long).await.unwrap_err(),
            ErrorKind::TooLarge,
        ),
        (
            session.set_acl("/a", acl).await.unwrap_err(),
            ErrorKind::TooLarge,
        ),
        (
            session.delete("/").await.unwrap_err(),
            ErrorKind::InvalidArgument,
        ),
        (versioned.await.unwrap_err(), ErrorKind::InvalidArgument),
        (
            session.set_acl("/a", Acl::new([])).await.unwrap_err(),
            ErrorKind::InvalidAcl,
        ),
    ] {
        assert_eq!(error.kind(), kind, "{:?}", error.operation());
    }
    assert_eq!(sim.request_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn transaction_with_a_bad_part_names_it_an_empty_one_is_done() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let bad = session.transaction().check("/a").set("b", "");
    let error = bad.commit().await.unwrap_err();
    assert_eq!(
        (error.failed_part(), error.kind()),
        (Some(1), ErrorKind::InvalidPath)
    );
    assert!(session.transaction().commit().await.unwrap().is_empty());
    assert_eq!(sim.request_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn version_that_means_any_is_refused_with_the_remedy() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let guaranteed = session.delete("/a").guaranteed();
    let errors = [
        session.set("/a", "").version(-1).await.unwrap_err(),
        session.delete("/a").version(-1).await.unwrap_err(),
        guaranteed.version(-1).await.unwrap_err(),
        session
            .set_acl("/a", Acl::open())
            .version(-1)
            .await
            .unwrap_err(),
    ];
    let transactions = [
        session.transaction().check_version("/a", -1),
        session.transaction().set_version("/a", "", -1),
        session.transaction().delete_version("/a", -1),
    ];
    let mut errors = errors.to_vec();
    for transaction in transactions {
        errors.push(transaction.commit().await.unwrap_err());
    }
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let remedy =
            "version -1 means any version to servers; to ask for none, leave the version away";
        assert!(error.to_string().contains(remedy), "{error}");
    }
    assert_eq!(sim.request_count(), 0);
    // Versions wrap around: any other negative one occurs.
    let set = session.set("/a", "").version(i32::MIN);
    assert!(set.await.unwrap_err().is_no_node());
    let delete = session.delete("/a").version(-2);
    assert!(delete.await.unwrap_err().is_no_node());
}
