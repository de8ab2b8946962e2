//! Expressions matched with many names for one request: within a budget of time, in slices, off the threads
//! that serve sockets.

use crate::{ApiError, Course};
use api::ErrorCode;
use pattern::Pattern;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The time of a processor that all matches of one request take at most.
const MATCHING_MAX: Duration = Duration::from_secs(1);
/// The part of a name that is looked at, in bytes: clients give their connections names of any length.
const NAME_BYTES_MAX: usize = 1024;
/// The steps of a slice, some milliseconds at worst. Behind it the clock is looked at, and others may run.
const SLICE_STEPS: usize = 512 * 1024;

/// The matches of one request.
#[derive(Debug)]
pub struct Matching {
    began: Duration,
    steps_left: usize,
    course: Course,
}

impl Default for Matching {
    fn default() -> Self {
        Self::during(&Course::default())
    }
}

impl Matching {
    /// Begins the matching of a request, which ends with its course.
    #[must_use]
    pub fn during(course: &Course) -> Self {
        Self { began: processor_time(), steps_left: SLICE_STEPS, course: course.clone() }
    }

    /// Whether an expression is found in a name. One that takes too many steps for it is not.
    ///
    /// # Errors
    /// The matches of this request have taken too long, or nobody waits for them any more.
    pub fn matches(&mut self, pattern: &Pattern, name: &str) -> Result<bool, ApiError> {
        let seen = name.as_bytes().get(..NAME_BYTES_MAX).unwrap_or(name.as_bytes());
        let is_found = pattern.matches(seen);
        let left = self.steps_left.checked_sub(pattern.steps(seen.len()));
        self.steps_left = left.unwrap_or(SLICE_STEPS);
        if left.is_none() {
            self.course.check()?;
            if processor_time().saturating_sub(self.began) > MATCHING_MAX {
                let text = format!(
                    "matching all names takes more than {} ms: simplify the regular expression",
                    MATCHING_MAX.as_millis()
                );
                return Err(ApiError::new(ErrorCode::BadRequest, text));
            }
            std::thread::yield_now();
        }
        Ok(is_found)
    }
}

/// The time that a processor has worked for this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Does what may take some milliseconds. Where this thread serves sockets, another does so meanwhile.
pub fn off_sockets<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pattern::Limits;

    #[test]
    fn matches_of_a_request_end_when_they_have_taken_too_long() {
        let dear = Pattern::perl("(?:[^c]*a[^c]*b){40}c", &Limits::NAMES).unwrap();
        let (mut matching, name) = (Matching::default(), "abba".repeat(63));
        let mut refused = (0..1_000_000).find_map(|_| matching.matches(&dear, &name).err());
        // A processor that needs less for a million of them has no need of a budget.
        let error = refused.take().unwrap();
        assert_eq!(error.kind, ErrorCode::BadRequest);
        assert!(error.text.contains("more than 1000 ms"), "{error:?}");
        let cheap = Pattern::perl("^a", &Limits::NAMES).unwrap();
        let mut matching = Matching::default();
        assert!((0..100_000).all(|_| matching.matches(&cheap, "abc") == Ok(true)));
    }
}
