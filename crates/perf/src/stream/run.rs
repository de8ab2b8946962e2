//! A run from the first connection to the last line.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use anyhow::Context as _;

use super::config::Config;
use super::{setup, topology};
use crate::config::Format;
use crate::report::{Printer, Shown};
use crate::run::{End, Run, allow_files, broker_pid, conclude, drive, generated_id, say};
use crate::shared::{Broken, News, Shared};

/// Does the run.
///
/// # Errors
/// `Unreachable` without a broker, otherwise whatever kept the run from beginning.
pub(super) fn run(config: &Config) -> anyhow::Result<End> {
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
    Ok(if is_complete { End::Good } else { End::Bad })
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
