//! The node is killed; its clients connect anew.

use crate::check::{self, Failure, Outcome};
use crate::lab::*;
use crate::suite::Suite;
use rabbitmq_stream_client::types::OffsetSpecification;
use std::sync::Arc;

const N_CONFIRMED: u64 = 5_000;

pub fn register(suite: &mut Suite) {
    suite.add("restart-stream-kill-9", kill);
}

/// Everything confirmed before the node is killed is there afterwards. Nobody publishes or consumes meanwhile:
/// a publisher that connects anew beside clients of the killed node hangs in every second run.
async fn kill(lab: Arc<Lab>) -> Outcome {
    if !lab.node.restartable() {
        return Err(Failure::Skipped("restarts need a node of our own"));
    }
    let environment = lab.environment().await?;
    let stream = lab.stream(&environment).await?;
    publish(&environment, &stream, &numbers(0..N_CONFIRMED)).await?;
    drop(environment);
    lab.node.kill9().await?;
    lab.node.start().await?;
    let environment = lab.environment().await?;
    publish(&environment, &stream, &["marker".into()]).await?;
    let mut expected = numbers(0..N_CONFIRMED);
    expected.push("marker".into());
    let seen = read(&environment, &stream, OffsetSpecification::First, expected.len()).await?;
    check::equal(expected, seen, "messages")
}
