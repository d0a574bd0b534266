//! Tests that an invalid setting or a failed start is an error with a reason, and leaves nothing behind.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use zk_harness::{Ensemble, Error, ServerSpec};

use crate::support::{child_directory, eventually, in_child, in_memory, processes_of};

async fn refused(builder: zk_harness::EnsembleBuilder) -> Error {
    match builder.start().await {
        Ok(ensemble) => panic!("it started: {ensemble:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_port_in_use_is_refused_before_anything_starts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error =
        refused(Ensemble::builder().server(ServerSpec::new(1).with_client_port(port))).await;
    assert_eq!(
        error.to_string(),
        format!(
            "server[0].client_port = {port}: another program listens on this port of 127.0.0.1; choose another one"
        )
    );
}

#[tokio::test]
async fn a_port_of_a_stopped_server_is_refused() {
    let one = in_memory(1).start().await.unwrap();
    let server = &one.servers()[0];
    let port = server.client_port();
    server.kill().await.unwrap();
    let wanted = || Ensemble::builder().server(ServerSpec::new(1).with_client_port(port));
    let error = refused(wanted()).await;
    assert_eq!(
        error.to_string(),
        format!(
            "server[0].client_port = {port}: already reserved by the ensemble in {}, even if that does not run; choose another port",
            one.directory().display()
        )
    );
    one.down().await.unwrap();
    // A kept ensemble does not reserve its port.
    let kept = wanted()
        .keep(zk_harness::Keep::Always)
        .start()
        .await
        .unwrap();
    let directory = kept.directory().to_owned();
    drop(kept);
    // The guard kills it.
    eventually("its server has ended", || {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
    });
    let again = wanted().start().await.unwrap();
    let kept = Ensemble::attach(&directory).unwrap();
    let error = kept.start_stopped().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "port {port} is already reserved by the ensemble in {}; take one of the two down",
            again.directory().display()
        )
    );
    again.down().await.unwrap();
    kept.start_stopped().unwrap();
    kept.wait_serving().await.unwrap();
    kept.down().await.unwrap();
    assert!(!directory.exists());
}

#[tokio::test]
async fn a_directory_that_is_not_empty_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("precious"), "").unwrap();
    let error = refused(in_memory(1).directory(directory.path())).await;
    assert_eq!(
        error.to_string(),
        format!(
            "directory = {}: must be new or empty, because it is removed with the ensemble",
            directory.path().display()
        )
    );
    assert!(directory.path().join("precious").exists());
}

#[tokio::test]
async fn a_directory_that_cannot_be_created_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = refused(in_memory(1).directory(file.path().join("below"))).await;
    let start = format!("directory = {}", file.path().join("below").display());
    let text = error.to_string();
    assert!(
        text.starts_with(&start) && text.contains("Not a directory"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_that_exits_is_reported_with_its_log() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("ensemble");
    let builder = in_memory(3)
        .directory(&directory)
        .property("clientPortAddress.bogus", "x");
    // The server exits because of this value, and logs the reason.
    let error = refused(builder.property("peerType", "bogus")).await;
    let Error::ServerExited { tail, .. } = &error else {
        panic!("{error}")
    };
    assert!(tail.contains("Unrecognised peertype: bogus"), "{tail}");
    assert!(error.to_string().contains(tail));
    assert!(!directory.exists());
    assert_eq!(processes_of(&directory), 0);
}

#[tokio::test]
async fn the_error_of_a_slow_start_has_each_servers_answer() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("ensemble");
    let error = refused(
        in_memory(3)
            .directory(&directory)
            .start_timeout(Duration::from_millis(150)),
    )
    .await;
    let text = error.to_string();
    assert!(matches!(error, Error::NotServing { .. }), "{text}");
    assert!(
        text.starts_with("the ensemble did not serve within 150ms: server 1: "),
        "{text}"
    );
    assert!(!directory.exists());
    assert_eq!(processes_of(&directory), 0);
}

#[tokio::test]
async fn a_dropped_start_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    for millis in [1, 20, 100, 300] {
        let directory = root.path().join(format!("ensemble-{millis}"));
        let start = in_memory(3).directory(&directory).start();
        assert!(
            tokio::time::timeout(Duration::from_millis(millis), start)
                .await
                .is_err(),
            "started in {millis} ms"
        );
        eventually("the dropped start was cleaned up", || {
            !directory.exists() && processes_of(&directory) == 0
        });
    }
}

#[tokio::test]
async fn a_retry_with_other_ports_uses_the_same_directory() {
    let root = tempfile::tempdir().unwrap();
    let java = root.path().join("java");
    let real = zk_provision::Search::from_env()
        .unwrap()
        .find()
        .unwrap()
        .java;
    // The first server finds its port in use.
    let script = format!(
        "#!/bin/sh\ncase $* in *QuorumPeerMain*) if mkdir '{0}.used' 2>/dev/null; then\n\
         echo java.net.BindException: Address already in use; exit 1; fi ;; esac\nexec '{1}' \"$@\"\n",
        java.display(),
        real.display()
    );
    std::fs::write(&java, script).unwrap();
    std::fs::set_permissions(&java, std::fs::Permissions::from_mode(0o755)).unwrap();
    // A caller may have locked the directory, so it must not be replaced.
    let directory = root.path().join("ensemble");
    std::fs::create_dir(&directory).unwrap();
    let inode = || std::fs::metadata(&directory).unwrap().ino();
    let before = inode();
    let ensemble = in_memory(1)
        .java(&java)
        .directory(&directory)
        .keep(zk_harness::Keep::Always)
        .start()
        .await
        .unwrap();
    assert!(root.path().join("java.used").exists());
    assert_eq!(inode(), before);
    ensemble.down().await.unwrap();
    assert!(!directory.exists());
}

#[tokio::test]
async fn paths_with_control_characters_or_quotes_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a\"b", "a\nb", "a\rb", "a\tb", "a\u{1b}[31mb"] {
        let error = refused(in_memory(1).directory(root.path().join(name))).await;
        assert_eq!(
            error.to_string(),
            format!(
                "directory = {}: must be Unicode without double quotes, line breaks and other control characters",
                root.path().join(name).display()
            )
        );
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

/// Not a test: the process that the test below starts with another `TMPDIR`.
#[tokio::test]
async fn child_uses_the_temporary_directory() {
    if child_directory().is_none() {
        return;
    }
    match in_memory(1).start().await {
        Ok(ensemble) => {
            println!("in {}.", ensemble.directory().display());
            ensemble.down().await.unwrap();
        }
        Err(error) => println!("refused: {error}."),
    }
}

#[test]
fn unusual_temporary_directories_are_used_or_refused() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().canonicalize().unwrap();
    std::fs::create_dir(home.join("odd $HOME 'x'")).unwrap();
    for (variable, expected) in [
        (
            "odd $HOME 'x'",
            format!("in {}/odd $HOME 'x'/zk-ensemble-", home.display()),
        ),
        (".", format!("in {}/zk-ensemble-", home.display())),
        ("", "in /tmp/zk-ensemble-".to_owned()),
        (
            "none",
            format!(
                "refused: TMPDIR = {}/none: not a directory; correct TMPDIR, or set `directory`.",
                home.display()
            ),
        ),
    ] {
        let output = in_child("refusals::child_uses_the_temporary_directory", &home)
            .current_dir(&home)
            .env("TMPDIR", variable)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains(&expected),
            "{output:?}"
        );
    }
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 1);
    assert_eq!(
        std::fs::read_dir(home.join("odd $HOME 'x'"))
            .unwrap()
            .count(),
        0
    );
}

#[cfg(feature = "containers")]
#[tokio::test]
async fn settings_that_need_processes_are_refused_with_containers() {
    use zk_harness::container::ContainerImage;

    let refused = async |builder: zk_harness::EnsembleBuilder, image: ContainerImage| {
        refused(builder.containers(image)).await.to_string()
    };
    let own = || ContainerImage::Debian;
    assert_eq!(
        refused(in_memory(1), own()).await,
        "data = memory: not supported with containers; set it to \"disk\""
    );
    let port = Ensemble::builder().server(ServerSpec::new(1).with_client_port(5));
    assert_eq!(
        refused(port, own()).await,
        "server[0].client_port = 5: not supported with containers; omit it"
    );
    assert_eq!(
        refused(Ensemble::builder().movable_clock(true), own()).await,
        "movable_clock = true: not supported with containers; omit it"
    );
    let proxied = "proxied = true: not supported with containers; omit fault proxies and links";
    assert_eq!(
        refused(Ensemble::builder().proxied(true), own()).await,
        proxied
    );
    let named = ContainerImage::Named("zookeeper:3.9".into());
    assert_eq!(
        refused(Ensemble::builder().zookeeper("3.8"), named).await,
        "zookeeper = \"3.8\": the image zookeeper:3.9 contains its own ZooKeeper; omit the version or the image"
    );
}
