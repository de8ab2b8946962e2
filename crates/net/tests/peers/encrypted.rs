//! Nodes that speak TLS with each other.

use crate::lines;
use crate::node::{PeerNode, introduce};
use std::sync::Arc;
use tls::{Context, Names, Options, Verify, generate};

/// Certificates of an authority that is made for them, and for this host.
fn certificates(host: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let names = Names { hosts: vec![host.to_owned()], user: "app".to_owned() };
    for (name, text) in generate(&names).unwrap() {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// A node that shows a certificate of one authority and trusts another one.
fn node(
    number: u16,
    name: &str,
    shown: &tempfile::TempDir,
    trusted: &tempfile::TempDir,
) -> PeerNode {
    let [certificate, key] = ["server_certificate.pem", "server_key.pem"];
    let options = Options {
        identity: Some((shown.path().join(certificate), shown.path().join(key))),
        cacertfile: Some(trusted.path().join("ca_certificate.pem")),
        verify: Verify::Always,
        ..Options::new("cluster.tls")
    };
    let context = Arc::new(Context::new(options).unwrap());
    PeerNode::new(number, name, |_, transport| transport.tls = Some(context))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_certificates_connect() {
    let certificates = certificates("localhost");
    let [mut one, mut two] =
        [1, 2].map(|n| node(n, &format!("rabbit{n}@localhost"), &certificates, &certificates));
    introduce(&one, &two);
    one.start();
    two.start();
    one.host.wait_for_links(2, 1).await;
    two.host.wait_until_alive(1).await;
    one.ask(2, 1, 3 << 20);
    two.host.wait_for_inputs(1).await;
    two.stop().await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_unknown_authorities_are_refused_by_either_side() {
    lines::keep();
    let (ours, theirs) = (certificates("localhost"), certificates("localhost"));
    for (n_refused, trusted) in [(1, &theirs), (2, &ours)] {
        let mut one = node(1, "rabbit1@localhost", &ours, trusted);
        let mut two = node(2, "rabbit2@localhost", &theirs, trusted);
        introduce(&one, &two);
        one.start();
        two.start();
        // Who is refused may only see that the other side has closed the socket.
        let port = two.address.port().to_string();
        lines::wait_for(1, &["cannot connect to node 2", &port]).await;
        lines::wait_for(n_refused, &["WARN no connection with the node at", "TLS handshake"]).await;
        assert_eq!(stdx::lock(&one.host.events).as_slice(), []);
        assert_eq!(stdx::lock(&two.host.events).as_slice(), []);
        one.stop().await;
        two.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_host_is_refused_with_one_text_on_both_sides() {
    lines::keep();
    let certificates = certificates("localhost");
    let mut one = node(1, "rabbit1@elsewhere", &certificates, &certificates);
    let mut two = node(2, "rabbit2@localhost", &certificates, &certificates);
    introduce(&one, &two);
    one.start();
    two.start();
    let text = "the certificate that rabbit1@elsewhere shows is not for the host elsewhere";
    lines::wait_for(1, &["cannot connect to node 2", text]).await;
    lines::wait_for(1, &["no connection with the node at", text]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_tls_is_not_let_in() {
    lines::keep();
    let certificates = certificates("localhost");
    let mut one = PeerNode::new(1, "rabbit@plain1", |_, _| {});
    let mut two = node(2, "rabbit2@localhost", &certificates, &certificates);
    introduce(&one, &two);
    one.start();
    two.start();
    lines::wait_for(1, &["cannot connect to node 2", &two.address.port().to_string()]).await;
    assert_eq!(stdx::lock(&two.host.events).as_slice(), []);
}
