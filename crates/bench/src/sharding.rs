//! A sharded exchange on a broker under test. Its policies are set by the broker's command-line tool: AMQP
//! 0-9-1 sets none.

use amqp091::Method;
use amqp091::method::{
    ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk, QueueDeclare,
    QueueDeclareOk,
};
use anyhow::bail;
use perf::Client;
use serde::Deserialize;

use crate::broker::{Broker, CHANNEL, Failure};

/// A sharded exchange to be made: its name, also of the queue that consumers name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shards {
    pub(crate) exchange: String,
    pub(crate) n: u32,
    /// The policy of the shards themselves, if they have one.
    pub(crate) policy: Option<String>,
}

/// A sharded exchange that is there; it goes with this, and its policies and shards do as well.
#[derive(Debug)]
pub(crate) struct ShardedExchange<'b> {
    broker: &'b Broker,
    shards: Shards,
    /// Names of the shards.
    queues: Vec<String>,
}

impl Shards {
    fn policy_of_shards(&self) -> String {
        format!("{}-shards", self.exchange)
    }

    /// The arguments of the tool, a line for each policy.
    pub(crate) fn set_policies(&self) -> Vec<Vec<String>> {
        let set = |apply_to: &str, name: &str, pattern: &str, definition: &str| {
            ["set_policy", "--apply-to", apply_to, name, pattern, definition].map(str::to_owned)
        };
        let Self { exchange, n, policy } = self;
        let shards = format!("{{\"shards-per-node\": {n}}}");
        let mut lines = vec![set("exchanges", exchange, &format!("^{exchange}$"), &shards).into()];
        let pattern = format!("^sharding: {exchange} - ");
        let name = self.policy_of_shards();
        lines.extend(policy.as_ref().map(|policy| set("queues", &name, &pattern, policy).into()));
        lines
    }
}

impl<'b> ShardedExchange<'b> {
    /// Sets the policies and declares the exchange.
    pub(crate) fn make(broker: &'b Broker, shards: &Shards) -> Result<Self, Failure> {
        let mut made = Self { broker, shards: shards.clone(), queues: Vec::new() };
        for line in shards.set_policies() {
            broker.ask_tool(&line)?;
        }
        let mut client = broker.connect("leveret bench sharding")?;
        made.declare(&mut client)?;
        client.close();
        Ok(made)
    }

    fn declare(&mut self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.shards.exchange.as_bytes();
        let declare = ExchangeDeclare {
            exchange: name,
            kind: b"x-modulus-hash",
            durable: true,
            ..ExchangeDeclare::default()
        };
        client.call(CHANNEL, declare.into(), ExchangeDeclareOk::ID)?;
        let declare = QueueDeclare { queue: name, passive: true, ..QueueDeclare::default() };
        let payload = client.call(CHANNEL, declare.into(), QueueDeclareOk::ID)?;
        let Method::QueueDeclareOk(first) = Method::decode(&payload)? else {
            bail!("the broker answers with something else");
        };
        let first = String::from_utf8_lossy(first.queue).into_owned();
        let Some(stem) = first.strip_suffix('0') else { bail!("'{first}' is no first shard") };
        self.queues = (0..self.shards.n).map(|index| format!("{stem}{index}")).collect();
        Ok(())
    }

    fn delete(&self) -> anyhow::Result<()> {
        let mut client = self.broker.connect("leveret bench sharding")?;
        let exchange = self.shards.exchange.as_bytes();
        let delete = ExchangeDelete { exchange, ..ExchangeDelete::default() };
        client.call(CHANNEL, delete.into(), ExchangeDeleteOk::ID)?;
        client.close();
        self.broker.delete_queues(&self.queues)
    }
}

impl Drop for ShardedExchange<'_> {
    fn drop(&mut self) {
        let clear = |name: String| self.broker.ask_tool(&["clear_policy", &name]);
        // Errors leave things behind that the next run sets again.
        drop(clear(self.shards.exchange.clone()));
        drop(self.shards.policy.as_ref().map(|_| clear(self.shards.policy_of_shards())));
        drop(self.delete());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_set_for_the_exchange_and_for_its_shards() {
        let policy = Some("{\"confirm-on\": \"ack\"}".to_owned());
        let shards = Shards { exchange: "x".to_owned(), n: 2, policy };
        let lines: Vec<String> = shards.set_policies().iter().map(|line| line.join("|")).collect();
        assert_eq!(
            lines,
            [
                "set_policy|--apply-to|exchanges|x|^x$|{\"shards-per-node\": 2}",
                "set_policy|--apply-to|queues|x-shards|^sharding: x - |{\"confirm-on\": \"ack\"}",
            ]
        );
        assert_eq!(Shards { policy: None, ..shards }.set_policies().len(), 1);
    }
}
