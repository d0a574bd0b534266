//! Which connect strings are accepted, and what is said about the others.

use super::*;

// covers: C1
#[test]
fn hosts_ports_and_chroot_are_read() {
    for (text, canonical) in [
        ("h", "h:2181"),
        ("h:1", "h:1"),
        ("h:65535/", "h:65535"),
        (" h1:2181 , h2/app ", "h1:2181,h2:2181/app"),
        (
            "127.0.0.1,[::1],[fe80::1]:2182/a/b",
            "127.0.0.1:2181,[::1]:2181,[fe80::1]:2182/a/b",
        ),
        ("my_zk-1.example.org", "my_zk-1.example.org:2181"),
    ] {
        let parsed: ConnectString = text.parse().unwrap();
        assert_eq!(parsed.to_string(), canonical);
        assert_eq!(canonical.parse(), Ok(parsed));
    }
}

#[test]
fn refusals_name_the_part_and_the_rule() {
    for (text, message) in [
        (
            "",
            "connect string is empty; write host:port,host:port/chroot",
        ),
        (
            "  ",
            "connect string is empty; write host:port,host:port/chroot",
        ),
        (
            ",",
            r#"connect string ",", server 1 (""): a server is missing; write host or host:port between the commas"#,
        ),
        (
            "a:1,,b",
            r#"connect string "a:1,,b", server 2 (""): a server is missing; write host or host:port between the commas"#,
        ),
        (
            "/app",
            r#"connect string "/app", server 1 (""): a server is missing; write host or host:port between the commas"#,
        ),
        (
            ":2181",
            r#"connect string ":2181", server 1 (":2181"): the host is missing before the ':'"#,
        ),
        (
            "a:0",
            r#"connect string "a:0", server 1 ("a:0"): a port is a number from 1 to 65535"#,
        ),
        (
            "a:",
            r#"connect string "a:", server 1 ("a:"): a port is a number from 1 to 65535"#,
        ),
        (
            "a:+1",
            r#"connect string "a:+1", server 1 ("a:+1"): a port is a number from 1 to 65535"#,
        ),
        (
            "a,b:65536",
            r#"connect string "a,b:65536", server 2 ("b:65536"): a port is a number from 1 to 65535"#,
        ),
        (
            "a:x",
            r#"connect string "a:x", server 1 ("a:x"): a port is a number from 1 to 65535"#,
        ),
        (
            "::1",
            r#"connect string "::1", server 1 ("::1"): an IPv6 address must be in brackets; write [address]:port"#,
        ),
        (
            "[::1",
            r#"connect string "[::1", server 1 ("[::1"): the '[' is not closed; write [address]:port"#,
        ),
        (
            "[::1]2",
            r#"connect string "[::1]2", server 1 ("[::1]2"): after ']' comes ':' and the port, or nothing"#,
        ),
        (
            "[h]:1",
            r#"connect string "[h]:1", server 1 ("[h]:1"): not an IPv6 address between the brackets"#,
        ),
        (
            "a b:1",
            r#"connect string "a b:1", server 1 ("a b:1"): not a host name; letters, digits, '-', '_' and '.' are"#,
        ),
        (
            "a/x/",
            r#"connect string "a/x/" has a bad chroot: path "/x/" ends with '/'; write "/x""#,
        ),
        (
            "a/x,b/x",
            r#"connect string "a/x,b/x" has a ',' after its chroot; write the chroot once, at the end"#,
        ),
        (
            "tcp://a:1",
            r#"connect string "tcp://a:1" has "tcp://" in it; write host:port alone"#,
        ),
    ] {
        let error = text.parse::<ConnectString>().expect_err("must be refused");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn credentials_in_a_connect_string_are_refused_and_not_repeated() {
    for text in [
        "user:secret@zk1:2181",
        "zk1,user:secret@zk2/app",
        "http://user:secret@zk1",
    ] {
        let error = text.parse::<ConnectString>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "connect string has a '@' in it; write host:port alone and give the credentials to the session"
        );
        assert!(!format!("{error:?}").contains("secret"));
    }
    let chroot: ConnectString = "zk1/a@b".parse().unwrap();
    assert_eq!(chroot.chroot().as_str(), "/a@b");
}
