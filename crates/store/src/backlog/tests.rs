//! The backlog against a naive model: a random scheduler plays the host, its disk and its log.

mod host;
mod images;
mod shared;

use super::slot::Slot;
use host::Host;
use proptest::prelude::*;

/// Reports of jobs in any legal order, crashes at any time.
#[derive(Clone, Debug)]
enum PageStep {
    Push {
        n: usize,
        len: usize,
        like_last: bool,
        logged: bool,
        body: BodyKind,
    },
    /// Consumers take ready messages as long as they are in memory.
    Take(usize),
    SettleOldest(usize),
    Settle(usize),
    Requeue(usize),
    /// Dropped while ready, wherever it is.
    Drop(usize),
    Purge,
    PurgeRange(u64, u64),
    NextJob,
    Complete(usize),
    FailLoad(usize),
    Relocate,
    NextSegment,
    Sync,
    Trim,
    Allow(usize),
    Crash(usize),
    Clear,
    /// The messages leave the log ...
    Unlog,
    /// ... and come back, page by page.
    LogNext,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    Inline,
    Shared,
    Stored,
    /// Shared, with the properties in front of it.
    SharedApart,
    /// Stored, likewise.
    StoredApart,
}

impl BodyKind {
    const fn is_apart(self) -> bool {
        matches!(self, Self::SharedApart | Self::StoredApart)
    }
}

fn step() -> impl Strategy<Value = PageStep> {
    let body = prop_oneof![
        4 => Just(BodyKind::Inline),
        1 => Just(BodyKind::Shared),
        1 => Just(BodyKind::Stored),
        1 => Just(BodyKind::SharedApart),
        1 => Just(BodyKind::StoredApart),
    ];
    let push = (1..40_usize, 0..900_usize, any::<bool>(), any::<bool>(), body);
    prop_oneof![
        12 => push.prop_map(|(n, len, like_last, logged, body)| {
            PageStep::Push { n, len, like_last, logged, body }
        }),
        6 => (1..30_usize).prop_map(PageStep::Take),
        6 => (1..30_usize).prop_map(PageStep::SettleOldest),
        6 => any::<usize>().prop_map(PageStep::Settle),
        2 => any::<usize>().prop_map(PageStep::Requeue),
        1 => any::<usize>().prop_map(PageStep::Drop),
        1 => Just(PageStep::Purge),
        1 => (0..400_u64, 0..200_u64).prop_map(|(at, n)| PageStep::PurgeRange(at, n)),
        20 => Just(PageStep::NextJob),
        16 => any::<usize>().prop_map(PageStep::Complete),
        1 => any::<usize>().prop_map(PageStep::FailLoad),
        2 => Just(PageStep::Relocate),
        3 => Just(PageStep::NextSegment),
        3 => Just(PageStep::Sync),
        2 => Just(PageStep::Trim),
        1 => prop_oneof![Just(16 << 10), Just(40 << 10), Just(1 << 20)].prop_map(PageStep::Allow),
        1 => any::<usize>().prop_map(PageStep::Crash),
        1 => Just(PageStep::Clear),
        1 => Just(PageStep::Unlog),
        6 => Just(PageStep::LogNext),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn a_backlog_holds_what_was_pushed_and_not_released(
        steps in prop::collection::vec(step(), 0..250),
    ) {
        let mut host = Host::new();
        for step in steps {
            host.step(&step);
            host.check();
        }
        host.drain();
    }
}

/// The last page is written for its last message when the ones before come into the log.
#[test]
fn a_page_that_comes_into_the_log_counts_more_than_the_note_about_a_part_of_it() {
    let mut host = Host::new();
    host.step(&PageStep::Unlog);
    // Pages are as small as the allowance has them from here on.
    host.next_job();
    for _ in 0..15 {
        host.push(800, None, true, BodyKind::Inline);
    }
    host.step(&PageStep::LogNext);
    host.push(722, None, true, BodyKind::Shared);
    host.next_job();
    host.complete(0);
    let written =
        host.backlog.pages.slots().back().and_then(Slot::note).expect("the page is written");
    assert_eq!((host.backlog.pages().n_pages(), written.n_live, written.n_entries), (2, 1, 7));
    host.step(&PageStep::LogNext);
    host.step(&PageStep::Crash(0));
    host.check();
    assert_eq!(host.messages.len(), 16);
    host.drain();
}

/// A queue of `n` messages of `len` bytes, all that may be on disk there.
fn deep_queue(n: usize, len: usize) -> Host {
    let mut host = Host::new();
    for at in 0..n {
        host.push(len, Some(0), true, BodyKind::Inline);
        if at % 100 == 0 {
            host.settle_down();
        }
    }
    host.settle_down();
    host.check_residency();
    host
}

#[test]
fn a_page_on_disk_costs_little_memory() {
    let mut host = Host::new();
    (host.allowance, host.gap_every) = (1 << 20, u64::MAX);
    for at in 0..100_000 {
        host.push(12, Some(0), true, BodyKind::Inline);
        if at % 1_000 == 0 {
            host.settle_down();
        }
    }
    host.settle_down();
    let n_cold = host.backlog.pages().n_pages() - host.backlog.pages().n_pages_here();
    assert!(n_cold > 20, "{n_cold} pages are on disk");
    assert_eq!(host.backlog.heap_bytes_of_cold(), 0);
    // Ten million messages of 12 bytes.
    assert!(host.backlog.pages().n_pages() * 100 * size_of::<Slot>() < 1 << 20);
}

#[test]
fn a_deep_queue_is_written_once_and_loaded_once() {
    let mut host = deep_queue(3_000, 100);
    let (n_pages, n_writes) = (host.backlog.pages().n_pages(), host.n_writes);
    assert!(n_pages > 30 && n_writes <= n_pages && host.n_loads == 0);
    host.drain();
    assert_eq!(host.n_writes, n_writes, "pages that consumers work off are not written again");
    assert!(host.n_loads <= n_pages);
}

#[test]
fn what_consumers_with_a_long_prefetch_work_off_is_not_written_again() {
    let mut host = Host::new();
    host.allowance = 1 << 20;
    for at in 0..6_000 {
        host.push(500, Some(0), true, BodyKind::Inline);
        if at % 500 == 0 {
            host.settle_down();
        }
    }
    host.settle_down();
    let n_writes = host.n_writes;
    assert!(n_writes > 20, "{n_writes} pages are on disk");
    while !host.messages.is_empty() {
        // Five pages or so, the oldest of them in part.
        host.take(600 - host.held.len());
        for at in host.held.iter().copied().take(30).collect::<Vec<_>>() {
            host.release(at);
        }
        host.settle_down();
    }
    assert_eq!(host.n_writes, n_writes);
    host.drain();
}

#[test]
fn a_shallow_queue_needs_no_disk() {
    let mut host = Host::new();
    for _ in 0..500 {
        for _ in 0..20 {
            host.push(200, None, true, BodyKind::Inline);
        }
        host.settle_down();
        host.take(20);
        for at in host.held.clone() {
            host.release(at);
        }
    }
    assert_eq!((host.n_writes, host.n_loads), (0, 0));
    host.drain();
}

#[test]
fn stuck_messages_do_not_hold_the_space_of_others() {
    let mut host = deep_queue(3_000, 100);
    let stuck = |at: &u64| at.is_multiple_of(16);
    for at in host.messages.keys().copied().filter(|at| !stuck(at)).collect::<Vec<_>>() {
        host.release(at);
    }
    host.settle_down();
    host.sync();
    let image_bytes: usize = host.images.values().map(|(bytes, _)| bytes.len()).sum();
    let content: u64 = host.messages.values().map(|stored| stored.size() + 16).sum();
    let worked_off = 4 * 8 * 1024;
    assert!(image_bytes as u64 <= 2 * content + worked_off, "{image_bytes} bytes for {content}");
    host.check();
    host.drain();
}

#[test]
fn what_consumers_hold_leaves_memory_and_is_settled_there() {
    let mut host = Host::new();
    for at in 0..600 {
        let body = if at % 5 == 0 { BodyKind::Stored } else { BodyKind::Inline };
        host.push(at % 90, None, at % 3 == 0, body);
        host.settle_down();
        host.take(1);
    }
    host.settle_down();
    host.check_residency();
    assert_eq!(host.held.len(), 600);
    let n_loads = host.n_loads;
    // Sizes and bodies are exact though most pages are on disk: the host compares them.
    for step in 0..600 {
        let nth = step * 389 % host.held.len();
        let at = *host.held.iter().nth(nth).unwrap();
        host.release(at);
        host.check();
    }
    assert_eq!((host.n_loads, host.messages.len()), (n_loads, 0));
    host.drain();
}

#[test]
fn a_message_that_comes_back_is_loaded_when_it_is_the_head() {
    let mut host = Host::new();
    for _ in 0..600 {
        host.push(90, None, true, BodyKind::Inline);
        host.settle_down();
        host.take(1);
    }
    host.settle_down();
    let first = *host.held.first().unwrap();
    assert!(matches!(host.backlog.get(first), super::Lookup::Cold));
    host.held.remove(&first);
    host.settle_down();
    assert!(host.messages[&first].is_found_in(&host.backlog, first));
    host.drain();
}

#[test]
fn reports_about_a_page_that_is_gone_are_passed_over() {
    let mut host = deep_queue(1_000, 100);
    host.take(200);
    let pages: Vec<_> = {
        let mut image = super::Image::default();
        let (head, allowance) = (host.head(), 64 << 10);
        let next = |_| host.backlog.jobs().next(&host.pool, head, allowance, &mut image);
        (0..10)
            .map_while(next)
            .map(|job| match job {
                super::Job::Write { page, .. } | super::Job::Load(super::ColdPage { page, .. }) => {
                    page
                }
            })
            .collect()
    };
    assert!(!pages.is_empty());
    host.backlog.clear(&host.pool);
    let blob = crate::blob::BlobId { file: 1, index: 1 };
    for page in pages {
        assert_eq!(host.backlog.jobs().written(page, blob), None);
        assert_eq!(host.backlog.failed(&host.pool, page), None);
    }
}

#[test]
fn a_damaged_page_loses_its_messages_and_no_others() {
    let mut host = deep_queue(1_000, 100);
    let before = host.messages.len();
    for _ in 0..1_000 {
        host.take(100);
        host.next_job();
        host.step(&PageStep::FailLoad(0));
        host.check();
        if host.messages.len() < before {
            break;
        }
        host.complete(0);
    }
    assert!(host.messages.len() < before);
    host.drain();
}
