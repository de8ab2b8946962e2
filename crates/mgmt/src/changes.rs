//! Changes of definitions that operators make: checked, applied and worded as RabbitMQ does.

use crate::{ApiError, Course, Management, off_sockets};
use api::ErrorCode;
use broker::HalfEmptied;
use meta::{Command, MetaError, Name, Pattern, State};
use stdx::Now;

impl Management {
    /// Applies commands in order. The deletion of a virtual host goes in slices, and ends with the course.
    ///
    /// # Errors
    /// Why a command is refused, or how far it came.
    pub async fn apply(&self, commands: Vec<Command>, course: &Course) -> Result<(), ApiError> {
        commands.iter().try_for_each(check_patterns)?;
        for command in commands {
            if let Command::DeleteVhost { vhost } = &command {
                let emptied = self.broker.changes().empty_vhost(vhost, &|| course.end()).await;
                emptied.map_err(|half| half_emptied(vhost, half))?;
            }
            let is_policy = is_policy(&command);
            let applied = self.broker.apply_definition(command).await;
            applied.map_err(|error| refused(is_policy, error))?;
        }
        Ok(())
    }
}

/// The definitions as they would be after commands.
///
/// # Errors
/// Why a command would be refused.
pub fn foretell(now: &State, commands: &[Command]) -> Result<State, ApiError> {
    commands.iter().try_for_each(check_patterns)?;
    let mut then = now.clone();
    for command in commands {
        let applied = then.apply(Now::default(), command);
        applied.map_err(|error| refused(is_policy(command), error))?;
    }
    Ok(then)
}

const fn is_policy(command: &Command) -> bool {
    matches!(command, Command::SetPolicy { .. })
}

/// Words an error of the state machine as RabbitMQ does for a policy, and for others.
fn refused(is_policy: bool, error: MetaError) -> ApiError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "others are worded as for any change")]
    match error {
        MetaError::InvalidPattern { reason, .. } if is_policy => ApiError::not_valid(&format!(
            "pattern should be regular expression but is invalid: {{\"{reason}\",0}}"
        )),
        MetaError::Invalid(reason) if is_policy => ApiError::not_valid(&reason),
        error => error.into(),
    }
}

/// The error of a virtual host that was emptied in part; logged, since its client may have disconnected.
fn half_emptied(vhost: &Name, HalfEmptied { n_deleted, n_left, why }: HalfEmptied) -> ApiError {
    let text = format!(
        "deleted {n_deleted} exchanges and queues of virtual host '{vhost}', {n_left} remain: {why}"
    );
    tracing::warn!("{text}");
    ApiError::new(ErrorCode::Ended, text)
}

/// Refuses regular expressions beyond the budget for those set now. Stored expressions, and those of
/// documents that were imported, have another budget.
fn check_patterns(command: &Command) -> Result<(), ApiError> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others set no expressions")]
    let patterns: &[&str] = match command {
        Command::SetPermissions { configure, write, read, .. } => &[configure, write, read],
        Command::SetTopicPermissions { write, read, .. } => &[write, read],
        Command::SetPolicy { policy, .. } => &[&policy.pattern],
        _ => &[],
    };
    let within_budget = |text: &&str| Pattern::within_budget(text).map(drop);
    off_sockets(|| patterns.iter().try_for_each(within_budget))
        .map_err(|error| refused(is_policy(command), error))
}
