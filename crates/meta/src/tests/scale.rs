//! Many queues and bindings: the work of a command does not grow with their number.

use std::sync::Arc;

use super::*;

/// The number of references to queues and bindings, from all live states together. Copying a tree node
/// refers once more to everything in it, so differences count what a command copied.
fn n_references(state: &State) -> usize {
    let queues: usize = state.queues().iter().map(Arc::strong_count).sum();
    let bindings: usize = state.routes(V).unwrap().bindings().map(Arc::strong_count).sum();
    queues + bindings
}

#[test]
fn a_declaration_copies_the_same_few_entries_among_ten_and_among_100_000_queues() {
    /// Two leaves for a queue (by name and id), three for a binding, a few entries more on a split.
    const COPIED_MAX: usize = 256;
    let mut state = state();
    let mut snapshot = state.clone();
    let mut copied = Vec::new();
    for n in 0..100_000_u32 {
        let is_checked = [10, 1_000, 10_000, 99_999].contains(&n);
        let before = if is_checked { n_references(&state) } else { 0 };
        // Names in no particular order.
        let queue_name = format!("q{:x}", n.wrapping_mul(2_654_435_761));
        declare(&mut state, queue(&queue_name));
        apply(&mut state, Command::Bind(to_queue("amq.direct", &queue_name, &queue_name))).unwrap();
        if is_checked {
            copied.push(n_references(&state) - before);
        }
        snapshot = state.clone();
    }
    assert!(copied.iter().all(|n| *n <= COPIED_MAX), "{copied:?}");
    assert_eq!(snapshot.queues().len(), 100_000);
    assert_eq!(state.routes(V).unwrap().n_bindings_from("amq.direct"), 100_000);
    // Taking a queue out of the middle is as cheap, and the snapshot keeps it.
    let (id, queue_name) = {
        let middle = state.queues().iter().nth(50_000).unwrap();
        (middle.id, middle.name.clone())
    };
    let before = n_references(&state);
    apply(&mut state, delete_queue(&queue_name)).unwrap();
    assert!(n_references(&state).abs_diff(before) <= COPIED_MAX);
    let mut out = Vec::new();
    let key: &[u8] = queue_name.as_bytes();
    snapshot.routes(V).unwrap().route(b"amq.direct", &[key], None, &mut out);
    assert_eq!(out, [id]);
    state.routes(V).unwrap().route(b"amq.direct", &[key], None, &mut out);
    assert_eq!(out, []);
}
