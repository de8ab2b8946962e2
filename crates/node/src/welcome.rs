//! The welcome of a node with a new data directory: how to connect to it, and how to manage it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::config::{Config, FirstStart};
use mgmt::ListenerInfo;

/// The lines below the one that says the node is ready. Without listeners only the tool is named. `ui` is the
/// scheme and the address of the web UI.
pub(crate) fn lines(
    config: &Config,
    address: Option<SocketAddr>,
    ui: Option<&ListenerInfo>,
    data_dir: &Path,
) -> String {
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
    let url = ui.map(|ui| {
        let (scheme, prefix) = (ui.protocol, &config.http.settings.look.prefix);
        format!("{scheme}://{}{prefix}/", near(ui.address))
    });
    let web = url.map(|url| format!("  web UI:   {url}\n  open it:  xdg-open {url}\n"));
    let web = web.unwrap_or_default();
    format!(
        "This data directory is new.\n{connect}{web}  \
         manage:   leveret ctl --data-dir {data} status\n  \
         check:    leveret doctor --data-dir {data}\n",
        data = data_dir.display()
    )
}

/// User and password in the example URI; a password other than the default is not shown.
fn login(first: &FirstStart) -> String {
    let known = first.pass == Config::standard().definitions.first_start.pass;
    format!("{}:{}", first.user, if known { first.pass.as_str() } else { "PASSWORD" })
}

/// The virtual host `/` is what a URI without one means; with a slash at its end some clients ask for one
/// without a name.
fn vhost(first: &FirstStart) -> String {
    if first.vhost == "/" { String::new() } else { format!("/{}", first.vhost.replace('/', "%2F")) }
}

/// The address for clients on this machine: an unspecified address becomes 127.0.0.1.
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
        let text = lines(&config, Some("[::]:5672".parse().unwrap()), None, Path::new("/d"));
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
            lines(&Config::standard(), None, None, Path::new("/d"))
                .starts_with("This data directory is new.\n  manage:")
        );
    }
    #[test]
    fn names_the_web_ui_and_the_command_that_opens_it() {
        let address = "0.0.0.0:15671".parse().unwrap();
        let ui = ListenerInfo { protocol: "https", purpose: String::new(), address };
        let text = lines(&Config::standard(), None, Some(&ui), Path::new("/d"));
        let lines: Vec<&str> = text.lines().skip(1).take(2).collect();
        let url = "https://127.0.0.1:15671/";
        assert_eq!(lines, [format!("  web UI:   {url}"), format!("  open it:  xdg-open {url}")]);
    }
}
