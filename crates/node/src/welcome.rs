//! The welcome of a node with a new data directory: how to connect to it, and how to manage it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::config::{Config, FirstStart};

/// The lines below the one that says the node is ready. Without a listener only the tool is named.
pub(crate) fn lines(config: &Config, address: Option<SocketAddr>, data_dir: &Path) -> String {
    let first = &config.definitions.first_start;
    let connect = match (address, &config.definitions.imported) {
        (None, _) => String::new(),
        (Some(address), Some(_)) => {
            format!("  clients:  amqp://USER:PASSWORD@{}, as its definitions say\n", near(address))
        }
        (Some(address), None) => {
            let local = config.access.loopback_users.contains(&first.user);
            let from = if local { "  (from this machine only)" } else { "" };
            format!("  clients:  amqp://{}@{}{}{from}\n", login(first), near(address), vhost(first))
        }
    };
    format!(
        "This data directory is new.\n{connect}  \
         manage:   leveret ctl --data-dir {data} status\n  \
         check:    leveret doctor --data-dir {data}\n",
        data = data_dir.display()
    )
}

/// The password is told only if everybody knows it anyway.
fn login(first: &FirstStart) -> String {
    let known = first.pass == Config::standard().definitions.first_start.pass;
    format!("{}:{}", first.user, if known { first.pass.as_str() } else { "PASSWORD" })
}

/// The virtual host `/` is what a URI without one means; with a slash at its end some clients ask for one
/// without a name.
fn vhost(first: &FirstStart) -> String {
    if first.vhost == "/" { String::new() } else { format!("/{}", first.vhost.replace('/', "%2F")) }
}

/// As a client on this machine writes it.
fn near(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_line(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::standard();
        change(&mut config);
        let text = lines(&config, Some("[::]:5672".parse().unwrap()), Path::new("/d"));
        text.lines().nth(1).unwrap().trim().to_owned()
    }

    #[test]
    fn clients_are_told_where_and_as_whom() {
        assert_eq!(
            first_line(|_| ()),
            "clients:  amqp://guest:guest@127.0.0.1:5672  (from this machine only)"
        );
        let other = first_line(|config| {
            config.definitions.first_start.user = "app".to_owned();
            config.definitions.first_start.pass = "secret".to_owned();
            config.definitions.first_start.vhost = "a/b".to_owned();
        });
        assert_eq!(other, "clients:  amqp://app:PASSWORD@127.0.0.1:5672/a%2Fb");
        assert!(
            lines(&Config::standard(), None, Path::new("/d"))
                .starts_with("This data directory is new.\n  manage:")
        );
    }
}
