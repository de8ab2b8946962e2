//! The measurements by name: drives the load tool against one or several brokers in turn, and puts
//! the results side by side. Knows the load tool and its output. Never any part of the broker.
//! Start reading at [`run()`], then `plan` for what a measurement is and [`result`] for what comes out.

mod baseline;
mod broker;
mod churn;
mod clients;
mod conversion;
mod execute;
mod external;
mod list;
mod load;
mod machine;
mod measurement;
mod one_by_one;
mod options;
mod own_count;
mod plan;
mod progress;
mod queueless;
pub mod report;
pub mod result;
mod run;
mod scenarios;
mod schedule;
mod sharding;
mod stats;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use command_help::CommandHelp;
use perf::Unreachable;

use clients::ClientCommands;
use load::Tools;
use options::{Options, Request, Usage};

/// A measurement failed.
const EXIT_FAILED: u8 = 1;
/// The options make no sense.
const EXIT_USAGE: u8 = 2;
/// There is no broker to talk to.
const EXIT_UNREACHABLE: u8 = 3;

/// Runs the tool. `args` are the options, without a name in front. The load generator and this tool are
/// started again by the words the program knows them by: `perf`, and `bench`.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    match options::parse(words.clone()) {
        Ok(Request::Help) => show(&options::help()),
        Ok(Request::Version) => show(concat!("leveret bench ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Request::List(names)) => show(&list::list(&names)),
        Ok(Request::Relay(floor)) => {
            exit(baseline::serve(floor).map(|()| true).map_err(Into::into))
        }
        Ok(Request::Run(options)) => {
            let tools = match tools(&options) {
                Ok(tools) => tools,
                Err(error) => return exit(Err(error.into())),
            };
            let words = words.iter().map(|word| broker::hide_password(word));
            let command =
                ["leveret bench".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
            exit(run::run(&options, &tools, command))
        }
        Err(Usage(what)) => {
            complain(&format!("{what} (see --help)"));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The tool with its options and scenarios.
pub fn command_help() -> CommandHelp {
    options::command_help()
}

fn tools(options: &Options) -> std::io::Result<Tools> {
    let program = std::env::current_exe()?;
    let (perf, bench) = (vec!["perf".into()], vec!["bench".into()]);
    let clients = ClientCommands::find(options);
    Ok(Tools { program, perf, bench, external: options.external.clone(), clients })
}

fn exit(end: anyhow::Result<bool>) -> ExitCode {
    match end {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FAILED),
        Err(error) => {
            complain(&format!("{error:#}"));
            let is_unreachable = error.downcast_ref::<Unreachable>().is_some();
            ExitCode::from(if is_unreachable { EXIT_UNREACHABLE } else { EXIT_FAILED })
        }
    }
}

fn show(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

/// One line on standard error. That it cannot be written is not worth another failure.
fn complain(what: &str) {
    drop(writeln!(std::io::stderr(), "leveret bench: {what}"));
}
