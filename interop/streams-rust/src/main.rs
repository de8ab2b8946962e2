//! Runs the scenarios of interop/STREAMS.md with rabbitmq-stream-client.

// What the suite with lapin has for any library.
#[path = "../../rust/src/check.rs"]
mod check;
#[path = "../../rust/src/node.rs"]
mod node;
#[path = "../../rust/src/suite.rs"]
mod suite;

mod kills;
mod lab;
mod offsets;
mod streams;
mod super_streams;
mod thrown_out;
mod tls;

const LIBRARY: &str = "rabbitmq-stream-client";

#[tokio::main]
async fn main() {
    let mut suite = suite::Suite::default();
    if std::env::var_os("INTEROP_TLS").is_some() {
        tls::register(&mut suite);
    } else {
        streams::register(&mut suite);
        offsets::register(&mut suite);
        super_streams::register(&mut suite);
        thrown_out::register(&mut suite);
        kills::register(&mut suite);
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let code = match suite.run(&wanted).await {
        Ok(0) => 0,
        Ok(_) => 1,
        Err(error) => {
            eprintln!("interop-streams-rust: {error}");
            2
        }
    };
    // A thread of the client may be blocked for ever, which the end of the runtime would wait for.
    std::process::exit(code);
}
