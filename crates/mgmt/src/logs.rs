//! An operator's commands about the log while the node runs.

use crate::api_error::{ApiError, Kind};
use crate::{Management, Request, Told};
use serde_json::Value;
use std::io;

/// The node's log.
pub trait Log: std::fmt::Debug + Send + Sync {
    /// Changes what is logged, wherever the log goes, by RabbitMQ's name of the least level. False for a
    /// name that there is not.
    fn set_level(&self, level: &str) -> bool;

    /// Opens its file anew: whoever rotates logs has moved it away.
    ///
    /// # Errors
    /// It cannot be opened; what was open stays in use.
    fn reopen(&self) -> io::Result<()>;

    /// Lines that were dropped because too many waited to be written.
    fn n_dropped(&self) -> u64;
}

/// Sets the log's level until the next start, as RabbitMQ does; the configured level counts then.
pub fn set_level(management: &Management, request: &Request) -> Told {
    let level = request.text("level")?;
    if management.log.set_level(level) {
        tracing::info!("management: the log's level is {level} from now on");
        return Ok(Value::Null);
    }
    Err(ApiError::new(Kind::Invalid, format!("there is no level {level}")))
}

/// Opens the log anew.
pub fn reopen(management: &Management, _: &Request) -> Told {
    management.log.reopen().map(|()| Value::Null).map_err(|error| {
        ApiError::new(Kind::Invalid, format!("the log cannot be opened again: {error}"))
    })
}
