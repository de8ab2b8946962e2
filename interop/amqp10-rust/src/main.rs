//! Runs the scenarios of interop/AMQP10.md with fe2o3-amqp, lapin at the other end.

// What the suite with lapin has for any library.
#[path = "../../rust/src/check.rs"]
mod check;
#[allow(dead_code, reason = "no scenario stops a node in good order")]
#[path = "../../rust/src/node.rs"]
mod node;
#[path = "../../rust/src/suite.rs"]
mod suite;

mod lab;
mod links;
mod messages;
mod streams;
mod transactions;

const LIBRARY: &str = "fe2o3-amqp";

#[tokio::main]
async fn main() {
    let mut suite = suite::Suite::default();
    messages::register(&mut suite);
    links::register(&mut suite);
    streams::register(&mut suite);
    transactions::register(&mut suite);
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let code = match suite.run(&wanted).await {
        Ok(0) => 0,
        Ok(_) => 1,
        Err(error) => {
            eprintln!("interop-amqp10-rust: {error}");
            2
        }
    };
    std::process::exit(code);
}
