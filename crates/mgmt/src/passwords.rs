//! The rule for new passwords (<https://www.rabbitmq.com/docs/passwords>).

use crate::api_error::{ApiError, Kind};
use crate::request::Request;
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
    fn check(&self, password: &str) -> Result<(), ApiError> {
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
        Err(ApiError::new(Kind::Invalid, text))
    }

    /// Refuses a request that gives a user a password against the rule. A hash is taken as it is:
    /// nothing can be told from it.
    pub(crate) fn check_request(&self, endpoint: &str, request: &Request) -> Result<(), ApiError> {
        let gives_one = matches!(endpoint, "add_user" | "change_password");
        if !gives_one || request.flag("pre_hashed_password") {
            return Ok(());
        }
        self.check(request.text("password")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_looked_at_before_they_are_given() {
        let told = |rule: &PasswordRule, endpoint: &str, body: &str| {
            let request = Request::parse(body.as_bytes()).unwrap();
            rule.check_request(endpoint, &request).err().map(|api_error| api_error.text)
        };
        let long = PasswordRule::MinLength(4);
        let digits = PasswordRule::Matches(Pattern::new("[0-9]{2}").unwrap());
        let too_short = Some("minimum required password length is 4".to_owned());
        let no_match =
            Some("provided password does not match the validator regular expression".to_owned());
        for endpoint in ["add_user", "change_password"] {
            let short = r#"{"user": "ada", "password": "abc"}"#;
            assert_eq!(told(&long, endpoint, short), too_short);
            assert_eq!(told(&digits, endpoint, short), no_match);
            assert_eq!(told(&PasswordRule::Anything, endpoint, short), None);
            let good = r#"{"user": "ada", "password": "ab12"}"#;
            assert_eq!(told(&long, endpoint, good), None);
            assert_eq!(told(&digits, endpoint, good), None);
        }
        let hash = r#"{"user": "ada", "password": "x", "pre_hashed_password": true}"#;
        assert_eq!(told(&long, "add_user", hash), None);
        assert_eq!(told(&long, "delete_user", "{}"), None);
    }
}
