//! The log of what operators change: who, what, and which object. Never a password or any other value.

use crate::request::Request;
use std::fmt;
use std::net::IpAddr;
use stdx::words;

/// Fields that say which object a change is about, in the order in which they are told. Passwords,
/// definitions and values of parameters, which may hold secrets, are not among them.
const OBJECT_FIELDS: &str = "\
    vhost, user, name, stream, reference, node, vhost_pattern, queue_pattern, exchange, \
    component, action, pattern, expected, apply_to, priority, pid, id, level, bytes, of_memory, \
    global, tags";

/// The operator who makes a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// A process of this machine, by the control socket: its user's number and its own, as far as known.
    Local(Option<u32>, Option<i32>),
    /// A user, by HTTP, from an address.
    User(String, IpAddr),
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uid, pid) = match self {
            Self::User(name, peer) => return write!(f, "user {name:?} from {peer}"),
            Self::Local(None, _) => return f.write_str("an unknown user"),
            Self::Local(Some(uid), pid) => (*uid, pid),
        };
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        write!(f, "user {} (uid {uid}", name_of(uid, &users).unwrap_or("without a name"))?;
        match pid {
            Some(pid) => write!(f, ", pid {pid})"),
            None => f.write_str(")"),
        }
    }
}

/// The name of a user in the system's list of them.
fn name_of(uid: u32, users: &str) -> Option<&str> {
    let uid = uid.to_string();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(uid.as_str())).then_some(name)
    })
}

/// Writes the line of a change that was made.
pub(crate) fn note(operator: &Operator, what: &str, request: &Request) {
    tracing::info!("management: {operator}: {what}{}", object(request));
}

/// The object of a change: ` vhost="/" name="orders"`.
fn object(request: &Request) -> String {
    let field = |name: &str| Some(format!(" {name}={}", request.value(name)?));
    words(OBJECT_FIELDS).filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named() {
        let users = "root:x:0:0:root:/root:/bin/sh\nrabbitmq:x:999:999::/var/lib:/bin/false\n";
        assert_eq!(name_of(0, users), Some("root"));
        assert_eq!(name_of(999, users), Some("rabbitmq"));
        assert_eq!(name_of(9, users), None);
        assert_eq!(Operator::Local(None, None).to_string(), "an unknown user");
    }

    #[test]
    fn objects_are_told_without_secrets_and_on_one_line() {
        let request = serde_json::json!({
            "user": "bob\n", "password": "geheim", "definition": "{}", "value": "amqp://u:p@h",
            "tags": ["a"], "vhost": "/",
        });
        let request = Request::of(request.as_object().unwrap().clone());
        assert_eq!(object(&request), " vhost=\"/\" user=\"bob\\n\" tags=[\"a\"]");
    }
}
