//! Starts real servers with a distribution, without `Ensemble`.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use zk_provision::Distribution;

use crate::world::wait_for;

const START_LIMIT: Duration = Duration::from_secs(20);

/// A server process, killed when dropped.
struct Server {
    child: Child,
    port: u16,
    log: std::path::PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child
            .kill()
            .and_then(|()| self.child.wait().map(drop))
            .expect("the server can be killed");
    }
}

/// Starts so many servers, waits until they serve, and checks that each wrote a log.
pub(crate) fn start_and_stop(distribution: &Distribution, count: usize, dir: &Path) {
    // All ports at once, so that no two are the same.
    let listeners: Vec<TcpListener> = (0..count * 3)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let ports: Vec<u16> = listeners
        .iter()
        .map(|listener| listener.local_addr().unwrap().port())
        .collect();
    drop(listeners);
    let members: Vec<String> = ports
        .chunks(3)
        .enumerate()
        .map(|(index, ports)| format!("server.{}=127.0.0.1:{}:{}", index + 1, ports[1], ports[2]))
        .collect();
    let members = members.join("\n");
    let members = if count == 1 { String::new() } else { members };
    let servers: Vec<Server> = ports
        .chunks(3)
        .enumerate()
        .map(|(index, ports)| {
            server(
                distribution,
                &dir.join(format!("{}", index + 1)),
                index + 1,
                ports[0],
                &members,
            )
        })
        .collect();
    let mut modes: Vec<String> = servers.iter().map(Server::mode).collect();
    modes.sort();
    if count == 1 {
        assert_eq!(modes, ["standalone"]);
    } else {
        let mut expected = vec!["follower"; count - 1];
        expected.push("leader");
        assert_eq!(modes, expected);
    }
    for server in &servers {
        let log = fs::read_to_string(&server.log).unwrap();
        assert!(log.contains(" INFO "), "the server logs: {log}");
        assert!(
            !log.contains("Failed to load class"),
            "slf4j has a binding: {log}"
        );
    }
}

fn server(distribution: &Distribution, dir: &Path, id: usize, port: u16, members: &str) -> Server {
    let data = dir.join("data");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("myid"), id.to_string()).unwrap();
    let config = dir.join("zoo.cfg");
    let text = format!(
        "tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\n{members}",
        data.display()
    );
    fs::write(&config, text).unwrap();
    let log = dir.join("log");
    let out = File::create(&log).unwrap();
    let child = Command::new(&distribution.java)
        .args([
            "-Xshare:auto",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx128m",
            "-cp",
        ])
        .arg(std::env::join_paths(&distribution.classpath).unwrap())
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .spawn()
        .expect("java starts");
    Server { child, port, log }
}

impl Server {
    fn mode(&self) -> String {
        wait_for("the server to serve", START_LIMIT, || {
            let answer = self.srvr().map_err(|error| error.to_string());
            let mode = answer
                .as_ref()
                .ok()
                .and_then(|text| text.lines().find_map(|line| line.strip_prefix("Mode: ")));
            mode.map(str::to_owned).ok_or_else(|| {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                format!("srvr: {answer:?}, log: {log}")
            })
        })
    }

    fn srvr(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"srvr")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}
