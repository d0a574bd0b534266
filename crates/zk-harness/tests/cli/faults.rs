//! Tests the commands for faults, and the commands that undo them.

use rustix::process::{Pid, Signal};

use crate::support::{EnsembleDir, eventually, pids_below, processes_below};

#[test]
fn every_fault_prints_the_command_that_undoes_it() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--profile", "chaos"]);
    for fault in ["kill", "stop", "pause", "fill-disk"] {
        let printed = dir.run(&[fault, "2"]);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let undo = printed.err.trim_end();
        let words: Vec<_> = undo.split(' ').collect();
        let ["undo:", program, back, "2"] = words.as_slice() else {
            panic!("{printed:?}");
        };
        assert_eq!(*program, env!("CARGO_BIN_EXE_zk-ensemble"));
        dir.ok(&[back, "2"]);
        eventually("all serve again", || {
            dir.run(&["status"]).out.contains("all 3 servers serve")
        });
    }
    // A restart needs no undo.
    assert_eq!(dir.run(&["restart", "1"]).err, "");
    assert_eq!(
        dir.ok(&["restart", "--rolling"]),
        "all servers restarted, one after the other\n"
    );

    let error = dir.fails(&["expire", "0x17"]);
    assert_eq!(
        error,
        "error: there is no session 0x17; it has ended, or belongs to another ensemble\n"
    );
    let error = dir.fails(&["clock", "all", "--ahead", "1h"]);
    assert_eq!(
        error,
        "error: a clock that jumps is not possible here: the ensemble was started without movable clocks; start it with movable clocks\n"
    );
    let error = dir.fails(&["up", "--profile", "production"]);
    assert_eq!(
        error,
        "error: the ensemble default already exists with other settings: its ticks are not those of the profile production; take it down first, or choose another --name\n"
    );
    dir.ok(&["down"]);
}

fn role(status: &serde_json::Value, id: u64) -> String {
    let servers = status["servers"].as_array().unwrap();
    let server = servers.iter().find(|server| server["id"] == id).unwrap();
    server["role"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn partitions_outlive_the_command_and_heal() {
    let dir = EnsembleDir::new();
    let up = dir.ok(&["up", "--profile", "chaos", "--proxied"]);
    assert!(up.contains("all 3 servers serve"), "{up}");
    let status = dir.status("default");
    let servers = status["servers"].as_array().unwrap();
    let leader = servers
        .iter()
        .find(|server| server["role"] == "leader")
        .unwrap();
    let leader = leader["id"].as_u64().unwrap();
    // The connection string has the proxies' ports.
    let connect = status["connect"].as_str().unwrap();
    let port = servers[0]["client_port"].as_u64().unwrap().to_string();
    assert!(!connect.contains(&port), "{connect} {port}");

    let printed = dir.run(&["partition", "leader"]);
    assert_eq!(
        printed.out,
        format!("server {leader} is isolated\n"),
        "{printed:?}"
    );
    let program = env!("CARGO_BIN_EXE_zk-ensemble");
    assert_eq!(printed.err, format!("undo: {program} heal\n"));
    eventually("another server leads", || {
        let status = dir.status("default");
        role(&status, leader) == "none"
            && (1..=3).any(|id| id != leader && role(&status, id) == "leader")
    });
    let text = dir.run(&["status"]).out;
    assert!(
        text.contains(&format!("; {leader} out of reach of clients\n")),
        "{text}"
    );
    // The proxy of the isolated server resets connections.
    let address = connect
        .split(',')
        .nth(usize::try_from(leader).unwrap() - 1)
        .unwrap();
    let mut link = std::net::TcpStream::connect(address).unwrap();
    let sent = std::io::Write::write_all(&mut link, b"srvr");
    let answer = sent.and_then(|()| std::io::Read::read_to_end(&mut link, &mut Vec::new()));
    assert!(matches!(answer, Ok(0) | Err(_)), "{answer:?}");

    assert_eq!(dir.ok(&["heal"]), "the network is whole\n");
    eventually("all serve again", || {
        dir.run(&["status"]).out.contains("all 3 servers serve")
    });
    dir.ok(&["slow", "2", "--delay", "5ms", "--rate", "100000"]);
    assert!(
        dir.run(&["status"])
            .out
            .contains("2 to 1 5 ms late, 100000 bytes/s")
    );
    assert_eq!(
        dir.ok(&["cut", "2"]),
        "server 2 has its clients' connections cut\n"
    );

    // After a kill of the process of the proxies, `up` restarts it with the same state of the network.
    let pids = pids_below(&dir.ensembles().join("default/proxies"));
    let [pid] = pids.as_slice() else {
        panic!("{pids:?}");
    };
    rustix::process::kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
    // A killed process loses its command line before its sockets and its lock.
    let gone = "the process of the fault proxies has ended; `up` starts it again";
    eventually("the ports are closed", || {
        dir.run(&["status"]).out.contains(gone)
    });
    eventually("the lock is free", || dir.run(&["heal"]).err.contains(gone));
    dir.ok(&["up"]);
    assert!(!dir.run(&["status"]).out.contains(gone));
    assert!(dir.run(&["status"]).out.contains("2 to 1 5 ms late"));
    eventually("all serve again", || {
        dir.run(&["status"]).out.contains("all 3 servers serve")
    });

    // Servers could not start with a partition, so `up` heals it.
    dir.ok(&["partition", "2"]);
    dir.ok(&["down", "--keep"]);
    assert_eq!(processes_below(&dir.ensembles()), 0);
    let up = dir.ok(&["up"]);
    assert!(up.contains("all 3 servers serve"), "{up}");
    assert!(!dir.run(&["status"]).out.contains("network:"));
    // The same while the process of the proxies runs.
    dir.ok(&["partition", "2"]);
    dir.ok(&["kill", "all"]);
    let up = dir.ok(&["up"]);
    assert!(up.contains("all 3 servers serve"), "{up}");

    dir.ok(&["down"]);
    assert_eq!(processes_below(&dir.ensembles()), 0);

    dir.ok(&["up", "--servers", "1", "--data", "memory", "--proxied"]);
    assert_eq!(
        dir.fails(&["partition", "1", "--peers"]),
        "error: the ensemble default has one server and no links; `partition` and `cut` disconnect its clients\n"
    );
    dir.ok(&["down"]);

    dir.ok(&["up", "--servers", "1", "--data", "memory"]);
    assert_eq!(
        dir.fails(&["partition", "1"]),
        "error: the ensemble default has no fault proxies; take it down, and start it with `up --proxied`\n"
    );
    dir.ok(&["down"]);
}
