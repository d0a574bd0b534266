//! Measures `zk-wire` next to other clients of ZooKeeper, and next to a blocking socket.

use std::path::Path;

use zk_bench::{Fixture, Settings, publish, wire};

fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let fixture = Fixture::new(settings)?;
    let client_load = Path::new(env!("CARGO_BIN_EXE_client-load"));
    let results = wire::run(&fixture, settings, client_load)?;
    fixture.down()?;
    let section = results.section(&settings.command("wire"));
    publish(settings, "wire", &section)
}
