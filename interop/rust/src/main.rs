//! Runs the scenario list of interop/SCENARIOS.md with lapin.

mod check;
mod connections;
mod consuming;
mod exchanges;
mod lab;
#[expect(dead_code, reason = "nothing here needs the command-line tool")]
mod node;
mod publishing;
mod queues;
mod relay;
mod restarts;
mod suite;
mod tls;

use std::process::ExitCode;

const LIBRARY: &str = "rust";

#[tokio::main]
async fn main() -> ExitCode {
    let mut suite = suite::Suite::default();
    if std::env::var_os("INTEROP_TLS").is_some() {
        tls::register(&mut suite);
    } else {
        exchanges::register(&mut suite);
        publishing::register(&mut suite);
        consuming::register(&mut suite);
        queues::register(&mut suite);
        connections::register(&mut suite);
        restarts::register(&mut suite);
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match suite.run(&wanted).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("interop-rust: {error}");
            ExitCode::from(2)
        }
    }
}
