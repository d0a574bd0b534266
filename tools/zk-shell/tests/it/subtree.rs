//! Export, import and mirror between real servers.

use std::path::Path;
use std::process::Output;

use tempfile::tempdir;
use zk_core::{Acl, AclEntry, Permissions, Session};
use zk_fault_proxy::Match;
use zk_harness::Ensemble;

use crate::terminal::Terminal;
use crate::{MAX_WAIT, command, finish, with_ensemble, zk};

/// The checksum of what was exported or verified.
fn sha256(said: &str) -> &str {
    let line = said
        .lines()
        .find(|line| line.starts_with("sha256"))
        .unwrap_or_else(|| panic!("{said}"));
    line.rsplit(' ').next().unwrap()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}exit {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output
            .status
            .code()
            .map_or_else(|| "by a signal".to_owned(), |code| code.to_string())
    )
}

async fn zk_as(user: &str, connect: &str, arguments: &[&str]) -> String {
    let mut command = command(connect, arguments);
    command.env("ZK_AUTH", user);
    said(&finish(command, b"").await)
}

/// Creates a subtree of `families` families of ten nodes, with data of all kinds, and returns how many nodes it has.
pub(crate) async fn create_subtree(session: &Session, root: &str, families: usize) -> usize {
    session.create(root, "root").parents().await.unwrap();
    for family in 0..families {
        let parent = format!("{root}/f%{family:04} é");
        let mut transaction = session
            .transaction()
            .create(&parent, format!("family {family}"));
        for child in 0..9_u8 {
            let data = match child {
                0 => Vec::new(),
                1 => vec![0xff, child, 0],
                _ => format!("{family}/{child}").into_bytes(),
            };
            transaction = transaction.create(format!("{parent}/.c={child}"), data);
        }
        transaction.commit().await.unwrap();
    }
    1 + 10 * families
}

async fn connect_as(connect: &str, user: Option<&str>) -> Session {
    let builder = Session::builder(connect);
    let builder = match user {
        Some(user) => builder.digest_auth(user, "secret"),
        None => builder,
    };
    builder.connect().await.unwrap()
}

async fn number_of_nodes(session: &Session, root: &str) -> usize {
    1 + usize::try_from(session.descendant_count(root).await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_comes_back_equal_from_every_format() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        let count = create_subtree(&session, "/app", 200).await;
        session.create("/app/gone", "").ephemeral().await.unwrap();
        let directory = tempdir().unwrap();
        let mut sums = Vec::new();
        for (name, copy) in [("a.json", "/json"), ("a.tar", "/tar"), ("a/", "/deep/dir")] {
            let file = format!("{}/{name}", directory.path().display());
            let exported = zk(connect, &["export", "/app", &file]).await;
            let expected = format!("Exported {count} nodes with ");
            assert!(exported.starts_with(&expected) && exported.ends_with("exit 0"), "{exported}");
            let again = zk(connect, &["export", "/app", &file]).await;
            assert!(again.contains("exists already, and nothing was written"), "{again}");

            let dry = zk(connect, &["import", "--dry-run", &file, copy]).await;
            assert!(dry.contains(&format!("create {copy}/f%0000 é/.c=1  3 bytes\n")), "{dry}");
            assert!(dry.contains(&format!("Would import to {copy}: {count} nodes created\n")), "{dry}");
            assert!(session.exists(copy).await.unwrap().is_none());

            let imported = zk(connect, &["import", &file, copy]).await;
            assert!(imported.starts_with(&format!("Imported to {copy}: {count} nodes created\nVerified: {count} nodes equal\n")), "{imported}");
            assert_eq!(sha256(&imported), sha256(&exported));
            assert_eq!(number_of_nodes(&session, copy).await, count);

            // What is exported from the copy has the same checksum.
            let back = zk(connect, &["export", copy, &format!("{}/back-{name}", directory.path().display())]).await;
            sums.push(sha256(&back).to_owned());

            let twice = zk(connect, &["import", &file, copy]).await;
            assert!(twice.starts_with(&format!("error: {copy} exists already, and nothing was written\n")), "{twice}");

            // Whatever differs is reported, and nothing else.
            session.set(format!("{copy}/f%0001 é/.c=2"), "other").await.unwrap();
            session.delete(format!("{copy}/f%0002 é/.c=3")).await.unwrap();
            session.create(format!("{copy}/more"), "").await.unwrap();
            session.set_acl(format!("{copy}/f%0003 é"), Acl::read_only()).await.unwrap();
            let verified = zk(connect, &["import", "--verify", &file, copy]).await;
            let expected = format!(
                "differs {copy}/f%0001 é/.c=2  data\nmissing {copy}/f%0002 é/.c=3\ndiffers {copy}/f%0003 é  access rules\nextra {copy}/more\nDifferent: {} nodes equal, 1 missing, 2 different, 1 not in the source\n",
                count - 3
            );
            assert!(verified.starts_with(&expected) && verified.ends_with("exit 1"), "{verified}");
        }
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_rules_come_after_the_children() {
    with_ensemble(async |connect| {
        let alice = connect_as(connect, Some("alice")).await;
        let only_alice = Acl::creator_only();
        alice.create("/app", "root").await.unwrap();
        alice.create("/app/closed", "1").await.unwrap();
        alice
            .create("/app/closed/child", "2")
            .acl(only_alice.clone())
            .await
            .unwrap();
        alice.set_acl("/app/closed", only_alice).await.unwrap();
        alice.set_acl("/app", Acl::read_only()).await.unwrap();
        let rules = alice.acl("/app/closed").await.unwrap().0;

        let directory = tempdir().unwrap();
        let file = directory.path().join("a.json");
        let file = file.to_str().unwrap();
        // Without the credentials the export fails, and leaves nothing behind.
        let refused = zk(connect, &["export", "/app", file]).await;
        assert!(
            refused.contains("may not read the node \"/app/closed\"")
                && refused.contains("ZK_AUTH"),
            "{refused}"
        );
        assert!(!Path::new(file).exists());
        let exported = zk_as("alice:secret", connect, &["export", "/app", file]).await;
        assert!(exported.starts_with("Exported 3 nodes"), "{exported}");

        // Another user restores it: the closed nodes get their rules, and are no longer readable afterwards.
        let imported = zk_as("bob:secret", connect, &["import", file, "/copy"]).await;
        assert!(imported.contains("3 nodes created"), "{imported}");
        assert!(
            imported.contains(
                "Incomplete: 1 node equal, 2 not compared, because this session may not read them"
            ) && imported.contains("error: 2 nodes were not compared with the export")
                && imported.ends_with("exit 1"),
            "{imported}"
        );
        let verified = zk_as(
            "bob:secret",
            connect,
            &["import", "--verify", file, "/copy"],
        )
        .await;
        assert!(
            verified.starts_with("Incomplete: 1 node equal, 2 not compared")
                && verified.ends_with("exit 1"),
            "{verified}"
        );
        for existing in ["--resume", "--existing=skip"] {
            let again = zk_as("bob:secret", connect, &["import", existing, file, "/copy"]).await;
            assert!(
                again
                    .contains("1 left as they were, 2 left because this session may not read them")
                    && again.contains("Incomplete: ")
                    && again.ends_with("exit 1"),
                "{again}"
            );
        }
        for (path, data) in [
            ("/copy", "root"),
            ("/copy/closed", "1"),
            ("/copy/closed/child", "2"),
        ] {
            assert_eq!(alice.get(path).await.unwrap().0, data);
        }
        assert_eq!(alice.acl("/copy").await.unwrap().0, Acl::read_only());
        assert_eq!(alice.acl("/copy/closed").await.unwrap().0, rules);
        assert_eq!(alice.acl("/copy/closed/child").await.unwrap().0, rules);
        let verified = zk_as(
            "alice:secret",
            connect,
            &["import", "--verify", file, "/copy"],
        )
        .await;
        assert!(
            verified.starts_with("Verified: 3 nodes equal\n"),
            "{verified}"
        );
        // Without credentials too.
        let imported = zk(connect, &["import", file, "/open"]).await;
        assert!(imported.contains("3 nodes created"), "{imported}");
        assert_eq!(alice.acl("/open/closed").await.unwrap().0, rules);
        alice.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_access_rules_are_not_exported() {
    with_ensemble(async |connect| {
        let alice = connect_as(connect, Some("alice")).await;
        let (id, scheme) = {
            alice
                .create("/app", "")
                .acl(Acl::creator_only())
                .await
                .unwrap();
            let rules = alice.acl("/app").await.unwrap().0;
            let entry = &rules.entries()[0];
            (entry.id().to_owned(), entry.scheme().to_owned())
        };
        let rules = Acl::new([
            AclEntry::new(Permissions::ALL, scheme, id),
            AclEntry::new(Permissions::READ, "world", "anyone"),
        ]);
        alice.set_acl("/app", rules).await.unwrap();
        let refused = zk(connect, &["export", "/app", "-"]).await;
        assert!(
            refused.contains("hides the access rules of /app") && refused.ends_with("exit 1"),
            "{refused}"
        );
        let exported = zk_as("alice:secret", connect, &["export", "/app", "-"]).await;
        assert!(exported.contains("Exported 1 node "), "{exported}");
        alice.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_import_is_resumed_to_the_same_result() {
    let ensemble = Ensemble::builder().servers(1).proxied(true).start().await;
    let ensemble = ensemble.expect("a server starts");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let connect = ensemble.connect_string();
    let connect = connect.as_str();
    let session = connect_as(connect, None).await;
    let count = create_subtree(&session, "/app", 400).await;
    // A node with children that only its owner may change.
    session
        .set_acl("/app/f%0000 é", Acl::read_only())
        .await
        .unwrap();
    let directory = tempdir().unwrap();
    let file = directory.path().join("a.json");
    let file = file.to_str().unwrap();
    let exported = zk(connect, &["export", "/app", file]).await;

    // After a part of its transactions the servers receive nothing more.
    let stopped = proxy.on(Match::multi("/copy/**")).nth(12).black_hole();
    let mut importing = command(connect, &["import", file, "/copy"])
        .env("ZK_AUTH", "bob:secret")
        .spawn()
        .unwrap();
    stopped.happened(MAX_WAIT).await.unwrap();
    let written = Match::multi("/copy/**").reply();
    proxy.wait_for(&written, 11, MAX_WAIT).await.unwrap();
    importing.start_kill().unwrap();
    let ended = importing.wait_with_output().await.unwrap();
    assert_eq!(said(&ended), "exit by a signal");
    stopped.remove();
    let before = number_of_nodes(&session, "/copy").await;
    assert!(
        (1000..count).contains(&before),
        "{before} of {count} were imported before the kill"
    );

    let refused = zk(connect, &["import", file, "/copy"]).await;
    assert!(
        refused.contains("--resume after an interrupted import"),
        "{refused}"
    );
    let resumed = zk_as(
        "bob:secret",
        connect,
        &["import", "--resume", file, "/copy"],
    )
    .await;
    let expected = format!("Imported to /copy: {} nodes created", count - before);
    assert!(resumed.starts_with(&expected), "{resumed}");
    assert!(
        resumed.contains(&format!("Verified: {count} nodes equal\n")),
        "{resumed}"
    );
    assert_eq!(sha256(&resumed), sha256(&exported));

    // Once more it has nothing to do; and it never changes what others have written.
    let again = zk(connect, &["import", "--resume", file, "/copy"]).await;
    assert!(
        again.starts_with(&format!(
            "Imported to /copy: 0 nodes created, {count} left as they were\n"
        )),
        "{again}"
    );
    session.set("/copy/f%0007 é", "mine").await.unwrap();
    let refused = zk(connect, &["import", "--resume", file, "/copy"]).await;
    assert!(
        refused.starts_with("error: /copy/f%0007 é has other data than the export\n"),
        "{refused}"
    );
    assert_eq!(session.get("/copy/f%0007 é").await.unwrap().0, "mine");
    let skipped = zk(connect, &["import", "--existing", "skip", file, "/copy"]).await;
    assert!(
        skipped.contains("left /copy/f%0007 é  data\n")
            && skipped.contains(&format!(
                "Verified: {} nodes equal, 1 different and left as they were\n",
                count - 1
            ))
            && skipped.ends_with("exit 0"),
        "{skipped}"
    );
    assert_eq!(session.get("/copy/f%0007 é").await.unwrap().0, "mine");
    let overwritten = zk(
        connect,
        &["import", "--existing", "overwrite", file, "/copy"],
    )
    .await;
    assert!(
        overwritten.contains("0 nodes created, 1 with other data")
            && overwritten.ends_with("exit 0"),
        "{overwritten}"
    );
    assert_eq!(session.get("/copy/f%0007 é").await.unwrap().0, "family 7");
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_import_leaves_no_node_open() {
    with_ensemble(async |connect| {
        let alice = connect_as(connect, Some("alice")).await;
        for path in ["/app", "/app/closed", "/app/z", "/copy", "/copy/z"] {
            alice.create(path, "").await.unwrap();
        }
        // More than is sent at once, so that the parent exists before the failure.
        for part in 0..12 {
            let mut transaction = alice.transaction();
            for child in 0..100 {
                transaction = transaction.create(format!("/app/closed/{part}-{child}"), "");
            }
            transaction.commit().await.unwrap();
        }
        alice
            .set_acl("/app/closed", Acl::creator_only())
            .await
            .unwrap();
        alice.set("/copy/z", "other").await.unwrap();
        let directory = tempdir().unwrap();
        let file = directory.path().join("a.json");
        let file = file.to_str().unwrap();
        zk_as("alice:secret", connect, &["export", "/app", file]).await;
        let failed = zk(connect, &["import", "--resume", file, "/copy"]).await;
        assert!(
            failed.starts_with("error: /copy/z has other data than the export\n"),
            "{failed}"
        );
        assert!(number_of_nodes(&alice, "/copy").await > 1000);
        let rules = alice.acl("/app/closed").await.unwrap().0;
        assert_eq!(alice.acl("/copy/closed").await.unwrap().0, rules);
        alice.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_exports_write_nothing() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        create_subtree(&session, "/app", 20).await;
        let directory = tempdir().unwrap();
        for name in ["a.json", "a.tar"] {
            let file = directory.path().join(name);
            let path = file.to_str().unwrap();
            zk(connect, &["export", "/app", path]).await;
            let whole = std::fs::read(&file).unwrap();
            for (damage, expected) in [
                (whole[..whole.len() / 2].to_vec(), "its end is missing"),
                (
                    String::from_utf8_lossy(&whole)
                        .replace("family 7", "family 8")
                        .into_bytes(),
                    "",
                ),
                (b"garbage".to_vec(), ""),
            ] {
                std::fs::write(&file, &damage).unwrap();
                let refused = zk(connect, &["import", path, "/copy"]).await;
                assert!(
                    refused.contains("nothing was written") && refused.ends_with("exit 1"),
                    "{refused}"
                );
                assert!(refused.contains(expected), "{refused}");
                assert!(session.exists("/copy").await.unwrap().is_none());
            }
        }
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_goes_through_a_pipe() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        session.create("/app", "1").await.unwrap();
        session.create("/app/e", "2").ephemeral().await.unwrap();
        let exported = finish(
            command(connect, &["export", "--ephemerals", "/app", "-"]),
            b"",
        )
        .await;
        assert!(exported.status.success(), "{exported:?}");
        let imported = finish(
            command(connect, &["import", "-", "/copy"]),
            &exported.stdout,
        )
        .await;
        assert!(
            said(&imported)
                .contains("1 node created\nVerified: 1 node equal, 1 ephemeral and left out\n"),
            "{imported:?}"
        );
        let imported = finish(
            command(connect, &["import", "--ephemerals", "-", "/all"]),
            &exported.stdout,
        )
        .await;
        assert!(said(&imported).contains("2 nodes created"), "{imported:?}");
        assert_eq!(session.stat("/all/e").await.unwrap().ephemeral_owner, None);
        // The root of the ensemble exists, and is left as it is.
        let all = finish(command(connect, &["export", "/", "-"]), b"").await;
        assert!(
            !String::from_utf8_lossy(&all.stdout).contains("zookeeper"),
            "{all:?}"
        );
        let refused = finish(command(connect, &["import", "-"]), &all.stdout).await;
        assert!(
            said(&refused).contains("/all exists already"),
            "{refused:?}"
        );
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_writes_only_what_differs() {
    with_ensemble(async |source| {
        with_ensemble(async |target| {
            let ours = connect_as(source, None).await;
            let theirs = connect_as(target, None).await;
            let count = create_subtree(&ours, "/app", 30).await;
            let to = format!("{target}/backup/app");
            let mirror = ["mirror", "--to", &to, "/app"];
            let dry = zk(source, &["mirror", "--to", &to, "-n", "/app"]).await;
            assert!(
                dry.contains("create /backup/app/f%0003 é/.c=1  3 bytes\n"),
                "{dry}"
            );
            assert!(theirs.exists("/backup").await.unwrap().is_none());
            let first = zk(source, &mirror).await;
            assert!(
                first.contains(&format!(
                    "{count} nodes created, 0 deleted\nVerified: {count} nodes equal\n"
                )) && first.ends_with("exit 0"),
                "{first}"
            );
            let second = zk(source, &mirror).await;
            assert!(
                second.contains(&format!(
                    "0 nodes created, {count} left as they were, 0 deleted\n"
                )),
                "{second}"
            );

            let unchanged = theirs.stat("/backup/app/f%0002 é").await.unwrap();
            ours.set("/app/f%0001 é/.c=4", "new").await.unwrap();
            ours.set_acl("/app/f%0001 é", Acl::read_only())
                .await
                .unwrap();
            ours.create("/app/new", "1").await.unwrap();
            theirs.create("/backup/app/extra", "").await.unwrap();
            theirs.create("/backup/app/extra/below", "").await.unwrap();
            theirs
                .create("/backup/app/live", "")
                .ephemeral()
                .await
                .unwrap();
            let third = zk(source, &mirror).await;
            assert!(
                third.contains("1 node created, 1 with other data, 1 with other access rules")
                    && third.contains("0 deleted, 2 that only the target has were kept\n"),
                "{third}"
            );
            assert_eq!(
                theirs.get("/backup/app/f%0001 é/.c=4").await.unwrap().0,
                "new"
            );
            assert_eq!(
                theirs.acl("/backup/app/f%0001 é").await.unwrap().0,
                Acl::read_only()
            );
            assert_eq!(
                theirs.stat("/backup/app/f%0002 é").await.unwrap(),
                unchanged
            );

            // Deletions need an answer, or `--yes`, and have a limit.
            let refused = zk(source, &["mirror", "--to", &to, "--delete", "/app"]).await;
            assert!(
                refused.contains("note: the source does not have 2 nodes of the target:\n")
                    && refused.contains("nothing was written")
                    && refused.ends_with("exit 2"),
                "{refused}"
            );
            let limited = zk(
                source,
                &[
                    "mirror", "--to", &to, "--delete", "--limit", "1", "--yes", "/app",
                ],
            )
            .await;
            assert!(
                limited.contains("the limit is 1; nothing was written"),
                "{limited}"
            );
            let dry = zk(
                source,
                &[
                    "mirror", "--to", &to, "--delete", "--limit", "1", "-n", "/app",
                ],
            )
            .await;
            assert!(
                dry.contains("delete /backup/app/extra/below\ndelete /backup/app/extra\n")
                    && dry.ends_with("exit 0"),
                "{dry}"
            );
            assert!(
                theirs
                    .exists("/backup/app/extra/below")
                    .await
                    .unwrap()
                    .is_some()
            );
            let deleted = zk(
                source,
                &["mirror", "--to", &to, "--delete", "--yes", "/app"],
            )
            .await;
            assert!(
                deleted.contains(", 2 deleted\n") && deleted.ends_with("exit 0"),
                "{deleted}"
            );
            assert!(theirs.exists("/backup/app/extra").await.unwrap().is_none());
            // An ephemeral node belongs to its session.
            assert!(theirs.exists("/backup/app/live").await.unwrap().is_some());
            ours.close().await.unwrap();
            theirs.close().await.unwrap();
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_is_changed_meanwhile_is_not_verified() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.unwrap();
    let connect = ensemble.connect_string();
    let session = connect_as(&connect, None).await;
    for path in ["/app", "/app/a", "/app/b"] {
        session.create(path, "data").await.unwrap();
    }
    // Once everything is written.
    let comparing = ensemble.proxy().unwrap().on(Match::sync("/copy"));
    let held = comparing.nth(2).hold();
    let mirror = command(&connect, &["mirror", "--to", "/copy", "/app"]).spawn();
    held.happened(MAX_WAIT).await.expect("it compares");
    session.set("/copy/a", "other").await.unwrap();
    held.remove();
    let ended = tokio::time::timeout(MAX_WAIT, mirror.unwrap().wait_with_output()).await;
    let ended = ended.expect("it ends within a minute").unwrap();
    assert_eq!(
        said(&ended),
        "Mirrored /app to /copy: 3 nodes created, 0 deleted\n\
         differs /copy/a  data\n\
         Different: 2 nodes equal, 1 different\n\
         error: the target differs from the source as it is now\n\
         help: one of them was changed meanwhile: run the command again\n\
         exit 1"
    );
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn much_is_imported_only_on_request() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        let count = create_subtree(&session, "/app", 2).await;
        let directory = tempdir().unwrap();
        let file = directory.path().join("a.json");
        let file = file.to_str().unwrap();
        zk(connect, &["export", "/app", file]).await;
        let refused = zk(connect, &["import", "--limit", "20", file, "/copy"]).await;
        assert_eq!(
            refused,
            "error: 21 nodes would be created, and the limit is 20; nothing was written\n\
             help: give more with --limit NODES if you mean all of them\nexit 1"
        );
        let imported = zk(connect, &["import", "--limit", "21", file, "/copy"]).await;
        assert!(
            imported.contains(&format!("Verified: {count} nodes equal")),
            "{imported}"
        );
        // Into the root only with an answer, or without a question.
        let root = format!("{connect}/app/f%0000 é/.c=0");
        let asked = zk(&root, &["import", file, "/"]).await;
        assert!(
            asked.contains("no terminal to ask on") && asked.ends_with("exit 2"),
            "{asked}"
        );
        assert_eq!(zk(&root, &["ls"]).await, "[]\nexit 0");
        let imported = zk(&root, &["import", "--yes", file, "/"]).await;
        assert!(imported.contains("20 nodes created"), "{imported}");
        let to = format!("{connect}/copy/f%0000 é/.c=0/");
        let to = to.trim_end_matches('/');
        let mirrored = zk(connect, &["mirror", "--to", to, "/copy/f%0001 é"]).await;
        assert!(mirrored.contains("9 nodes created"), "{mirrored}");
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_has_its_own_credentials_for_the_target() {
    with_ensemble(async |connect| {
        let alice = connect_as(connect, Some("alice")).await;
        let only_alice = alice.create("/app", "data").acl(Acl::creator_only());
        only_alice.await.unwrap();
        let bob = connect_as(connect, Some("bob")).await;
        let only_bob = bob.create("/bob", "").acl(Acl::creator_only());
        only_bob.await.unwrap();
        let to = format!("{connect}/bob/copy");
        let mirror = async |variables: &[(&str, &str)], to: &str| {
            let mut command = command(connect, &["mirror", "--to", to, "/app"]);
            command.env("ZK_AUTH", "alice:secret");
            command.envs(variables.iter().copied());
            said(&finish(command, b"").await)
        };
        let refused = mirror(&[], &to).await;
        assert!(
            refused.starts_with(
                "note: the target gets the credentials of the source; the variables ZK_TO_… give it others\n"
            ) && refused.contains("not permitted"),
            "{refused}"
        );
        let refused = mirror(&[("ZK_TO_AUTH", "")], &to).await;
        assert!(refused.starts_with("error: ") && refused.contains("not permitted"), "{refused}");
        for to in [&to, "/bob/here"] {
            let mirrored = mirror(&[("ZK_TO_AUTH", "bob:secret")], to).await;
            assert!(
                mirrored.starts_with("Mirrored /app to ")
                    && mirrored.contains("Incomplete: 0 nodes equal, 1 not compared")
                    && mirrored.contains("error: 1 node could not be compared with the source\n")
                    && mirrored.contains("ZK_TO_AUTH=user:password\n"),
                "{mirrored}"
            );
        }
        // The rules are those of the source.
        let unreadable = mirror(&[("ZK_TO_AUTH", "bob:secret")], &to).await;
        assert!(
            unreadable.starts_with("error: /bob/copy exists, and this session may not read it\n")
                && unreadable.contains("ZK_TO_AUTH=user:password\n"),
            "{unreadable}"
        );
        assert_eq!(alice.get("/bob/copy").await.unwrap().0, "data");
        let malformed = mirror(&[("ZK_TO_SASL", "secret")], &to).await;
        assert!(malformed.starts_with("error: ZK_TO_SASL is not user:password\n"), "{malformed}");
        alice.close().await.unwrap();
        bob.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_are_decided_again_after_the_answer() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        for path in [
            "/app/kept",
            "/copy/kept",
            "/copy/unwanted",
            "/copy/wanted",
            "/copy/other",
        ] {
            session.create(path, "").parents().await.unwrap();
        }
        let state = tempdir().unwrap();
        let arguments = "mirror --to /copy --delete /app";
        let mut terminal = Terminal::start(connect, state.path(), arguments);
        terminal.expect("Delete 3 nodes? [y/N] ");
        session.create("/app/wanted", "").await.unwrap();
        session.delete("/copy/other").await.unwrap();
        session.create("/copy/other", "").await.unwrap();
        session.create("/copy/unwanted/new", "").await.unwrap();
        session.create("/copy/new", "").await.unwrap();
        terminal.press("y\r");
        let (status, screen) = terminal.end();
        assert!(
            status.success() && screen.contains(", 0 deleted, 4 that only"),
            "{screen}"
        );
        assert!(screen.contains("kept /copy/unwanted: "), "{screen}");
        assert_eq!(number_of_nodes(&session, "/copy").await, 7);

        // The same without changes meanwhile.
        let mut terminal = Terminal::start(connect, state.path(), arguments);
        terminal.expect("Delete 4 nodes? [y/N] ");
        terminal.press("y\r");
        let (status, screen) = terminal.end();
        assert!(
            status.success() && screen.contains(", 4 deleted\r\n"),
            "{screen}"
        );
        assert_eq!(number_of_nodes(&session, "/copy").await, 3);
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_deleted_is_kept_and_named() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        let alice = connect_as(connect, Some("alice")).await;
        for path in ["/app", "/copy/live", "/copy/plain/below"] {
            session.create(path, "").parents().await.unwrap();
        }
        let live = session.create("/copy/live/member", "").ephemeral();
        live.await.unwrap();
        for path in ["/copy/secret", "/copy/closed", "/copy/closed/below"] {
            let create = alice.create(path, "").acl(Acl::creator_only());
            create.await.unwrap();
        }
        let mirror = ["mirror", "--to", "/copy", "--delete", "--yes", "/app"];
        let done = zk(connect, &mirror).await;
        assert!(
            done.contains("kept /copy/live: ") && done.contains("kept /copy/closed: "),
            "{done}"
        );
        assert!(
            done.contains(", 2 deleted, 3 that only the target has were kept\n")
                && done.ends_with("exit 0"),
            "{done}"
        );
        let left = session.list("/copy").await.unwrap().0;
        assert_eq!(left.len(), 3, "{left:?}");

        // A source that is not there deletes nothing.
        session.create("/member", "").ephemeral().await.unwrap();
        let exported = zk(connect, &["export", "/member", "-"]).await;
        assert!(
            exported.contains("or it is ephemeral") && exported.ends_with("exit 1"),
            "{exported}"
        );
        let refused = zk(
            connect,
            &["mirror", "--to", "/copy", "--delete", "--yes", "/member"],
        )
        .await;
        assert!(
            refused.contains("or it is ephemeral") && refused.ends_with("exit 1"),
            "{refused}"
        );
        assert!(session.exists("/copy/live").await.unwrap().is_some());
        session.close().await.unwrap();
        alice.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_ensemble_depends_on_is_never_written() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        for path in ["/app", "/app/zookeeper", "/app/zookeeper/quota"] {
            session.create(path, "mine").await.unwrap();
        }
        let directory = tempdir().unwrap();
        let file = directory.path().join("a.json");
        let file = file.to_str().unwrap();
        zk(connect, &["export", "/app", file]).await;
        let in_chroot = format!("{connect}/zookeeper");
        for (connect, arguments) in [
            (connect, &["import", file, "/zookeeper/copy"][..]),
            (connect, &["import", file, "/"]),
            (
                connect,
                &["import", "--existing=overwrite", file, "/zookeeper"],
            ),
            (
                connect,
                &["mirror", "--to", "/zookeeper/copy", "/app/zookeeper"],
            ),
            (&in_chroot, &["import", file, "/copy"]),
        ] {
            let refused = zk(connect, arguments).await;
            assert!(
                refused.contains("the servers keep their own nodes there; nothing was written")
                    && refused.ends_with("exit 2"),
                "{arguments:?}: {refused}"
            );
        }
        assert_eq!(session.list("/zookeeper").await.unwrap().0.len(), 2);

        // The root gets the children, and keeps its own data and rules.
        session.delete("/app/zookeeper").recursive().await.unwrap();
        session.create("/app/child", "").await.unwrap();
        session.set_acl("/app", Acl::read_only()).await.unwrap();
        std::fs::remove_file(file).unwrap();
        zk(connect, &["export", "/app", file]).await;
        let imported = zk(
            connect,
            &["import", "--yes", "--existing=overwrite", file, "/"],
        )
        .await;
        assert!(
            imported.contains("left /  data and access rules\nVerified: 1 node equal, 1 different")
                && imported.ends_with("exit 0"),
            "{imported}"
        );
        assert_eq!(session.get("/").await.unwrap().0, "");
        assert_eq!(session.acl("/").await.unwrap().0, Acl::open());
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_is_never_mirrored_into_itself() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        create_subtree(&session, "/app", 2).await;
        let other_name = connect.replace("127.0.0.1", "localhost");
        let chroot = format!("{connect}/app");
        for (from, to, path) in [
            (connect, "/app".to_owned(), "/app"),
            (connect, "/app/copy".to_owned(), "/app"),
            (connect, "/".to_owned(), "/app"),
            (connect, format!("{connect}/app/copy"), "/app"),
            (connect, format!("{other_name}/app/copy"), "/app"),
            (connect, format!("{other_name}/copy"), "/"),
            (&chroot, format!("{other_name}/app/copy"), "/"),
        ] {
            let refused = zk(from, &["mirror", "--to", &to, path]).await;
            assert!(
                refused.contains("overlap") && refused.ends_with("exit 2"),
                "{to}: {refused}"
            );
        }
        let apart = zk(connect, &["mirror", "--to", "/app2", "/app"]).await;
        assert!(apart.contains("21 nodes created"), "{apart}");
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_printed_decoded() {
    with_ensemble(async |connect| {
        let session = connect_as(connect, None).await;
        session.create("/json", r#"{"a":[1]}"#).await.unwrap();
        session
            .create("/hex", vec![0x1b, b'[', 0xff])
            .await
            .unwrap();
        assert_eq!(
            zk(connect, &["get", "--decode", "/json"]).await,
            "{\n  \"a\": [\n    1\n  ]\n}\nexit 0"
        );
        assert!(
            zk(connect, &["get", "--decode", "/hex"])
                .await
                .starts_with("00000000  1b 5b ff ")
        );
        let refused = zk(connect, &["get", "--decode=toml", "/json"]).await;
        assert!(
            refused.contains("error: /json: the data is not TOML") && refused.ends_with("exit 1"),
            "{refused}"
        );
        session.close().await.unwrap();
    })
    .await;
}
