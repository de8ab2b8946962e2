//! The common part of the background threads: how they end, and how a failure of one ends
//! the log. Knows nothing of what they do.

use log::LogError;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// The first failure of something the log relies on. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// From now on nothing is reported durable.
    pub fn note(&self, reason: &dyn ToString) {
        self.0.get_or_init(|| reason.to_string());
    }

    /// The question the log asks before it reports anything durable.
    ///
    /// # Errors
    /// There was a failure.
    pub fn check(&self) -> Result<(), LogError> {
        match self.0.get() {
            None => Ok(()),
            Some(reason) => Err(LogError::Poisoned { reason: reason.clone() }),
        }
    }
}

/// Starts a thread. If it panics, that is a failure, and `end` is called so that nobody waits for it.
///
/// # Errors
/// The system's.
pub(crate) fn spawn(
    name: &'static str,
    failure: Poison,
    end: impl Fn() + Send + 'static,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = OnPanic(|| {
            failure.note(&format_args!("the thread {name} panicked"));
            end();
        });
        run();
    })
}

struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// Waits for a thread that was told to end, unless it is the caller's own: the last handle of what
/// it works for may be dropped there.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
        tracing::error!("a thread of the storage panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    #[expect(clippy::panic, reason = "that is what is looked at")]
    fn a_panic_is_a_failure_and_ends_what_others_wait_for() {
        let failure = Poison::default();
        assert!(failure.check().is_ok());
        let (told, ended) = mpsc::channel();
        let end = move || told.send(()).unwrap();
        let thread = spawn("some-thread", failure.clone(), end, || panic!("on purpose")).unwrap();
        ended.recv().unwrap();
        join(thread);
        let error = failure.check().unwrap_err().to_string();
        assert!(error.contains("the thread some-thread panicked"), "{error}");
        failure.note(&"a later one");
        assert_eq!(failure.check().unwrap_err().to_string(), error);
    }
}
