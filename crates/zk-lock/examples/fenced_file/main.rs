//! A file that refuses writers with an older token.
//!
//! Run it against the ensemble of `cargo xtask ensemble up`, in several terminals if you like:
//! `cargo run -p zk-lock --example fenced_file -- 127.0.0.1:2181 /tmp/balance`

mod file;
mod play;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "this is the output of a program")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next();
    let path = arguments.next();
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let path = path.map_or_else(|| std::env::temp_dir().join("zk-lock-balance"), Into::into);
    let refused = play::play(servers, &path).await?;
    println!("{}: {refused}", path.display());
    Ok(())
}
