//! Measures the cache: its load, events and reads, next to plain reads and to Curator's cache.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use zk_bench::{Fixture, Settings, cache, publish};

/// Counts the memory of a cache exactly.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let fixture = Fixture::new(settings)?.with_large_heap();
    let results = cache::run(&fixture, settings)?;
    fixture.down()?;
    let section = results.section(&settings.command("cache"));
    publish(settings, "cache", &section)
}
