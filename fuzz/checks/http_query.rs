//! What must hold for any query of a list. Shared by the fuzz target and by an ordinary test of the crate, which
//! needs no fuzzer.

use serde_json::{Value, json};

/// The most rows of a page.
const PAGE_SIZE_MAX: u64 = 500;

/// A list is JSON whatever is asked of it, a page is no larger than it may be and says how large it is, and a
/// refusal has a reason.
pub(crate) fn query(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let row = |n: u64| json!({"name": format!("q{n}"), "n": n, "deep": {"n": n % 7, "text": "x"}, "list": [n]});
    let rows: Vec<Value> = (0..700).map(row).collect();
    let shown = match http::shown(text, rows) {
        Ok(shown) => shown,
        Err(reason) => return assert!(!reason.is_empty()),
    };
    let list: Value = serde_json::from_str(&shown).expect("a list is JSON");
    if let Some(rows) = list.as_array() {
        return assert_eq!(rows.len(), 700);
    }
    let page = list.as_object().expect("a list or a page");
    let number = |name: &str| page.get(name).and_then(Value::as_u64).expect("a number");
    let items = page.get("items").and_then(Value::as_array).expect("items");
    assert_eq!(number("item_count"), items.len() as u64);
    assert!(items.len() as u64 <= number("page_size") && number("page_size") <= PAGE_SIZE_MAX);
    assert!(number("filtered_count") <= number("total_count") && number("total_count") == 700);
}
