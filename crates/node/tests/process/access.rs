//! Logins and permissions.

use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{
    BasicConsume, ChannelOpen, ConnectionSecureOk, ConnectionStartOk, ExchangeDeclare, QueueDeclare,
};
use amqp091::{Method, ShortString, Table, TableRef};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};
use testing::client::{Client, HEADER, Login};
#[test]
fn a_wrong_password_is_reported_with_the_capability() {
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

/// Users keep the hashes they have, wherever their definitions go.
#[test]
fn passwords_are_hashed_as_configured() {
    let log_in = |node: &Node, user| {
        let login = Login { user, password: "secret", ..Login::default() };
        node.ctl(&["set_permissions", user, ".*", ".*", ".*"]);
        node.ctl(&["authenticate_user", user, "secret"]);
        Client::login(node.address(), login).close();
    };
    let node = Node::start(&["password_hashing_module=rabbit_password_hashing_sha512"]);
    node.ctl(&["add_user", "ann", "secret"]);
    log_in(&node, "ann");
    let file = node.data_dir().join("definitions.json").display().to_string();
    node.ctl(&["export_definitions", &file]);
    let exported = std::fs::read_to_string(&file).unwrap();
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "password hashes are for their owner: {mode:o}");
    // Guest too: it was made by the same configuration.
    assert_eq!(exported.matches("rabbit_password_hashing_sha512").count(), 2, "{exported}");

    let other = Node::start(&["password_hashing_module=rabbit_password_hashing_md5"]);
    other.ctl(&["import_definitions", &file]);
    log_in(&other, "ann");
    let hash = other.ctl(&["-q", "hash_password", "secret", "--hashing-algorithm", "md5"]);
    other.ctl(&["add_user", "bob", hash.trim(), "--pre-hashed-password"]);
    log_in(&other, "bob");
    Client::guest(other.address()).close();
    node.stop();
    other.stop();
}

#[test]
fn a_login_may_send_its_password_in_a_second_step() {
    let node = Node::start(&["auth_mechanisms.1=RABBIT-CR-DEMO", "auth_mechanisms.2=AMQPLAIN"]);
    let introduce = |mechanism: &[u8], response: &[u8]| {
        let mut client = Client::raw(node.address());
        client.write(HEADER);
        let start = client.next();
        let Method::ConnectionStart(offered) = start.method() else { panic!("{}", start.show()) };
        assert_eq!(offered.mechanisms, b"RABBIT-CR-DEMO AMQPLAIN");
        let start_ok = ConnectionStartOk { mechanism, response, ..ConnectionStartOk::default() };
        client.say(0, start_ok);
        client
    };
    for (password, answer) in [("guest", Some("connection.tune")), ("tseug", None)] {
        let mut client = introduce(b"RABBIT-CR-DEMO", b"guest");
        let challenge = client.next();
        let Method::ConnectionSecure(secure) = challenge.method() else { panic!() };
        assert_eq!(secure.challenge, b"Please tell me your password");
        let response = format!("My password is {password}");
        client.say(0, ConnectionSecureOk { response: response.as_bytes() });
        assert_eq!(client.try_next().ok().map(|frame| frame.show()).as_deref(), answer);
    }
    node.expect_logged(1, "RABBIT-CR-DEMO login refused: user 'guest' - invalid credentials");
    let mut table = Table::new();
    table.push(ShortString::from_static("LOGIN"), "guest");
    table.push(ShortString::from_static("PASSWORD"), "guest");
    let mut client = introduce(b"AMQPLAIN", &table.to_bytes());
    assert_eq!(client.next().show(), "connection.tune");
    let refused = introduce(b"PLAIN", b"\0guest\0guest").next().show();
    let invalid = "connection.close 503 COMMAND_INVALID - invalid authentication mechanism 'PLAIN'";
    assert_eq!(refused, invalid);
    node.stop();
}

#[test]
fn malformed_and_foreign_plain_responses_are_held_in_silence() {
    let node = Node::start(&[]);
    for response in [&b"\0guest"[..], b"guest\0guest", b"other\0guest\0guest", b"\0guest\0gu\0est"]
    {
        let mut client = Client::raw(node.address());
        client.write(HEADER);
        client.next();
        let started = Instant::now();
        let start_ok = ConnectionStartOk {
            mechanism: b"PLAIN",
            response,
            client_properties: TableRef::parse(CAPABLE).unwrap(),
            ..ConnectionStartOk::default()
        };
        client.say(0, start_ok);
        assert!(client.try_next().is_err(), "{response:?}");
        assert!(started.elapsed() >= Duration::from_millis(2_900), "{:?}", started.elapsed());
    }
    node.expect_logged(4, "PLAIN login refused: malformed response");
    node.stop();
}

/// The capability of a client that wants to be told why it is refused.
const CAPABLE: &[u8] = b"\x0ccapabilitiesF\0\0\0\x1f\x1cauthentication_failure_closet\x01";

#[test]
fn opening_a_missing_virtual_host_is_not_allowed() {
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
fn behind_a_proxy_clients_are_who_its_header_says() {
    let node = Node::start(&["proxy_protocol=true", "log.file.level=debug"]);
    let before = b"PROXY TCP4 127.0.0.77 192.0.2.1 40000 5672\r\n";
    let client = Client::login(node.address(), Login { before, ..Login::default() });
    let listed =
        node.ctl(&["-q", "list_connections", "name", "peer_host", "peer_port", "host", "port"]);
    let name = "127.0.0.77:40000 -> 192.0.2.1:5672";
    assert!(listed.contains(&format!("{name}\t127.0.0.77\t40000\t192.0.2.1\t5672\n")), "{listed}");
    node.expect_logged(1, "user 'guest' authenticated and granted access to vhost '/'");
    wait_until("its name in the log", || node.log().contains(name));

    // Version 2, of a client at 203.0.113.9:1.
    let before = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x09\xc0\0\x02\x01\0\x01\x16\x28";
    let login = Login { before, ..Login::default() };
    let answer = Client::introduced(node.address(), login).next().show();
    assert!(answer.starts_with("connection.close 403 ACCESS_REFUSED - Login was"), "{answer}");
    node.expect_logged(1, "user 'guest' can only connect via localhost");
    wait_until("its name, too", || node.log().contains("203.0.113.9:1 -> 192.0.2.1:5672"));

    let mut direct = Client::raw(node.address());
    direct.write(HEADER);
    assert_eq!(direct.rest(), b"");
    node.expect_logged(1, "no PROXY protocol header: it does not begin like one");
    client.close();
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

/// Looking something up needs some permission for it, whichever.
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

/// Before anything is agreed on frames may have 8192 bytes, so that logins longer than
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

/// Limits of users, virtual hosts and the node, with RabbitMQ's words.
#[test]
fn limits_are_kept() {
    let node = Node::start(&["consumer_max_per_channel=1", "cluster_queue_limit=3"]);
    let mut first = Client::guest(node.address());
    let not_allowed = "connection.close 530 NOT_ALLOWED -";
    let refused = |node: &Node| Client::asking(node.address(), Login::default()).next().show();
    node.ctl(&["set_user_limits", "guest", r#"{"max-connections":1,"max-channels":1}"#]);
    assert_eq!(
        refused(&node),
        format!(
            "{not_allowed} connection refused for user 'guest': user connection limit (1) is reached"
        )
    );
    let open = ChannelOpen::default();
    assert_eq!(
        first.ask(2, open),
        format!(
            "{not_allowed} number of channels opened for user 'guest' has reached the maximum \
             allowed user limit of 1"
        )
    );
    node.ctl(&["clear_user_limits", "guest", "all"]);
    let mut second = Client::guest(node.address());
    node.ctl(&["set_vhost_limits", r#"{"max-connections":1,"max-queues":2}"#]);
    assert_eq!(
        refused(&node),
        format!(
            "{not_allowed} access to vhost '/' refused for user 'guest': connection limit (1) is reached"
        )
    );
    second.declare("a");
    second.declare("b");
    let declare = QueueDeclare { queue: b"c", ..QueueDeclare::default() };
    let failed = "channel.close 406 PRECONDITION_FAILED - cannot declare queue 'c':";
    assert_eq!(second.ask(1, declare), format!("{failed} queue limit in vhost '/' (2) is reached"));
    node.ctl(&["set_vhost_limits", "{}"]);
    let mut third = Client::guest(node.address());
    third.declare("c");
    let declare = QueueDeclare { queue: b"d", ..QueueDeclare::default() };
    assert_eq!(
        third.ask(1, declare),
        "channel.close 406 PRECONDITION_FAILED - cannot declare queue 'd': queue limit in cluster \
         (3) is reached"
    );
    let mut fourth = Client::guest(node.address());
    // What exists may be declared again.
    fourth.declare("c");
    fourth.consume("c", true);
    let consume = BasicConsume { queue: b"c", ..BasicConsume::default() };
    assert_eq!(
        fourth.ask(1, consume),
        format!("{not_allowed} reached maximum (1) of consumers per channel")
    );
    node.stop();
}

#[test]
fn deprecated_features_can_be_forbidden() {
    let node = Node::start(&["deprecated_features.permit.transient_nonexcl_queues=false"]);
    let mut client = Client::guest(node.address());
    client.declare("lasting");
    let exclusive = QueueDeclare { queue: b"mine", exclusive: true, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, exclusive), "queue.declare-ok");
    let transient = QueueDeclare { queue: b"t", ..QueueDeclare::default() };
    let answer = client.ask(1, transient);
    assert!(
        answer.starts_with(
            "connection.close 541 INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated."
        ),
        "{answer}"
    );
    let listed = node.ctl(&["-q", "list_deprecated_features", "name", "state"]);
    assert!(listed.contains("transient_nonexcl_queues\tdenied\n"), "{listed}");
    node.stop();
}

fn ada(node: &Node, vhost: &'static str) -> Client {
    let login = Login { user: "ada", password: "x", vhost, ..Login::default() };
    let mut client = Client::login(node.address(), login);
    client.open_channel(1);
    client
}

/// A pattern is found anywhere in a name, and the empty one fits the empty name only.
/// Routing keys are free unless topic permissions are set at that exchange.
#[test]
fn permissions_are_patterns() {
    let node = Node::start(&[]);
    node.ctl(&["add_user", "ada", "x"]);
    node.ctl(&["set_permissions", "ada", "b", ".*", ".*"]);
    let mut client = ada(&node, "/");
    client.declare("abc");
    let declare = QueueDeclare { queue: b"x", durable: true, ..QueueDeclare::default() };
    let refused = "channel.close 403 ACCESS_REFUSED - configure access to queue 'x' in vhost '/' \
                   refused for user 'ada'";
    assert_eq!(client.ask(1, declare), refused);
    node.ctl(&["set_permissions", "ada", "", ".*", ".*"]);
    let mut client = ada(&node, "/");
    assert_eq!(client.ask(1, declare), refused);
    let mut client = ada(&node, "/");
    client.select_confirms();
    client.put_content("amq.topic", "b.x", 1, b"free");
    client.flush();
    client.wait_for_confirms();
    node.ctl(&["set_topic_permissions", "ada", "amq.topic", "^a\\.", ".*"]);
    client.put_content("amq.topic", "a.x", 1, b"allowed");
    client.flush();
    client.wait_for_confirms();
    client.put_content("amq.topic", "b.x", 1, b"refused");
    client.flush();
    assert_eq!(
        client.next().show(),
        "channel.close 403 ACCESS_REFUSED - write access to topic 'b.x' in exchange 'amq.topic' in \
         vhost '/' refused for user 'ada'"
    );
    node.stop();
}

#[test]
fn deleting_a_virtual_host_closes_its_connections() {
    let node = Node::start(&[]);
    node.ctl(&["add_vhost", "den"]);
    node.ctl(&["add_user", "ada", "x"]);
    node.ctl(&["set_permissions", "-p", "den", "ada", ".*", ".*", ".*"]);
    let mut client = ada(&node, "den");
    client.declare("q");
    node.ctl(&["delete_vhost", "den"]);
    let told = client.next().show();
    assert_eq!(told, "connection.close 320 CONNECTION_FORCED - vhost 'den' is deleted");
    node.stop();
}
