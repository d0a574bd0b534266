//! `get`: the data of a node.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::decode::{Decoding, decode};
use crate::failure::Failure;
use crate::{escape, output};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Print the metadata too
    #[arg(short)]
    stat: bool,
    /// Print the bytes of the data and nothing else, not even a newline
    #[arg(long, conflicts_with = "stat", conflicts_with = "json")]
    raw: bool,
    /// Show the data decoded: JSON with indentation, TOML, what gzip has packed, or hexadecimal digits
    #[arg(
        long,
        value_enum,
        value_name = "AS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto",
        conflicts_with_all = ["raw", "json"]
    )]
    decode: Option<Decoding>,
    /// The node
    path: String,
}

impl Get {
    /// Prints the data of a node.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let (data, stat) = session.get(&path).timeout(context.remaining()).await?;
        let output = context.output();
        if self.raw {
            return output.print(data).await;
        }
        if output.is_json() {
            let mut document = json!({"path": path.as_str(), "stat": output::stat_json(&stat)});
            output::add_data(&mut document, &data);
            return output.result(String::new, || document).await;
        }
        match self.decode {
            None => output.data(&data).await?,
            Some(decoding) => {
                let text = decode(&data, decoding).map_err(|problem| {
                    Failure::operation(
                        format!("{path}: {problem}"),
                        Some("use --decode alone to see what it is"),
                    )
                })?;
                let end = if text.ends_with('\n') { "" } else { "\n" };
                output
                    .print(format!("{}{end}", escape::block(&text)))
                    .await?;
            }
        }
        if self.stat {
            output.print(output::stat(&stat)).await
        } else {
            Ok(())
        }
    }
}
