//! Opening, authenticating, heartbeats, and losing connections.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::relay::Relay;
use crate::suite::Suite;
use lapin::options::*;
use lapin::{Connection, ConnectionProperties};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const CHANNELS: usize = 2000;
const HEARTBEAT: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

pub fn register(suite: &mut Suite) {
    suite.add("capabilities", capabilities);
    suite.add("channels-2000", many_channels);
    suite.add("auth-wrong-password-403", wrong_password);
    suite.add("vhost-unknown-530", unknown_vhost);
    suite.add("update-secret", update_secret);
    suite.add("heartbeat-idle-survives", idle_heartbeats);
    suite.add("heartbeat-silent-peer-closed", silent_peer);
    suite.add("redelivered-after-connection-loss", redelivered_after_loss);
}

async fn capabilities(_lab: Arc<Lab>) -> Outcome {
    Err(Failure::Skipped("lapin does not show the server's properties"))
}

async fn many_channels(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let mut channels = vec![peer.channel().await?];
    let queue = lab.queue(&channels[0], "q").await?;
    while channels.len() < CHANNELS {
        channels.push(peer.channel().await?);
    }
    for channel in &channels {
        let got =
            channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await?;
        check::that(got.is_none(), "a message in the empty queue")?;
    }
    peer.close().await
}

async fn wrong_password(lab: Arc<Lab>) -> Outcome {
    let (host, port) = lab.node.address();
    let uri = format!("amqp://{}:wrong@{host}:{port}/%2f", lab.node.user());
    refused(
        &uri,
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. \
         For details see the broker logfile.",
    )
    .await
}

async fn unknown_vhost(lab: Arc<Lab>) -> Outcome {
    let uri = lab.uri("interop-missing");
    refused(&uri, 530, "NOT_ALLOWED - vhost interop-missing not found").await
}

async fn refused(uri: &str, code: u16, text: &str) -> Outcome {
    let connecting = Connection::connect(uri, ConnectionProperties::default());
    match timeout(WAIT, connecting).await? {
        Ok(_) => Err(Failure::new("the connection was opened")),
        Err(error) => server_said(&error, code, text),
    }
}

async fn update_secret(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let secret = lab.node.credentials().split(':').nth(1).unwrap_or_default();
    timeout(WAIT, peer.connection.update_secret(secret.into(), "renewed".into())).await??;
    lab.queue(&peer.channel().await?, "q").await?;
    Ok(())
}

async fn through(relay: &Relay, lab: &Lab) -> Outcome<Peer> {
    let credentials = lab.node.credentials();
    let seconds = HEARTBEAT.as_secs();
    let port = relay.port;
    Peer::connect(&format!("amqp://{credentials}@127.0.0.1:{port}/%2f?heartbeat={seconds}")).await
}

async fn idle_heartbeats(lab: Arc<Lab>) -> Outcome {
    let relay = Relay::to(lab.node.address()).await?;
    let peer = through(&relay, &lab).await?;
    let negotiated = u64::from(peer.connection.configuration().heartbeat());
    check::equal(HEARTBEAT.as_secs(), negotiated, "negotiated heartbeat")?;
    let started = Instant::now();
    while relay.heartbeats_from_node() < 4 || relay.heartbeats_from_client() < 4 {
        check::that(
            started.elapsed() < IDLE,
            format!(
                "{} heartbeats of the node and {} of the client",
                relay.heartbeats_from_node(),
                relay.heartbeats_from_client()
            ),
        )?;
        sleep(POLL).await;
    }
    check::that(peer.connection.status().connected(), "the connection closed")?;
    lab.queue(&peer.channel().await?, "q").await?;
    Ok(())
}

async fn silent_peer(lab: Arc<Lab>) -> Outcome {
    let relay = Relay::to(lab.node.address()).await?;
    let peer = through(&relay, &lab).await?;
    let _channel = peer.channel().await?;
    relay.mute_client();
    let muted = Instant::now();
    let limit = 5 * HEARTBEAT + Duration::from_secs(2);
    check::that(
        timeout(limit, relay.node_closed()).await.is_ok(),
        format!("the node kept a silent connection for {limit:?}"),
    )?;
    let after = muted.elapsed();
    check::that(after >= HEARTBEAT, format!("closed after only {after:?}"))
}

async fn redelivered_after_loss(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 5).await?;
    let relay = Relay::to(lab.node.address()).await?;
    let lost = through(&relay, &lab).await?;
    let consuming = lost.channel().await?;
    consuming.basic_qos(3, BasicQosOptions::default()).await?;
    let mut consumer = consume(&consuming, &queue).await?;
    take_bodies(&mut consumer, &["0", "1", "2"]).await?;
    relay.cut();
    ready(&channel, &queue, 5).await?;
    let mut consumer = consume(&channel, &queue).await?;
    for i in 0..5 {
        let got = take(&mut consumer).await?;
        check::equal(i.to_string(), body(&got), "body")?;
        check::equal(i < 3, got.redelivered, &format!("redelivered of {i}"))?;
    }
    Ok(())
}
