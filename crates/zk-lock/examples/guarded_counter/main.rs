//! Several tasks count in a store that does not use ZooKeeper, one at a time.
//!
//! Run it against the ensemble of `cargo xtask ensemble up`:
//! `cargo run -p zk-lock --example guarded_counter -- 127.0.0.1:2181`

mod count;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "this is the output of a program")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::args().nth(1);
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let store = count::count(servers, 4, 25).await?;
    println!(
        "counted to {} under {} tokens",
        store.value,
        store.tokens.len()
    );
    Ok(())
}
