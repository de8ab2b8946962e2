//! The thread of pulses: it sends and reads them, and judges peers by them. Nothing else is on it, so that a
//! node that is busy is not taken for one that is dead.

use super::hub::PeerHub;
use member::MemberEvent;
use peer::PULSE_INTERVAL_MS;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

/// The thread.
#[derive(Debug)]
pub(super) struct PulseThread(JoinHandle<()>);

/// Creates the thread's runtime.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

impl PulseThread {
    /// Starts the thread. Events are told by a task of the runtime that this is called in: their host has
    /// more to do than the thread has time for.
    pub(super) fn start(runtime: Runtime, hub: &Arc<PeerHub>) -> io::Result<Self> {
        // A peer causes at most a few events with each tick.
        let (events, to_tell) = unbounded_channel();
        tokio::spawn(tell(Arc::clone(hub), to_tell));
        let hub = Arc::clone(hub);
        let thread = std::thread::Builder::new().name("pulses".to_owned());
        Ok(Self(thread.spawn(move || runtime.block_on(beat(&hub, &events)))?))
    }

    /// Waits for the thread's end.
    pub(super) async fn join(self) {
        let joined = tokio::task::spawn_blocking(|| self.0.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the thread of pulses has panicked");
        }
    }
}

/// Sends pulses and judges peers until the service stops.
async fn beat(hub: &PeerHub, events: &UnboundedSender<Vec<MemberEvent>>) {
    let mut stopped = pin!(hub.stopped());
    let mut round = hub.now().monotonic_ms;
    loop {
        let now = hub.now();
        if round <= now.monotonic_ms {
            round = now.monotonic_ms.plus(PULSE_INTERVAL_MS);
            let writers = hub.membership.begin_round(now, hub.handler.health());
            writers.into_iter().for_each(Waker::wake);
        }
        let happened = hub.membership.tick(now.monotonic_ms);
        if !happened.is_empty() && events.send(happened).is_err() {
            return;
        }
        let wait_ms = round.min(hub.membership.due()).since(now.monotonic_ms);
        tokio::select! {
            () = sleep(Duration::from_millis(wait_ms)) => {}
            () = hub.judge_now.notified() => {}
            () = &mut stopped => return,
        }
    }
}

async fn tell(hub: Arc<PeerHub>, mut events: UnboundedReceiver<Vec<MemberEvent>>) {
    while let Some(events) = events.recv().await {
        hub.handler.events(events);
    }
}
