//! Runs the scenarios of interop/STREAMS.md with rabbitmq-stream-client.

// What the suite with lapin has for any library.
#[path = "../../rust/src/check.rs"]
mod check;
#[path = "../../rust/src/node.rs"]
#[expect(dead_code, reason = "nothing here stops a node cleanly")]
mod node;
#[path = "../../rust/src/suite.rs"]
mod suite;

mod kills;
mod lab;
mod offsets;
mod streams;
mod super_streams;

use std::process::ExitCode;

const LIBRARY: &str = "rabbitmq-stream-client";

#[tokio::main]
async fn main() -> ExitCode {
    let mut suite = suite::Suite::default();
    streams::register(&mut suite);
    offsets::register(&mut suite);
    super_streams::register(&mut suite);
    kills::register(&mut suite);
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match suite.run(&wanted).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("interop-streams-rust: {error}");
            ExitCode::from(2)
        }
    }
}
