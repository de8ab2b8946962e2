//! Transactions.

use crate::check::{self, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use fe2o3_amqp::transaction::{
    Controller, Transaction, TransactionDischarge, TransactionPosting, TransactionRetirement,
};
use std::sync::Arc;
use tokio::time::timeout;

pub fn register(suite: &mut Suite) {
    suite.add("transactions", transactions);
}

/// What is published and settled in a transaction is so once that is committed, and not if it is rolled back.
async fn transactions(lab: Arc<Lab>) -> Outcome {
    let (from, to) = (lab.queue("from", &[]).await?, lab.queue("to", &[]).await?);
    let mut peer = lab.peer().await?;
    peer.publish(&address(&from), &numbers(0..2)).await?;
    let controller = timeout(WAIT, Controller::attach(&mut peer.session, "control")).await??;
    let mut sender = peer.sender(&address(&to)).await?;
    let mut receiver = peer.receiver(&from).await?;
    let first = next(&mut receiver).await?;

    let lost = timeout(WAIT, Transaction::declare(&controller, None)).await??;
    timeout(WAIT, lost.post(&mut sender, message("lost"))).await??;
    timeout(WAIT, lost.rollback()).await??;
    lab.ready(&to, 0).await?;

    let kept = timeout(WAIT, Transaction::declare(&controller, None)).await??;
    timeout(WAIT, kept.post(&mut sender, message("kept"))).await??;
    timeout(WAIT, kept.accept(&mut receiver, &first)).await??;
    lab.ready(&to, 0).await?;
    timeout(WAIT, kept.commit()).await??;
    lab.ready(&to, 1).await?;
    check::equal(numbers(1..2), take(&mut receiver, 1).await?, "the other")?;
    timeout(WAIT, receiver.close()).await??;
    lab.ready(&from, 0).await?;
    let mut kept = peer.receiver(&to).await?;
    check::equal(vec!["kept".to_owned()], take(&mut kept, 1).await?, "what was published")?;
    timeout(WAIT, controller.close()).await??;
    peer.end().await
}
