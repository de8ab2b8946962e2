//! The load tool: AMQP 0-9-1 publishers and consumers with PerfTest's options and output, and those of
//! the stream protocol (`stream`) with stream-perf-test's, fast enough to measure any broker. Knows the
//! wire protocols. Never any part of the broker.
//! Start reading at [`run()`], then `config` for what is asked for and `worker` for how it is done.

mod assembly;
mod clock;
mod config;
mod confirm_window;
mod confirms;
mod connection;
mod consumer;
mod losses;
mod message;
mod options;
pub mod process;
mod publisher;
mod rate;
mod report;
mod run;
mod setup;
mod shared;
mod socket;
mod stats;
mod stream;
mod template;
mod timerfd;
mod topology;
mod unconfirmed;
mod verify;
mod worker;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use command_help::CommandHelp;
use config::{Config, Format};
use options::Usage;
use report::RunError;
use run::End;

pub use client::{Client, Closed, Link, Unreachable, Uri};
pub use stream::OneByOne;

/// The run failed, or `--verify` found something.
const EXIT_FAILED: u8 = 1;
/// The options make no sense.
const EXIT_USAGE: u8 = 2;
/// There is no broker to talk to, or no longer.
const EXIT_UNREACHABLE: u8 = 3;

/// Runs the tool. `args` are the options, without a name in front.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut words = args.map(|arg| arg.to_string_lossy().into_owned()).peekable();
    if words.next_if(|word| word == "stream").is_some() {
        return stream::run(words);
    }
    if words.next_if(|word| word == "stream-fill").is_some() {
        return stream::fill(words);
    }
    let mut given = match options::parse(words) {
        Ok(given) => given,
        Err(usage) => return refuse(&usage),
    };
    let variables = &|name: &str| std::env::var(name).ok();
    given.add_variables(variables);
    if given.has("help") {
        return show(&options::help());
    }
    if given.has("environment-variables") {
        return show(&options::variables::help(variables));
    }
    if given.has("metrics-help") {
        return show(report::METRICS_HELP);
    }
    if given.has("version") {
        return show(concat!("leveret perf ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    match Config::new(&given) {
        Ok(config) => measure(&config),
        Err(usage) => refuse(&usage),
    }
}

/// The tool with its options.
pub fn command_help() -> CommandHelp {
    let commands = stream::commands();
    CommandHelp { commands, ..options::command_help("leveret perf", "", options::OPTIONS) }
}

fn measure(config: &Config) -> ExitCode {
    match run::run(config) {
        Ok(End::Good) => ExitCode::SUCCESS,
        Ok(End::Bad) => ExitCode::from(EXIT_FAILED),
        Ok(End::Unreachable) => ExitCode::from(EXIT_UNREACHABLE),
        Err(error) => fail(&error, config.run.format),
    }
}

/// Says why a run could not begin.
fn fail(error: &anyhow::Error, format: Format) -> ExitCode {
    complain(&format!("{error:#}"));
    let is_unreachable = error.downcast_ref::<Unreachable>().is_some();
    let code = if is_unreachable { EXIT_UNREACHABLE } else { EXIT_FAILED };
    if format == Format::Json {
        show(&format!("{}\n", report::failure_json(&RunError::from(error), code)));
    }
    ExitCode::from(code)
}

fn show(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

fn refuse(usage: &Usage) -> ExitCode {
    complain(&format!("{usage} (see --help)"));
    ExitCode::from(EXIT_USAGE)
}

/// One line on standard error. That it cannot be written is not worth another failure.
fn complain(what: &str) {
    drop(writeln!(std::io::stderr(), "leveret perf: {what}"));
}

/// Tests show that nothing is allocated per message.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;
