//! Strangers who try passwords, and who fill the log.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::stopwatch::Stopwatch;
use super::support::wait_until;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use testing::client::{Client, Login};

/// Answers to wrong passwords for `user` from `from`, with as many connections at a time as given, until
/// the time is up.
fn guess(address: SocketAddr, from: Ipv4Addr, user: &'static str, until: Instant) -> usize {
    const AT_A_TIME: usize = 4;
    let guess_on = move || {
        let login = Login { from: Some(from), user, password: "wrong", ..Login::default() };
        let mut n_answers = 0;
        while Instant::now() < until {
            let answer = Client::introduced(address, login).next().show();
            let expected = "connection.close 403 ACCESS_REFUSED - Login was refused using \
                            authentication mechanism PLAIN. For details see the broker logfile.";
            assert_eq!(answer, expected);
            n_answers += 1;
        }
        n_answers
    };
    let guessing = [(); AT_A_TIME].map(|()| std::thread::spawn(guess_on));
    guessing.into_iter().map(|thread| thread.join().unwrap()).sum()
}

#[test]
fn guessing_passwords_is_slow_and_keeps_nobody_else_out() {
    const ATTACK: Duration = Duration::from_secs(6);
    let here = Ipv4Addr::LOCALHOST;
    let [attacker, elsewhere] = [2, 3].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let node = Node::start(&[]);
    node.ctl(&["add_user", "ann", "secret"]);
    node.ctl(&["set_permissions", "ann", ".*", ".*", ".*"]);
    let ann = Login { user: "ann", password: "secret", ..Login::default() };
    let (address, watch) = (node.address(), Stopwatch::of(&node));
    // A user who is known at the address of one attack, while another user is guessed there.
    let bystander = Bystander::watch(&node);
    let until = Instant::now() + ATTACK;
    let attacks = [(here, "ann"), (attacker, "guest")]
        .map(|(from, user)| std::thread::spawn(move || guess(address, from, user, until)));
    let (mut worst, mut n_logins) = (Duration::ZERO, 0);
    while Instant::now() < until {
        watch.longest(&mut worst, || {
            Client::login(address, Login { from: Some(elsewhere), ..ann }).close();
            Client::login(address, Login { from: Some(elsewhere), ..Login::default() }).close();
        });
        n_logins += 2;
    }
    let n_answers = attacks.map(|attack| attack.join().unwrap());
    eprintln!(
        "{n_answers:?} guesses in {ATTACK:?}; the worst of {n_logins} logins elsewhere {worst:?}"
    );
    assert!(n_answers.iter().all(|&n| n < 40), "{n_answers:?} guesses are answered");
    assert!(worst < Duration::from_secs(2), "{worst:?}");
    bystander.expect_no_wait("two users' passwords being guessed");
    // Whoever knows the password waits for a turn, once.
    for at_most in [5, 1] {
        let took = watch.time(|| Client::login(address, Login { from: Some(here), ..ann }).close());
        assert!(took < Duration::from_secs(at_most), "{took:?}");
    }
    node.stop();
}

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
    // Each ten seconds have their lines and their sum, however many of them this takes.
    let lines_and_sums = || {
        let log = node.log();
        let n_lines = log.lines().filter(|line| line.contains(" refused: ")).count();
        let sums = log.lines().filter_map(|line| {
            let (_, sum) = line.split_once("[warning] ... ")?;
            sum.split_once(" more refused connections of 127.0.0.1 in 1")?.0.parse().ok()
        });
        (n_lines, sums.collect::<Vec<usize>>())
    };
    wait_until("the lines are summed up", || {
        let (n_lines, sums) = lines_and_sums();
        n_lines + sums.iter().sum::<usize>() == N_STRANGERS
    });
    let (n_lines, sums) = lines_and_sums();
    let longest = node.log().lines().map(str::len).max().unwrap();
    eprintln!("{n_lines} lines for {N_STRANGERS} strangers, the longest has {longest} bytes");
    assert!(!sums.is_empty() && n_lines <= 60 * (sums.len() + 1), "{n_lines} lines, {sums:?}");
    assert!(longest < 4096 + 200, "the longest line has {longest} bytes");
    node.stop();
}
