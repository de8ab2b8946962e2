//! The process's limit of file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, and returns what is in force then: many systems give a service a
/// soft limit of 1,024, and leave more to those who ask.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!("cannot raise the limit on open files (RLIMIT_NOFILE): {error}");
            current.unwrap_or(u64::MAX)
        }
    }
}
