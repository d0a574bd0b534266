//! Starts a real server with a distribution, without `Ensemble`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use zk_provision::Distribution;

use crate::world::wait_for;

const START_LIMIT: Duration = Duration::from_secs(60);

/// A server process, killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0
            .kill()
            .and_then(|()| self.0.wait().map(drop))
            .expect("the server can be killed");
    }
}

/// Starts a server, waits until it serves, and checks that it wrote a log.
pub(crate) fn start_and_stop(distribution: &Distribution, dir: &Path) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let data = dir.join("data");
    fs::create_dir_all(&data).unwrap();
    let config = dir.join("zoo.cfg");
    let text = format!(
        "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\n",
        data.display()
    );
    fs::write(&config, text).unwrap();
    let log = dir.join("log");
    let out = File::create(&log).unwrap();
    let server = Command::new(&distribution.java)
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"])
        .arg("-cp")
        .arg(std::env::join_paths(&distribution.classpath).unwrap())
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .spawn();
    let _server = Server(server.expect("java starts"));
    wait_for("the server to serve", START_LIMIT, || {
        let answer = srvr(port);
        let serves = matches!(&answer, Ok(text) if text.contains("Mode: standalone"));
        serves.then_some(()).ok_or_else(|| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            format!("srvr: {answer:?}, log: {log}")
        })
    });
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains(" INFO "), "the server logs: {log}");
    assert!(
        !log.contains("Failed to load class"),
        "slf4j has a binding: {log}"
    );
}

fn srvr(port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
