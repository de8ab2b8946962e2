//! The rule for new passwords (<https://www.rabbitmq.com/docs/passwords>).

use crate::api_error::ApiError;
use api::ErrorCode;
use meta::Pattern;

/// The rule for a password that an operator gives a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PasswordRule {
    /// A password may be anything.
    #[default]
    Anything,
    /// A password has so many bytes or more.
    MinLength(usize),
    /// A pattern is found in a password.
    Matches(Pattern),
}

impl PasswordRule {
    /// Checks a new password.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self, password: &str) -> Result<(), ApiError> {
        // COMPAT: RabbitMQ's texts.
        let text = match self {
            Self::MinLength(least) if password.len() < *least => {
                format!("minimum required password length is {least}")
            }
            Self::Matches(pattern) if !pattern.matches(password.as_bytes()) => {
                "provided password does not match the validator regular expression".to_owned()
            }
            Self::Anything | Self::MinLength(_) | Self::Matches(_) => return Ok(()),
        };
        Err(ApiError::new(ErrorCode::Invalid, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_looked_at_before_they_are_given() {
        let told = |rule: &PasswordRule, password: &str| {
            rule.check(password).err().map(|api_error| api_error.text)
        };
        let long = PasswordRule::MinLength(4);
        let digits = PasswordRule::Matches(Pattern::new("[0-9]{2}").unwrap());
        let too_short = Some("minimum required password length is 4".to_owned());
        let no_match =
            Some("provided password does not match the validator regular expression".to_owned());
        assert_eq!(told(&long, "abc"), too_short);
        assert_eq!(told(&digits, "abc"), no_match);
        assert_eq!(told(&PasswordRule::Anything, "abc"), None);
        assert_eq!(told(&long, "ab12"), None);
        assert_eq!(told(&digits, "ab12"), None);
    }
}
