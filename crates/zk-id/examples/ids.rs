//! Every kind of id, from processes that come and go.
//!
//! ```text
//! cargo run -p zk-id --example ids                    on servers of its own
//! cargo run -p zk-id --example ids 127.0.0.1:2181     on servers that run
//! ```

use std::num::NonZeroU32;

use zk_core::Session;
use zk_harness::Ensemble;
use zk_id::{BlockIds, Layout, SequenceIds, Snowflakes};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ensemble = match std::env::args().nth(1) {
        Some(_) => None,
        None => Some(Ensemble::builder().servers(1).start().await?),
    };
    let connect = match &ensemble {
        Some(ensemble) => ensemble.connect_string(),
        None => std::env::args().nth(1).unwrap_or_default(),
    };
    for process in ["first", "second"] {
        say(&format!("the {process} process"));
        issue_ids(&connect).await?;
    }
    if let Some(ensemble) = ensemble {
        ensemble.down().await?;
    }
    Ok(())
}

/// Issues ids of each kind, as one process.
async fn issue_ids(connect: &str) -> Result<(), Box<dyn std::error::Error>> {
    let session = Session::builder(connect).connect().await?;

    let snowflakes = Snowflakes::new(&session, "/example/ids/orders", Layout::TWITTER)?;
    let orders = snowflakes.claim().await?;
    for _ in 0..3 {
        let id = orders.next().await?;
        let parts = orders.layout().parts(id);
        say(&format!(
            "order {id}, or {}, is number {} of worker {} in its millisecond",
            id.crockford(),
            parts.sequence,
            parts.worker
        ));
    }
    orders.release().await?;

    let block = NonZeroU32::new(100).ok_or("a block has numbers")?;
    let invoices = BlockIds::new(&session, "/example/ids/invoices", block)?;
    say(&format!("invoice {}", invoices.next().await?));

    let tickets = SequenceIds::new(&session, "/example/ids/tickets")?;
    say(&format!("ticket {}", tickets.next().await?));
    session.close().await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "it is what the example is for")]
fn say(what: &str) {
    println!("{what}");
}
