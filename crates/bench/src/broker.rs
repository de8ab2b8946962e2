//! A broker under test: what it says about itself, its process, and what has to be asked of it beside
//! load.

use std::process::Command;

use amqp091::Method;
use amqp091::method::{QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk};
use anyhow::{Context as _, bail};
use perf::process::{self, Usage};
use perf::{Client, Closed, Link};

use crate::options::TargetOption;
use crate::own_count::{Counts, OwnCount};
use crate::result::{Target, WrittenBy};

/// The channel things are asked on.
pub(crate) const CHANNEL: u16 = 1;

/// Leveret's name in results.
const LEVERET: &str = "Leveret";

/// A broker that answers.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) option: TargetOption,
    pub(crate) target: Target,
    /// Leveret's count of what it writes and reads, if it can be asked.
    own_count: Option<OwnCount>,
}

/// The reason why there is no figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The broker's words.
    Refused(String),
    /// The tool has no such thing.
    NotOffered(String),
    /// Something went wrong.
    Failed(String),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<Closed>() {
            Some(closed) => Self::Refused(format!("{} {}", closed.code, closed.text)),
            None => Self::Failed(format!("{error:#}")),
        }
    }
}

impl Broker {
    /// Connects once and asks who is there.
    ///
    /// # Errors
    /// [`perf::Unreachable`], and a process that is not there.
    pub(crate) fn probe(option: TargetOption) -> anyhow::Result<Self> {
        if let Some(pid) = option.pid.filter(|pid| process::usage(*pid).is_none()) {
            bail!("there is no process {pid} here");
        }
        let client = Client::connect(&option.uri, &Link::default(), "leveret bench")?;
        let said = |name: &str| client.server_text(name);
        // Leveret calls itself RabbitMQ, for clients that look there, and tells its own version beside.
        let (product, version) = match said("leveret_version") {
            own if own.is_empty() => (said("product"), said("version")),
            own => (LEVERET.to_owned(), own),
        };
        let pid = option.pid.or_else(|| local_pid(&option));
        let own_count = pid.filter(|_| product == LEVERET).and_then(OwnCount::of);
        let counter = if own_count.is_some() { WrittenBy::Broker } else { WrittenBy::Process };
        let target = Target {
            name: option.name.clone(),
            uri: hide_password(&option.address),
            product,
            version,
            platform: said("platform"),
            pid,
            written_by: pid.map(|_| counter),
        };
        client.close();
        Ok(Self { option, target, own_count })
    }

    /// Whether it says so itself, whatever it calls itself for clients that look for RabbitMQ.
    pub(crate) fn is_leveret(&self) -> bool {
        self.target.product == LEVERET
    }

    /// A connection with [`CHANNEL`] open.
    pub(crate) fn connect(&self, name: &str) -> anyhow::Result<Client> {
        let mut client = Client::connect(&self.option.uri, &Link::default(), name)?;
        client.open_channel(CHANNEL)?;
        Ok(client)
    }

    /// CPU time and memory of the broker's process so far, if it can be seen.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.target.pid.and_then(process::usage)
    }

    /// Its own counts so far, if it can be asked.
    pub(crate) fn own_counts(&self) -> Option<Counts> {
        self.own_count.as_ref()?.counts()
    }

    /// Has the broker's command-line tool do something; what it says.
    pub(crate) fn ask_tool(
        &self,
        arguments: &[impl AsRef<std::ffi::OsStr>],
    ) -> Result<String, Failure> {
        let [program, first @ ..] = self.option.ctl.as_slice() else {
            return Err(Failure::NotOffered(
                "policies need ctl=COMMAND with the target".to_owned(),
            ));
        };
        let done = Command::new(program).args(first).args(arguments).output();
        let done = done.map_err(|error| Failure::Failed(format!("{program}: {error}")))?;
        let text = |said: Vec<u8>| String::from_utf8_lossy(&said).into_owned();
        if done.status.success() {
            return Ok(text(done.stdout));
        }
        let said = [done.stderr, done.stdout].map(text);
        Err(Failure::Refused(said.concat().trim().replace('\n', " ")))
    }

    /// Deletes queues, whether they are there or not.
    pub(crate) fn delete_queues(&self, names: &[String]) -> anyhow::Result<()> {
        let Some((last, others)) = names.split_last() else { return Ok(()) };
        let mut client = self.connect("leveret bench cleaning")?;
        for name in others {
            // One answer, to the last, is enough.
            let delete = QueueDelete { no_wait: true, ..deletion(name) };
            client.send(CHANNEL, delete.into())?;
        }
        client.call(CHANNEL, deletion(last).into(), QueueDeleteOk::ID)?;
        client.close();
        Ok(())
    }
}

fn deletion(queue: &str) -> QueueDelete<'_> {
    QueueDelete { queue: queue.as_bytes(), ..QueueDelete::default() }
}

/// Deletes a queue, whether it is there or not.
pub(crate) fn delete_queue(client: &mut Client, name: &str) -> anyhow::Result<()> {
    client.call(CHANNEL, deletion(name).into(), QueueDeleteOk::ID)?;
    Ok(())
}

/// Declares a durable queue.
pub(crate) fn declare_queue(client: &mut Client, name: &str) -> anyhow::Result<()> {
    let declare = QueueDeclare { queue: name.as_bytes(), durable: true, ..QueueDeclare::default() };
    client.call(CHANNEL, Method::from(declare), QueueDeclareOk::ID).context("declaring a queue")?;
    Ok(())
}

fn local_pid(option: &TargetOption) -> Option<u32> {
    let is_local = matches!(option.uri.host.as_str(), "localhost" | "127.0.0.1" | "::1");
    is_local.then(|| process::listening_on(option.uri.port)).flatten()
}

/// The same text with every `:password@` of a URI taken out.
pub(crate) fn hide_password(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else { return text.to_owned() };
    let Some((login, after)) = rest.split_once('@') else { return text.to_owned() };
    let user = login.split_once(':').map_or(login, |(user, _)| user);
    format!("{before}://{user}@{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(hide_password("a=amqp://u:secret@h:1/v,pid=3"), "a=amqp://u@h:1/v,pid=3");
        assert_eq!(hide_password("amqp://h:1"), "amqp://h:1");
        assert_eq!(hide_password("--scale"), "--scale");
    }

    #[test]
    fn a_closed_channel_is_a_refusal_and_all_else_is_not() {
        let closed = Closed { code: 540, text: "NOT_IMPLEMENTED".to_owned() };
        let error = anyhow::Error::from(closed).context("declaring a queue");
        assert_eq!(Failure::from(error), Failure::Refused("540 NOT_IMPLEMENTED".to_owned()));
        let error = anyhow::anyhow!("no such file").context("reading");
        assert_eq!(Failure::from(error), Failure::Failed("reading: no such file".to_owned()));
    }
}
