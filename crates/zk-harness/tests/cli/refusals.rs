//! Bad input gets an error that says what was wrong and what would be right.

use crate::support::Place;

// covers: H1
#[test]
fn bad_settings_are_named() {
    let place = Place::new();
    insta::assert_snapshot!(
        place.fails(&["up", "--servers", "0"]),
        @"error: servers = 0: an ensemble has 1 to 255 servers"
    );
    insta::assert_snapshot!(
        place.fails(&["up", "--servers", "256"]),
        @"error: servers = 256: an ensemble has 1 to 255 servers"
    );
    assert!(!place.ensembles().exists(), "something was left behind");
}

// covers: H1
#[test]
fn bad_file_is_named_with_its_line() {
    let place = Place::new();
    let error = |text: &str| {
        let file = place.file("ensemble.toml", text);
        place
            .fails(&["up", "--config", file.to_str().unwrap()])
            .replace(file.to_str().unwrap(), "ensemble.toml")
    };
    insta::assert_snapshot!(error("[[server]]\nid = 0\n"), @"error: server[0].id = 0: a server id is between 1 and 255");
    insta::assert_snapshot!(
        error("[[server]]\nid = 1\n[[server]]\nid = 1\n"),
        @"error: server[1].id = 1: a server id is used once"
    );
    insta::assert_snapshot!(error("sync_limit = 0\n"), @"error: sync_limit = 0: the limit is a number of ticks, at least 1");
    let text = error("servers = 3\nsize = 4\n");
    assert!(
        text.starts_with(
            "error: ensemble.toml is not right\n  because: line 2 = `size = 4`: unknown field"
        ),
        "{text}"
    );
    insta::assert_snapshot!(
        error("directory = \"x\"\n"),
        @"error: directory: a named ensemble lies in --dir; leave the setting out of the file"
    );
    let missing = place.fails(&["up", "--config", "no-such-file"]);
    insta::assert_snapshot!(missing, @r"
    error: cannot read no-such-file
      because: No such file or directory (os error 2)
    ");
}

// covers: H3
#[test]
fn what_is_not_there_is_named() {
    let place = Place::new();
    for command in [
        &["down"][..],
        &["status"],
        &["kill", "1"],
        &["logs"],
        &["env"],
    ] {
        assert_eq!(
            place.fails(command),
            "error: there is no ensemble named default: there is none at all; start one with `up`\n"
        );
    }
    assert!(!place.ensembles().exists(), "something was left behind");
    place.ok(&["up", "--servers", "1", "--data", "memory", "--name", "mine"]);
    insta::assert_snapshot!(
        place.fails(&["status"]),
        @"error: there is no ensemble named default: there is mine; start another with `up --name default`"
    );
    insta::assert_snapshot!(
        place.fails(&["kill", "2", "--name", "mine"]),
        @"error: there is no server 2; this ensemble has server 1 only"
    );
    insta::assert_snapshot!(
        place.fails(&["up", "--name", "mine", "--servers", "3", "--data", "disk"]),
        @"error: the ensemble mine is there already, with other settings: it has 1 server, its data is in memory; take it down first, or choose another --name"
    );
}

// covers: H3
#[test]
fn bad_words_are_usage_errors() {
    let place = Place::new();
    for (command, said) in [
        (
            &["kill", "boss"][..],
            "give a server's id, `leader`, `follower` or `all`",
        ),
        (
            &["up", "--name", "a/b"],
            "a name has 1 to 64 letters, digits",
        ),
        (&["up", "--servers", "three"], "invalid digit"),
        (&["up", "--data", "tape"], "[possible values: memory, disk]"),
        (&["explode"], "unrecognized subcommand 'explode'"),
    ] {
        let printed = place.run(command);
        assert_eq!(printed.code, Some(2), "{printed:?}");
        assert!(printed.err.contains(said), "{printed:?}");
    }
}

// covers: H2
#[test]
fn even_and_single_sizes_are_warned_of() {
    let place = Place::new();
    let printed = place.run(&["up", "--servers", "1", "--data", "memory"]);
    insta::assert_snapshot!(printed.err, @r"
    note: 1 server tolerates no failure: when it stops, the service stops; 3 tolerate the loss of 1
    starting 1 server
    ");
}

// covers: H4
#[cfg(feature = "containers")]
#[test]
fn without_an_engine_up_says_what_is_missing() {
    let place = Place::new();
    let up = place
        .command(&["up", "--backend", "containers", "--servers", "1"])
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&up.stderr);
    assert_eq!(up.status.code(), Some(1), "{said}");
    assert!(
        said.contains("a server in a container cannot be made here: ")
            && said.contains("a container engine has to run, and DOCKER_HOST to name it"),
        "{said}"
    );
    assert!(!place.ensembles().exists(), "something was left behind");
}
