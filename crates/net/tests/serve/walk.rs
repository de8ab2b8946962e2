//! The walks of one message and of a declared queue: the tables in ARCHITECTURE.md, held against the marks
//! that each meets.

use crate::site::{Site, confirmed, delivery};
use amqp091::method::{BasicAck, BasicQos};
use std::collections::BTreeSet;
use std::path::Path;
use stdx::walk::{self, WalkStep};
use testing::client::Client;

/// A walk of more steps, or through more files, is too long to be remembered.
const STEPS_MAX: usize = 35;
const FILES_MAX: usize = 20;
/// Where the table is, and the crates its files are in.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A row of the table.
#[derive(Debug)]
struct Row {
    step: String,
    done_by: String,
    /// From the root of the repository.
    files: Vec<String>,
}

impl Row {
    /// A row of a table that has three columns, the first with the step's name in bold.
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        let [step, done_by, files] = cells.try_into().ok()?;
        let step = step.split("**").nth(1)?.to_owned();
        let quoted = files.split('`').skip(1).step_by(2);
        let files = quoted.filter(|name| name.ends_with(".rs"));
        let files = files.map(|name| format!("crates/{name}")).collect();
        Some(Self { step, done_by: done_by.to_owned(), files })
    }

    fn is_by_commit_thread(&self) -> bool {
        self.done_by.starts_with("commit thread")
    }
}

const OF_MESSAGE: &str = "\n## The walk of one message\n";
const OF_QUEUE: &str = "\n## The walk of a declared queue\n";

fn table(title: &str) -> Vec<Row> {
    let page = std::fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let (_, section) = page.split_once(title).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    section.lines().filter_map(Row::parse).collect()
}

/// One persistent message: published, confirmed, consumed and acknowledged.
fn walk_of_one_message() -> Vec<WalkStep> {
    let site = Site::start_alone();
    let mut publisher = Client::guest(site.address);
    publisher.declare("q");
    publisher.select_confirms();
    let mut consumer = Client::guest(site.address);
    consumer.consume("q", false);
    walk::record();
    publisher.put_publish("q", true, b"walks");
    publisher.flush();
    assert_eq!(confirmed(&mut publisher), 1);
    assert_eq!(delivery(&mut consumer), (1, b"walks".to_vec()));
    consumer.say(1, BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(consumer.ask(1, BasicQos::default()), "basic.qos-ok");
    walk::take()
}

/// A durable queue that is declared.
fn walk_of_a_declared_queue() -> Vec<WalkStep> {
    let site = Site::start_alone();
    let mut client = Client::guest(site.address);
    walk::record();
    client.declare("q");
    walk::take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_takes_the_steps_of_the_table_in_their_order() {
    compare(&walk_of_one_message(), OF_MESSAGE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_queue_takes_the_steps_of_the_table_in_their_order() {
    compare(&walk_of_a_declared_queue(), OF_QUEUE);
}

fn compare(walk: &[WalkStep], title: &str) {
    let table = table(title);
    let row_of = |step: &WalkStep| {
        let row = table.iter().find(|row| row.step == step.name);
        row.unwrap_or_else(|| panic!("{step:?} is no step of the table"))
    };
    for step in walk {
        let row = row_of(step);
        assert!(row.files.iter().any(|file| file == step.file), "{step:?} is elsewhere: {row:?}");
    }
    // The commit thread does its part beside the others.
    for by_commit_thread in [false, true] {
        let is_part = |row: &&Row| row.is_by_commit_thread() == by_commit_thread;
        let of_table: Vec<&str> = table.iter().filter(is_part).map(|row| &*row.step).collect();
        let of_walk: Vec<&str> =
            walk.iter().map(row_of).filter(is_part).map(|row| &*row.step).collect();
        assert_eq!(of_walk, of_table);
    }
}

#[test]
fn the_walks_are_short_and_their_files_exist() {
    let limits = [(OF_MESSAGE, STEPS_MAX, FILES_MAX), (OF_QUEUE, 14, 12)];
    for (title, steps_max, files_max) in limits {
        let table = table(title);
        let files: BTreeSet<&String> = table.iter().flat_map(|row| &row.files).collect();
        assert!(table.len() <= steps_max, "{} steps", table.len());
        assert!(files.len() <= files_max, "{} files: {files:#?}", files.len());
        for file in files {
            assert!(Path::new(ROOT).join(file).is_file(), "there is no {file}");
        }
    }
}
