//! Faults as verbs, each with the line that undoes it.

use rustix::process::{Pid, Signal};

use crate::support::{Place, eventually, pids_below, processes_below};

// covers: H7
#[test]
fn every_fault_says_how_it_is_undone_and_the_line_does_it() {
    let place = Place::new();
    place.ok(&["up", "--profile", "chaos"]);
    for fault in ["kill", "stop", "pause", "fill-disk"] {
        let printed = place.run(&[fault, "2"]);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let undo = printed.err.trim_end();
        let words: Vec<_> = undo.split(' ').collect();
        let ["undo:", program, back, "2"] = words.as_slice() else {
            panic!("{printed:?}");
        };
        assert_eq!(*program, env!("CARGO_BIN_EXE_zk-ensemble"));
        place.ok(&[back, "2"]);
        eventually("all serve again", || {
            place.run(&["status"]).out.contains("all 3 servers serve")
        });
    }
    // What needs no undoing says none.
    assert_eq!(place.run(&["restart", "1"]).err, "");
    assert_eq!(
        place.ok(&["restart", "--rolling"]),
        "all servers restarted, one after the other\n"
    );

    let error = place.fails(&["expire", "0x17"]);
    assert_eq!(
        error,
        "error: there is no session 0x17; it has ended, or is one of another ensemble\n"
    );
    let error = place.fails(&["clock", "all", "--ahead", "1h"]);
    assert_eq!(
        error,
        "error: a clock that jumps cannot be made here: the ensemble was started without movable clocks; start it with them\n"
    );
    let error = place.fails(&["up", "--profile", "production"]);
    assert_eq!(
        error,
        "error: the ensemble default is there already, with other settings: its ticks are not those of the profile production; take it down first, or choose another --name\n"
    );
    place.ok(&["down"]);
}

fn role(status: &serde_json::Value, id: u64) -> String {
    let servers = status["servers"].as_array().unwrap();
    let server = servers.iter().find(|server| server["id"] == id).unwrap();
    server["role"].as_str().unwrap_or("none").to_owned()
}

// covers: H7
#[test]
fn partitions_outlive_the_command_and_heal() {
    let place = Place::new();
    let up = place.ok(&["up", "--profile", "chaos", "--proxied"]);
    assert!(up.contains("all 3 servers serve"), "{up}");
    let status = place.status("default");
    let servers = status["servers"].as_array().unwrap();
    let leader = servers
        .iter()
        .find(|server| server["role"] == "leader")
        .unwrap();
    let leader = leader["id"].as_u64().unwrap();
    // Clients are told the proxies' ports.
    let connect = status["connect"].as_str().unwrap();
    let port = servers[0]["client_port"].as_u64().unwrap().to_string();
    assert!(!connect.contains(&port), "{connect} {port}");

    let printed = place.run(&["partition", "leader"]);
    assert_eq!(
        printed.out,
        format!("server {leader} is isolated\n"),
        "{printed:?}"
    );
    let program = env!("CARGO_BIN_EXE_zk-ensemble");
    assert_eq!(printed.err, format!("undo: {program} heal\n"));
    eventually("another server leads", || {
        let status = place.status("default");
        role(&status, leader) == "none"
            && (1..=3).any(|id| id != leader && role(&status, id) == "leader")
    });
    let text = place.run(&["status"]).out;
    assert!(
        text.contains(&format!("; {leader} out of reach of clients\n")),
        "{text}"
    );
    // The proxy of the isolated server resets whoever comes.
    let address = connect
        .split(',')
        .nth(usize::try_from(leader).unwrap() - 1)
        .unwrap();
    let mut link = std::net::TcpStream::connect(address).unwrap();
    let asked = std::io::Write::write_all(&mut link, b"srvr");
    let answer = asked.and_then(|()| std::io::Read::read_to_end(&mut link, &mut Vec::new()));
    assert!(matches!(answer, Ok(0) | Err(_)), "{answer:?}");

    assert_eq!(place.ok(&["heal"]), "the network is whole\n");
    eventually("all serve again", || {
        place.run(&["status"]).out.contains("all 3 servers serve")
    });
    place.ok(&["slow", "2", "--delay", "5ms", "--rate", "100000"]);
    assert!(
        place
            .run(&["status"])
            .out
            .contains("2 to 1 5 ms late, 100000 bytes/s")
    );
    assert_eq!(
        place.ok(&["cut", "2"]),
        "server 2 has its clients' connections cut\n"
    );

    // The proxies' process dies; `up` starts it again, and the network is as it was.
    let pids = pids_below(&place.ensembles().join("default/proxies"));
    let [pid] = pids.as_slice() else {
        panic!("{pids:?}");
    };
    rustix::process::kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
    eventually("the process is gone", || {
        processes_below(&place.ensembles().join("default/proxies")) == 0
    });
    let gone = "the process of the fault proxies is gone; `up` starts it again";
    assert!(place.run(&["status"]).out.contains(gone));
    assert!(place.fails(&["heal"]).contains(gone));
    place.ok(&["up"]);
    assert!(!place.run(&["status"]).out.contains(gone));
    assert!(place.run(&["status"]).out.contains("2 to 1 5 ms late"));
    eventually("all serve again", || {
        place.run(&["status"]).out.contains("all 3 servers serve")
    });

    // Servers that start over a partition would not come up.
    place.ok(&["partition", "2"]);
    place.ok(&["down", "--keep"]);
    assert_eq!(processes_below(&place.ensembles()), 0);
    let up = place.ok(&["up"]);
    assert!(up.contains("all 3 servers serve"), "{up}");
    assert!(!place.run(&["status"]).out.contains("network:"));
    // The same while the proxies' process lives.
    place.ok(&["partition", "2"]);
    place.ok(&["kill", "all"]);
    let up = place.ok(&["up"]);
    assert!(up.contains("all 3 servers serve"), "{up}");

    place.ok(&["down"]);
    assert_eq!(processes_below(&place.ensembles()), 0);

    place.ok(&["up", "--servers", "1", "--data", "memory", "--proxied"]);
    assert_eq!(
        place.fails(&["partition", "1", "--peers"]),
        "error: the ensemble default has one server, and no link between servers; `partition` and `cut` keep clients from it\n"
    );
    place.ok(&["down"]);

    place.ok(&["up", "--servers", "1", "--data", "memory"]);
    assert_eq!(
        place.fails(&["partition", "1"]),
        "error: the ensemble default has no fault proxies; take it down, and start it with `up --proxied`\n"
    );
    place.ok(&["down"]);
}
