//! Links and connections: credit, replies, refusals, clients and nodes that are lost.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::messaging::{MessageId, Properties, Source, TerminusExpiryPolicy};
use fe2o3_amqp::types::primitives::Symbol;
use fe2o3_amqp::{Receiver, Sender};
use lapin::options::QueueDeleteOptions;
use std::sync::Arc;
use tokio::time::timeout;

pub fn register(suite: &mut Suite) {
    suite.add("credit-is-kept-to", credit);
    suite.add("replies", replies);
    suite.add("lost-client-gives-back", lost_client);
    suite.add("queue-is-deleted", queue_is_deleted);
    suite.add("bad-addresses", bad_addresses);
    suite.add("refused-logins", refused_logins);
    suite.add("restart-kill-9", kill);
}

async fn credit(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..20)).await?;
    let name = peer.link_name();
    let builder = Receiver::builder().name(name).source(address(&queue));
    let builder = builder.credit_mode(CreditMode::Manual);
    let mut receiver = timeout(WAIT, builder.attach(&mut peer.session)).await??;
    receiver.set_credit(7).await?;
    check::equal(numbers(0..7), take(&mut receiver, 7).await?, "bodies")?;
    check::that(is_silent(&mut receiver).await, "more than the credit")?;
    receiver.set_credit(13).await?;
    check::equal(numbers(7..20), take(&mut receiver, 13).await?, "the others")?;
    peer.end().await?;
    lab.ready(&queue, 0).await
}

async fn replies(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    let source = Source::builder()
        .dynamic(true)
        .expiry_policy(TerminusExpiryPolicy::LinkDetach)
        .capabilities(vec![Symbol::from("rabbitmq:volatile-queue")])
        .build();
    let name = peer.link_name();
    let builder = Receiver::builder().name(name).source(source);
    let builder = builder.sender_settle_mode(SenderSettleMode::Settled);
    let mut answers = timeout(WAIT, builder.attach(&mut peer.session)).await??;
    let reply_to = answers.source().as_ref().and_then(|source| source.address.clone());
    let mut ask = message("ask");
    ask.properties = Some(Properties {
        reply_to,
        message_id: Some(MessageId::String("c".into())),
        ..Properties::default()
    });
    let mut sender = peer.sender(&address(&queue)).await?;
    timeout(WAIT, sender.send(ask)).await??;
    let mut requests = peer.receiver(&queue).await?;
    let request = next(&mut requests).await?;
    requests.accept(&request).await?;
    let asked = request.message().properties.clone().unwrap_or_default();
    let mut answer = message("answer");
    answer.properties =
        Some(Properties { correlation_id: asked.message_id, ..Properties::default() });
    let mut responder = peer.sender(&asked.reply_to.unwrap_or_default()).await?;
    timeout(WAIT, responder.send(answer)).await??;
    let reply = next(&mut answers).await?;
    let told = reply.message().properties.clone().unwrap_or_default();
    check::equal("answer", body(&reply).as_str(), "reply")?;
    check::equal(Some(MessageId::String("c".into())), told.correlation_id, "correlation")?;
    peer.end().await
}

async fn lost_client(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..10)).await?;
    let mut other = lab.peer().await?;
    let mut receiver = other.receiver(&queue).await?;
    for _ in 0..10 {
        next(&mut receiver).await?;
    }
    other.end().await?;
    lab.ready(&queue, 10).await?;
    let mut again = peer.receiver(&queue).await?;
    check::equal(numbers(0..10), take(&mut again, 10).await?, "bodies")?;
    peer.end().await
}

async fn queue_is_deleted(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    let mut receiver = peer.receiver(&queue).await?;
    let channel = lab.channel().await?;
    channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
    let Err(ended) = timeout(WAIT, receiver.recv::<String>()).await? else {
        return Err(Failure::new("a message of a queue that is gone"));
    };
    check::that(format!("{ended:?}").contains("ResourceDeleted"), format!("{ended:?}"))
}

async fn bad_addresses(lab: Arc<Lab>) -> Outcome {
    for (address, condition) in [("/queues/nowhere", "NotFound"), ("nowhere", "InvalidField")] {
        let mut peer = lab.peer().await?;
        let name = peer.link_name();
        let attach = Sender::attach(&mut peer.session, name, address);
        let Err(error) = timeout(WAIT, attach).await? else {
            return Err(Failure::new(format!("{address} is taken")));
        };
        check::that(format!("{error:?}").contains(condition), format!("{error:?}"))?;
    }
    lab.peer().await?.end().await
}

async fn refused_logins(lab: Arc<Lab>) -> Outcome {
    let password = lab.node.credentials().split(':').nth(1).unwrap_or_default();
    for (password, hostname) in [("wrong", "vhost:/"), (password, "vhost:nowhere")] {
        if lab.peer_of(password, hostname).await.is_ok() {
            return Err(Failure::new(format!("{hostname} is open")));
        }
    }
    lab.peer().await?.end().await
}

/// Everything accepted before the node is killed is there afterwards.
async fn kill(lab: Arc<Lab>) -> Outcome {
    if !lab.node.restartable() {
        return Err(Failure::Skipped("restarts need a node of our own"));
    }
    let queues = [
        lab.queue_of("classic").await?,
        lab.queue("quorum", &[("x-queue-type", text("quorum"))]).await?,
    ];
    let mut peer = lab.peer().await?;
    for queue in &queues {
        peer.publish(&address(queue), &numbers(0..1_000)).await?;
    }
    drop(peer);
    lab.node.kill9().await?;
    lab.node.start().await?;
    let mut peer = lab.peer().await?;
    for queue in &queues {
        let mut receiver = peer.receiver(queue).await?;
        check::equal(numbers(0..1_000), take(&mut receiver, 1_000).await?, "bodies")?;
    }
    peer.end().await
}
