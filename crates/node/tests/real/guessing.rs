//! Strangers who try passwords, and who fill the log.

use super::support::client::{Client, Login};
use super::support::node::Node;
use super::support::wait_until;

#[test]
fn what_strangers_say_does_not_fill_the_log() {
    const N_STRANGERS: usize = 500;
    let node = Node::start(&[]);
    let name = "\u{1}".repeat(7_000);
    let login = Login { user: &name, ..Login::default() };
    assert!(Client::introduced(node.address(), login).next().show().contains("ACCESS_REFUSED"));
    node.expect_logged(1, "refused: PLAIN login refused: user '");
    for _ in 1..N_STRANGERS {
        let mut client = Client::raw(node.address());
        client.write(b"GET / HTTP/1.1\r\n");
        client.rest();
    }
    wait_until("the lines are summed up", || node.log().contains(" more refused connections"));
    let n_lines = node.log().lines().filter(|line| line.contains(" refused: ")).count();
    let more =
        format!("[warning] ... {} more refused connections of 127.0.0.1 in 10 s", 500 - n_lines);
    node.expect_logged(1, &more);
    let longest = node.log().lines().map(str::len).max().unwrap();
    eprintln!("{n_lines} lines for {N_STRANGERS} strangers, the longest has {longest} bytes");
    assert!(n_lines <= 60 && longest < 4096 + 200, "{n_lines} lines, the longest of {longest}");
    node.stop();
}
