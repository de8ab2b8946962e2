//! The first user of a new node.

use meta::{Command, PasswordHash};

/// The virtual host `/`, and the user `guest` who may do anything there.
#[must_use]
pub fn first_user() -> [Command; 3] {
    let password = PasswordHash::new(Default::default(), "guest");
    let all = || ".*".to_owned();
    [
        Command::CreateVhost { vhost: "/".into(), metadata: Default::default() },
        Command::CreateUser { user: "guest".into(), password, tags: Vec::new() },
        Command::SetPermissions {
            user: "guest".into(),
            vhost: "/".into(),
            configure: all(),
            write: all(),
            read: all(),
        },
    ]
}
