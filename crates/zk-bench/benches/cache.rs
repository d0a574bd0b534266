//! Measures the cache: its load, events and reads, next to plain reads and to Curator's cache.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::path::Path;

use zk_bench::Fixture;
use zk_bench::Settings;
use zk_bench::cache;

fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let fixture = Fixture::new(settings)?;
    let results = cache::run(&fixture, settings)?;
    fixture.down()?;
    let command = settings.command("cache");
    println!("\n{}", results.section(&command));
    if settings.peers && !settings.smoke {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        results.write(&root, &command)?;
        println!("written to BENCHMARKS.md");
    }
    Ok(())
}
