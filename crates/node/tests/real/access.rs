//! Who is let in, and what they may do.

use super::support::client::{Client, Login};
use super::support::node::Node;
use amqp091::method::{ExchangeDeclare, QueueDeclare};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn a_wrong_password_is_told_only_to_clients_that_understand() {
    let node = Node::start(&[]);
    let mut bystander = Client::guest(node.address());
    let started = Instant::now();
    let wrong = |user, password, capable| {
        let login = Login { user, password, capable, ..Login::default() };
        Client::introduced(node.address(), login)
    };
    let mut told = wrong("guest", "tseug", true);
    let mut silent = wrong("guest", "tseug", false);
    let mut nobody = wrong("nobody", "guest", true);
    let mut blank = wrong("guest", "", false);
    let expected = "connection.close 403 ACCESS_REFUSED - Login was refused using authentication \
                    mechanism PLAIN. For details see the broker logfile.";
    assert_eq!(told.next().show(), expected);
    assert_eq!(nobody.next().show(), expected);
    // Nobody else waits.
    bystander.round_trip();
    for client in [&mut told, &mut silent, &mut nobody, &mut blank] {
        assert_eq!(client.rest(), b"");
    }
    assert!(started.elapsed() >= Duration::from_secs(3), "guessing is slow");
    node.expect_logged(2, "user 'guest' - invalid credentials");
    node.expect_logged(1, "user 'nobody' - invalid credentials");
    node.expect_logged(1, "user 'guest' attempted to log in with a blank password");
    node.expect_logged(4, "[warning]");
    bystander.close();
    node.stop();
}

#[test]
fn a_virtual_host_that_is_not_there_is_no_place_to_be() {
    let node = Node::start(&[]);
    let login = Login { vhost: "nope", ..Login::default() };
    let answer = Client::asking(node.address(), login).next().show();
    assert_eq!(answer, "connection.close 530 NOT_ALLOWED - vhost nope not found");
    node.expect_logged(1, "vhost nope not found");
    node.stop();
}

/// An address of this machine that is not a loopback address.
fn outer_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only looks for the way.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

#[test]
fn guest_has_to_come_from_the_same_machine() {
    let Some(outer) = outer_address() else {
        println!("left out: this machine has no other address than the loopback one");
        return;
    };
    let node = Node::start(&["listeners.tcp.1=0.0.0.0:0"]);
    let port = node.address().port();
    Client::guest(([127, 0, 0, 1], port).into()).round_trip();
    let answer = Client::introduced((outer, port).into(), Login::default()).next().show();
    assert!(answer.starts_with("connection.close 403 ACCESS_REFUSED - Login was"), "{answer}");
    node.expect_logged(1, "user 'guest' can only connect via localhost");
    node.stop();
}

#[test]
fn permissions_given_on_the_command_line_hold() {
    let mut node = Node::start(&[]);
    node.ctl(&["add_vhost", "stage"]);
    node.ctl(&["add_user", "ann", "secret"]);
    let login = Login { user: "ann", password: "secret", vhost: "stage", ..Login::default() };
    let answer = Client::asking(node.address(), login).next().show();
    let refused = "access to vhost 'stage' refused for user 'ann'";
    assert_eq!(answer, format!("connection.close 530 NOT_ALLOWED - {refused}"));
    node.expect_logged(1, refused);

    node.ctl(&["set_permissions", "-p", "stage", "ann", "^ann-", "^amq.default$", "^ann-"]);
    node.kill_and_start();
    let mut client = Client::login(node.address(), login);
    client.open_channel(1);
    client.declare("ann-1");
    client.put_publish("ann-1", false, b"hers");
    assert_eq!(client.get("ann-1").unwrap().body, b"hers");
    let declare = QueueDeclare { queue: b"bob-1", ..QueueDeclare::default() };
    let refused = "configure access to queue 'bob-1' in vhost 'stage' refused for user 'ann'";
    let answer = client.ask(1, declare);
    assert_eq!(answer, format!("channel.close 403 ACCESS_REFUSED - {refused}"));
    node.expect_logged(1, refused);
    node.stop();
}

#[test]
fn nobody_in_particular_is_guest_while_guest_is_as_it_came() {
    let node = Node::start(&[]);
    let anonymous = Login { mechanism: "ANONYMOUS", user: "", password: "", ..Login::default() };
    let mut client = Client::login(node.address(), anonymous);
    client.open_channel(1);
    assert_eq!(client.declare("q"), 0);
    node.ctl(&["change_password", "guest", "other"]);
    let answer = Client::introduced(node.address(), anonymous).next().show();
    assert!(
        answer.starts_with("connection.close 403 ACCESS_REFUSED - Login was refused"),
        "{answer}"
    );
    node.expect_logged(1, "ANONYMOUS login refused");
    node.stop();
}

/// Semantics 30: looking something up needs some permission for it, whichever.
#[test]
fn a_passive_declaration_needs_any_permission() {
    let node = Node::start(&[]);
    node.ctl(&["add_user", "ann", "secret"]);
    node.ctl(&["set_permissions", "ann", "^configured$", "^written$", "^read$"]);
    let login = Login { user: "ann", password: "secret", ..Login::default() };
    let mut client = Client::login(node.address(), login);
    for (channel, name) in (1..).zip(["configured", "written", "read", "other"]) {
        let declare =
            QueueDeclare { passive: true, queue: name.as_bytes(), ..QueueDeclare::default() };
        client.open_channel(channel);
        let expected = match name {
            "other" => "channel.close 403 ACCESS_REFUSED - configure access to queue 'other' in vhost '/' refused for user 'ann'".to_owned(),
            _ => format!("channel.close 404 NOT_FOUND - no queue '{name}' in vhost '/'"),
        };
        assert_eq!(client.ask(channel, declare), expected);
    }
    let declare =
        ExchangeDeclare { passive: true, exchange: b"other", ..ExchangeDeclare::default() };
    client.open_channel(9);
    let refused = "configure access to exchange 'other' in vhost '/' refused for user 'ann'";
    let answer = client.ask(9, declare);
    assert_eq!(answer, format!("channel.close 403 ACCESS_REFUSED - {refused}"));
    node.stop();
}

/// Semantics 7: before anything is agreed on frames may have 8192 bytes, so that logins longer than
/// the protocol's own 4096 have their place.
#[test]
fn a_login_may_be_as_long_as_the_first_frames() {
    let node = Node::start(&[]);
    let password = "p".repeat(6000);
    node.ctl(&["add_user", "long", &password]);
    node.ctl(&["set_permissions", "long", ".*", ".*", ".*"]);
    let login = Login { user: "long", password: &password, ..Login::default() };
    Client::login(node.address(), login).close();
    let longer = "p".repeat(8000);
    let wrong = Login { password: &longer, ..login };
    let answer = Client::introduced(node.address(), wrong).next().show();
    assert!(answer.starts_with("connection.close 403 ACCESS_REFUSED - "), "{answer}");
    let too_long = "p".repeat(8200);
    let too_long = Login { password: &too_long, ..login };
    let answer = Client::introduced(node.address(), too_long).next().show();
    assert!(answer.starts_with("connection.close 501 FRAME_ERROR - "), "{answer}");
    node.stop();
}
