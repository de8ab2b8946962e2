//! Turns of many tasks that would work on the threads of sockets at once: few of them wait there to be run,
//! so that whoever else becomes ready is run soon, however many they are.

use std::pin::pin;
use std::task::Poll;
use tokio::task::yield_now;

/// Polls a future in turns: each poll waits for what `turn()` gives and keeps it, and lets the other tasks of
/// its thread run before.
///
/// A turn is held while its task waits to be run, else a thread would run all tasks of a flood in a row: a
/// task that is not in its turn is not among those that wait for the thread.
pub async fn in_turns<F: Future, T: Future>(future: F, turn: impl Fn() -> T) -> F::Output {
    let mut future = pin!(future);
    loop {
        let turn = turn().await;
        yield_now().await;
        let polled = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        drop(turn);
        if let Poll::Ready(output) = polled {
            return output;
        }
        next_wakeup().await;
    }
}

/// Resolves when the task is woken. Nothing is awaited between the poll of a future and this, so that no
/// wakeup is missed.
async fn next_wakeup() {
    let mut is_polled = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut is_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    /// A bystander that becomes ready amid a flood is run before most of the flood is.
    #[test]
    fn a_flood_is_run_a_few_at_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (turns, n_run) = (Arc::new(Semaphore::new(2)), Arc::new(AtomicUsize::new(0)));
            let mut flood = JoinSet::new();
            for _ in 0..1_000 {
                let (turns, n_run) = (Arc::clone(&turns), Arc::clone(&n_run));
                flood.spawn(async move {
                    let step = async { n_run.fetch_add(1, Ordering::Relaxed) };
                    in_turns(step, || turns.acquire()).await
                });
            }
            yield_now().await;
            for _ in 0..10 {
                let before = n_run.load(Ordering::Relaxed);
                yield_now().await;
                assert!(n_run.load(Ordering::Relaxed) - before <= 2 * 3);
            }
            flood.join_all().await;
            assert_eq!(n_run.load(Ordering::Relaxed), 1_000);
        });
    }

    #[test]
    fn no_wakeup_is_missed() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (turns, (sender, mut receiver)) =
                (Semaphore::new(1), tokio::sync::mpsc::channel::<u32>(1));
            let sending = async move {
                for n in 0..100 {
                    sender.send(n).await.unwrap();
                }
            };
            let receiving = async { while receiver.recv().await.is_some() {} };
            tokio::join!(
                in_turns(sending, || turns.acquire()),
                in_turns(receiving, || turns.acquire())
            );
        });
    }
}
