//! A case on a target: its steps, one after the other.

use perf::Client;

use crate::broker::{Broker, Failure};
use crate::churn;
use crate::clients::{self, Peer};
use crate::conversion::VersionPolicy;
use crate::load::{self, Generator, Tools};
use crate::measurement::Measurement;
use crate::one_by_one;
use crate::plan::{Case, Load, RowPlan, Step, Work, number};
use crate::result::{Metric, Point};
use crate::sharding::ShardedExchange;

/// The broker and the tools that a case is run with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) broker: &'a Broker,
    /// Arguments of the queues that are declared beside those of the load: `key=value,...`.
    pub(crate) queue_arguments: Option<&'a str>,
}

/// Load generators, connections, exchanges and a policy that go on beside the steps, until the case ends.
#[derive(Default)]
struct Background<'b> {
    generators: Vec<Generator>,
    clients: Vec<Client>,
    sharded: Vec<ShardedExchange<'b>>,
    version_policy: Option<VersionPolicy<'b>>,
}

impl<'b> Place<'b> {
    /// Does all steps. What each row found, in their order; a failure holds for all rows after it.
    pub(crate) fn run(
        self,
        case: &Case,
        progress: &mut dyn FnMut(&Point),
    ) -> Vec<Result<Measurement, Failure>> {
        let mut found = Vec::new();
        let end = self.broker.delete_queues(&case.queues).map_err(Failure::from);
        let end = end.and_then(|()| self.steps(case, &mut found, progress));
        let cleaned = self.broker.delete_queues(&case.queues).map_err(Failure::from);
        let end = end.and(cleaned);
        let failure = end.err().unwrap_or_else(|| Failure::Failed("not measurement".to_owned()));
        let missing = case.rows.iter().skip(found.len()).map(|row| self.explained(&failure, row));
        found.extend(missing.map(Err).collect::<Vec<_>>());
        found
    }

    /// A failure, with what Leveret's operator can do about a refusal.
    fn explained(self, failure: &Failure, row: &RowPlan) -> Failure {
        match (failure, &row.configured) {
            (Failure::Refused(words), Some(line)) if self.broker.is_leveret() => {
                Failure::Refused(format!("{words} (Leveret takes it with {line})"))
            }
            _ => failure.clone(),
        }
    }

    fn steps(
        self,
        case: &Case,
        found: &mut Vec<Result<Measurement, Failure>>,
        progress: &mut dyn FnMut(&Point),
    ) -> Result<(), Failure> {
        let mut background = Background::default();
        for step in &case.steps {
            if matches!(step.work, Work::Share { .. }) {
                // Messages of the row before would be old ones.
                self.broker.delete_queues(&case.queues)?;
            }
            let first = found.first().and_then(|first| first.as_ref().ok());
            let measurement = self.step(step, first, &mut background, progress)?;
            background.check()?;
            // Rows are measured in their order.
            found.extend(measurement.map(Ok));
        }
        Ok(())
    }

    /// Runs one step; its measurement, if the step is for a row. `first` is that of the case's first row.
    fn step(
        self,
        step: &Step,
        first: Option<&Measurement>,
        background: &mut Background<'b>,
        progress: &mut dyn FnMut(&Point),
    ) -> Result<Option<Measurement>, Failure> {
        let Self { tools, broker, .. } = self;
        let measurement = match &step.work {
            Work::Load(loads) => {
                let loads: Vec<Load> = loads.iter().map(|load| self.varied(load)).collect();
                load::run(tools, broker, &loads, progress)?
            }
            Work::Background(load) => {
                background.generators.push(load::start(tools, broker, &self.varied(load))?);
                return Ok(None);
            }
            Work::Share { percent, n_producers, load, bystander } => {
                let most = first.and_then(|first| first.values.get(&Metric::Rate));
                let rate = most.unwrap_or(&0.0) * f64::from(*percent) / 100.0;
                let each = (rate / f64::from(*n_producers)).round().max(1.0);
                let load = self.varied(load).with("-r", &number(each));
                load::run_beside(tools, broker, &[load, bystander.clone()], progress)?
            }
            Work::Client(load) => {
                let stream_uri = broker.option.stream_uri();
                let peer = Peer::of(broker, &stream_uri);
                clients::measure(&tools.clients, &peer, load, progress)?
            }
            Work::Queues(queues) => churn::declare_queues(broker, queues)?,
            Work::Connections(n) => {
                let (measurement, clients) = churn::open_connections(broker, *n)?;
                background.clients.extend(clients);
                measurement
            }
            Work::Shards(shards) => {
                background.sharded.push(ShardedExchange::make(broker, shards)?);
                return Ok(None);
            }
            Work::Convert(queues) => {
                let version = self.version(step.row.is_none())?;
                let policy = background.version_policy.get_or_insert(VersionPolicy(broker));
                policy.set(queues, version)?
            }
            Work::Fill(fill) => {
                load::fill(tools, broker, fill)?;
                return Ok(None);
            }
            Work::OneByOne { stream, seconds } => one_by_one::measure(broker, stream, *seconds)?,
            Work::Churn(it) => churn::churn(broker, it)?,
        };
        Ok(step.row.map(|_| measurement))
    }

    /// The queue version of the column, or the other one.
    fn version(self, is_other: bool) -> Result<&'static str, Failure> {
        match (self.queue_arguments, is_other) {
            (Some("x-queue-version=1"), false) | (Some("x-queue-version=2"), true) => Ok("1"),
            (Some("x-queue-version=2"), false) | (Some("x-queue-version=1"), true) => Ok("2"),
            _ => Err(Failure::NotOffered(
                "a conversion needs version=both with the target".to_owned(),
            )),
        }
    }

    fn varied(self, load: &Load) -> Load {
        match self.queue_arguments {
            Some(arguments) => load.clone().with("-qa", arguments),
            None => load.clone(),
        }
    }
}

impl Background<'_> {
    /// Whether all that should go on does.
    fn check(&mut self) -> Result<(), Failure> {
        self.generators.iter_mut().try_for_each(Generator::check)
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        self.clients.drain(..).for_each(Client::close);
    }
}
