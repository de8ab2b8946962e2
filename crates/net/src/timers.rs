//! Waiting for a time, on a thread of its own.
//!
//! A thread that waits for sockets *and* a time sets the processor's alarm clock whenever it goes to
//! sleep, and takes it back when it wakes. Each costs some microseconds where the processor is a
//! virtual one, at every message of a client that waits for one answer at a time. So the threads
//! of the connections wait for sockets only; whatever is due wakes them from here.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, Interval, Sleep, Timeout};

/// The thread, which ends when the last copy is dropped. A task that waits for one of its times holds a copy:
/// without the thread the time would never come.
#[derive(Clone, Debug)]
pub struct Timers(Arc<Thread>);

#[derive(Debug)]
struct Thread {
    clock: Handle,
    /// Dropped with this.
    _lives: oneshot::Sender<()>,
}

impl Timers {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it has no thread or no descriptors left.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let clock = runtime.handle().clone();
        let (lives, ended) = oneshot::channel();
        std::thread::Builder::new().name("timers".to_owned()).spawn(move || {
            let _dropped = runtime.block_on(ended).is_err();
        })?;
        Ok(Self(Arc::new(Thread { clock, _lives: lives })))
    }

    /// Ticks now, and then every so often.
    #[must_use]
    pub fn interval(&self, period: Duration) -> Interval {
        let _context = self.0.clock.enter();
        tokio::time::interval(period)
    }

    /// Runs a future on the thread.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.clock.spawn(future);
    }

    /// Waits for the moment.
    pub(crate) fn sleep_until(&self, moment: Instant) -> Sleep {
        let _context = self.0.clock.enter();
        tokio::time::sleep_until(moment)
    }

    /// Waits for so long.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(Instant::now() + duration).await;
    }

    /// Gives a future so long.
    ///
    /// # Errors
    /// The future took longer, and was dropped.
    pub async fn timeout<F: Future>(
        &self,
        at_most: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let timeout: Timeout<F> = {
            let _context = self.0.clock.enter();
            tokio::time::timeout(at_most, future)
        };
        timeout.await
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;
    use std::time::Duration;

    /// Runs a future on a runtime without a clock of its own.
    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_runtime_without_a_clock_waits_for_times() {
        let timers = Timers::start().unwrap();
        run(async {
            timers.sleep(Duration::from_millis(1)).await;
            let mut ticks = timers.interval(Duration::from_millis(1));
            ticks.tick().await;
            ticks.tick().await;
        });
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let timers = Timers::start().unwrap();
        run(async {
            let never = std::future::pending::<()>();
            assert!(timers.timeout(Duration::from_millis(1), never).await.is_err());
            assert_eq!(timers.timeout(Duration::from_secs(60), async { 7 }).await.ok(), Some(7));
        });
    }
}
