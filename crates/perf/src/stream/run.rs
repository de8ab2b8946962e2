//! A run from the first connection to the last line.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use anyhow::Context as _;

use super::config::Config;
use super::{options, setup, topology};
use crate::config::Format;
use crate::options::{help_of, parse_from};
use crate::report::{Printer, Shown};
use crate::run::{Run, allow_files, broker_pid, conclude, drive, generated_id, say};
use crate::shared::{Broken, News, Shared};

/// `perf stream`. `words` are the options.
pub(crate) fn run(words: impl Iterator<Item = String>) -> ExitCode {
    let given = match parse_from(options::OPTIONS, words) {
        Ok(given) => given,
        Err(usage) => return crate::refuse(&usage),
    };
    if given.has("help") {
        return crate::show(&help_of("leveret perf stream", options::OPTIONS));
    }
    if given.has("version") {
        return crate::show(concat!("leveret perf ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    match Config::new(&given) {
        Err(usage) => crate::refuse(&usage),
        Ok(config) => match measure(&config) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(crate::EXIT_FAILED),
            Err(error) => crate::fail(&error, config.run.format),
        },
    }
}

/// Does the run; gives back whether it came to its end.
fn measure(config: &Config) -> anyhow::Result<bool> {
    let id = config.run.id.clone().unwrap_or_else(generated_id);
    allow_files(config.producing.n + config.consuming.n, &config.run)?;
    let mut client = setup::dial(config, 0, &format!("{id} configuration"))?;
    topology::create(&mut client, &config.streams)?;
    let port = config.brokers.first().context("no broker")?.port;
    let broker_pid = broker_pid(&config.run, client.is_local(), port);
    let (format, shown) = (config.run.format, shown(config));
    let printer = Printer { id: id.clone(), format, shown, in_millis: false };
    if printer.format == Format::Json {
        say(&printer.start_json(&client.product, &client.version, broker_pid).to_string())?;
    }
    let parts = setup::parts(config);
    let shared = Arc::new(Shared::new(parts.len(), &config.run)?);
    let recovery = None::<fn(Receiver<Broken>, Sender<News>)>;
    let connect = |part| setup::connect(config, &id, part);
    let (summary, is_complete) = drive(&parts, &shared, connect, recovery, |news| {
        Run::new(&config.run, config.limits(), &shared, &printer, news).monitor(broker_pid)
    })?;
    if config.streams.delete {
        topology::delete(&mut client, &config.streams)?;
    }
    client.close();
    conclude(&printer, &summary, is_complete)?;
    Ok(is_complete)
}

fn shown(config: &Config) -> Shown {
    Shown {
        publishes: config.producing.n > 0,
        consumes: config.consuming.n > 0,
        confirms: config.producing.n > 0,
        consumer_latency: config.consuming.n > 0 && config.consuming.measures_latency,
        confirm_latency: config.producing.n > 0 && config.producing.measures_confirms,
        resends: false,
        returns: false,
    }
}
