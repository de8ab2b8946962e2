//! Questions between the nodes of a cluster: requests of the HTTP API that one node has others answer.

use super::cluster::ClusterRun;
use cluster_host::{PeerQuestion, PendingReply};
use log::NodeNumber;
use mgmt::MemberReply;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A node that sends nothing of its reply for so long is not waited for.
const SILENCE_MAX: Duration = Duration::from_millis(1_500);
/// Time that a whole reply may take.
const REPLY_MAX: Duration = Duration::from_secs(20);

/// A member that was asked.
struct AskedMember {
    name: String,
    /// The reply, as long as it is waited for.
    pending: Option<PendingReply>,
    /// The bytes of the reply that had come when it was last looked at.
    n_bytes: usize,
    reply: Option<Vec<u8>>,
}

/// Asks all other members a question.
pub(super) async fn ask(run: &ClusterRun, question: &[u8]) -> Vec<MemberReply> {
    let me = run.broker().figures().identity().number;
    let view = run.broker().view();
    let others = view.meta.nodes().iter().filter(|node| node.no != me.0);
    let ask = |node: &meta::ClusterNode| AskedMember {
        name: node.name.to_string(),
        pending: run.host().ask(NodeNumber(node.no), question.to_vec().into()),
        n_bytes: 0,
        reply: None,
    };
    let mut asked: Vec<AskedMember> = others.map(ask).collect();
    let began = Instant::now();
    while run.timers().timeout(SILENCE_MAX, replies(&mut asked)).await.is_err() {
        for member in &mut asked {
            let n_bytes = member.pending.as_ref().map_or(0, PendingReply::n_bytes);
            if n_bytes == member.n_bytes || began.elapsed() >= REPLY_MAX {
                member.pending = None;
            }
            member.n_bytes = n_bytes;
        }
    }
    asked.into_iter().map(|it| MemberReply { node: it.name, reply: it.reply }).collect()
}

/// Resolves when no reply is waited for any more.
async fn replies(asked: &mut [AskedMember]) {
    poll_fn(|cx| {
        for member in &mut *asked {
            if let Some(pending) = &mut member.pending
                && let Poll::Ready(reply) = Pin::new(pending).poll(cx)
            {
                (member.pending, member.reply) = (None, reply);
            }
        }
        let is_over = asked.iter().all(|member| member.pending.is_none());
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Answers the question of another node, or refuses at once what is too much.
pub(super) fn answer(run: &Arc<ClusterRun>, question: PeerQuestion) {
    let Some((answers, place)) = run.answers() else {
        return run.host().reply(&question, Vec::new().into(), true);
    };
    let run = Arc::clone(run);
    tokio::spawn(async move {
        let _place = place;
        let host = run.host();
        let answering = async {
            let mut answer = answers.begin(&question.body).await;
            while let Some(part) = answer.next().await {
                poll_fn(|cx| host.poll_room(question.from, cx)).await;
                host.reply(&question, part, false);
            }
        };
        let _is_late = run.timers().timeout(REPLY_MAX, answering).await.is_err();
        host.reply(&question, Vec::new().into(), true);
    });
}
