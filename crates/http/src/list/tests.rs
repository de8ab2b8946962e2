use super::*;
use proptest::prelude::*;

fn query(pairs: &[(&str, &str)]) -> Query {
    Query(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn shown(pairs: &[(&str, &str)], rows: Vec<Value>) -> Result<Value, Refusal> {
    let Rows { head, items, tail, .. } = Listing::of(&query(pairs))?.rows(rows)?;
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    Ok(serde_json::from_str(&format!("{head}{}{tail}", items.join(","))).unwrap())
}

fn named(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"name": name, "deep": {"n": name.len()}})).collect()
}

#[test]
fn without_a_page_there_is_a_bare_list() {
    assert_eq!(shown(&[], named(&["a", "b"])).unwrap().as_array().unwrap().len(), 2);
    assert_eq!(shown(&[("name", "a")], named(&["a", "b"])).unwrap().as_array().unwrap().len(), 2);
}

#[test]
fn a_page_says_what_it_is_of() {
    let found =
        shown(&[("page", "2"), ("page_size", "2"), ("name", "A")], named(&["a", "ba", "ca", "d"]));
    assert_eq!(
        found.unwrap(),
        json!({
            "filtered_count": 3, "item_count": 1, "page": 2, "page_count": 2, "page_size": 2,
            "total_count": 4, "items": [{"name": "ca", "deep": {"n": 2}}],
        })
    );
}

#[test]
fn columns_are_paths() {
    let found = shown(&[("columns", "deep.n,none")], named(&["abc"])).unwrap();
    assert_eq!(found, json!([{"deep": {"n": 3}}]));
}

#[test]
fn pages_are_of_the_rows_that_fulfil_all_conditions() {
    let rows = || {
        vec![
            json!({"name": "a", "n": 5, "policy": "Short", "idle": true}),
            json!({"name": "b", "n": 50, "idle": false}),
            json!({"name": "c"}),
        ]
    };
    for (conditions, names) in [
        (vec!["n>5"], "b"),
        (vec!["n>=5", "n!=50"], "a"),
        (vec!["n<5.5"], "ac"),
        (vec!["n=0"], "c"),
        (vec!["policy=short"], "a"),
        (vec!["policy:HOR"], "a"),
        (vec!["policy="], "bc"),
        (vec!["policy!="], "a"),
        (vec!["idle=true"], "a"),
        (vec!["none.deeper=1"], ""),
    ] {
        let wanted = conditions.iter().map(|condition| ("where", *condition));
        let found = shown(&wanted.chain([("page", "1")]).collect::<Vec<_>>(), rows()).unwrap();
        let of = |row: &Value| row["name"].as_str().unwrap().to_owned();
        let found: String = found["items"].as_array().unwrap().iter().map(of).collect();
        assert_eq!(found, names, "{conditions:?}");
    }
}

#[test]
fn wrong_queries_are_told() {
    let error = |pairs: &[(&str, &str)]| shown(pairs, named(&["a"])).unwrap_err();
    assert_eq!(
        error(&[("page", "0")]).reason,
        "Invalid pagination parameters: page number 0, page size undefined"
    );
    assert_eq!(
        error(&[("page", "1"), ("page_size", "501")]).error,
        "invalid_pagination_parameters"
    );
    assert_eq!(error(&[("page", "9")]).reason, "Page out of range, page: 9 page size: 100, len: 1");
    assert!(error(&[("page", "1"), ("where", "n")]).reason.contains("invalid column condition"));
    assert!(
        error(&[[("page", "1")].as_slice(), &[("where", "n=1"); 17]].concat())
            .reason
            .contains("16")
    );
    let regex = [("page", "1"), ("use_regex", "true"), ("name", "(")];
    assert_eq!(error(&regex).error, "bad_request");
    let long = "a".repeat(REGEX_CHARS_MAX + 1);
    assert_eq!(
        error(&[("page", "1"), ("use_regex", "true"), ("name", &long)]).error,
        "bad_request"
    );
}

proptest! {
    /// Against filtering, sorting and cutting one after the other.
    #[test]
    fn pages_are_those_of_a_naive_list(
        rows in prop::collection::vec(("[a-c]{0,3}", 0_i64..5), 0..40),
        (number, size) in (1_usize..6, 1_usize..12),
        name in "[a-c]{0,1}",
        reverse: bool,
    ) {
        let objects: Vec<Value> =
            rows.iter().map(|(name, n)| json!({"name": name, "n": n})).collect();
        let mut naive: Vec<(usize, &Value)> = objects.iter().enumerate()
            .filter(|(_, it)| it["name"].as_str().unwrap().contains(&name)).collect();
        naive.sort_by_key(|(at, it)| {
            let n = it["n"].as_i64().unwrap();
            (if reverse { -n } else { n }, *at)
        });
        let wanted: Vec<Value> = naive.iter()
            .skip((number - 1) * size).take(size).map(|(_, it)| (*it).clone()).collect();
        let (number_text, size_text) = (number.to_string(), size.to_string());
        let pairs = [
            ("page", number_text.as_str()), ("page_size", &size_text), ("name", &name),
            ("sort", "n"), ("sort_reverse", if reverse { "true" } else { "false" }),
        ];
        match shown(&pairs, objects.clone()) {
            Ok(found) => prop_assert_eq!(found["items"].as_array().unwrap(), &wanted),
            Err(refusal) => {
                prop_assert_eq!(refusal.error, "page_out_of_range");
                prop_assert!(wanted.is_empty());
            }
        }
    }
}

proptest! {
    /// An order that ends early is the beginning of the whole one.
    #[test]
    fn what_is_in_order_is_the_beginning_of_all(
        numbers in prop::collection::vec(0_i64..5, 0..40),
        n in 0_usize..50,
        reverse: bool,
    ) {
        let rows: Vec<Value> = numbers.iter().map(|n| json!({"n": n})).collect();
        let path = ["n".to_owned()];
        let key = |row| value_at(row, &path).unwrap_or(Value::Null);
        let keyed =
            || rows.iter().enumerate().map(|(at, row)| Keyed { key: key(row), at }).collect();
        let places = |n| sorted(keyed(), reverse, n);
        let (some, all) = (places(n), places(usize::MAX));
        prop_assert!(some.len() >= n.min(all.len()));
        prop_assert_eq!(&some, &all[..some.len()]);
    }
}

/// Parts of a query, each there or not.
fn any_query() -> impl Strategy<Value = Query> {
    let parts = [
        ("page", "1"),
        ("page", "2"),
        ("page_size", "3"),
        ("columns", "n"),
        ("name", "a"),
        ("name", "b"),
        ("use_regex", "true"),
        ("sort", "n"),
        ("sort_reverse", "true"),
    ];
    prop::sample::subsequence(parts.to_vec(), 0..=parts.len()).prop_map(|parts| query(&parts))
}

proptest! {
    /// Queries with the same parts that arrange have the same arrangement, as far as both need it.
    #[test]
    fn what_arranges_is_all_that_an_arrangement_follows_from(
        rows in prop::collection::vec(("[ab]", 0_i64..5), 0..20),
        (left, right) in (any_query(), any_query()),
    ) {
        let rows: Vec<Value> = rows.iter().map(|(name, n)| json!({"name": name, "n": n})).collect();
        let (Ok(one), Ok(other)) = (Listing::of(&left), Listing::of(&right)) else { return Ok(()) };
        if Listing::arranging(&left) == Listing::arranging(&right) {
            let (one, other) = (one.arrange(&rows).unwrap(), other.arrange(&rows).unwrap());
            prop_assert_eq!(one.n_filtered, other.n_filtered);
            prop_assert_eq!(one.places, other.places);
        }
    }
}

#[test]
fn a_page_and_all_are_arranged_each_for_itself() {
    let arranging = |pairs: &[(&str, &str)]| Listing::arranging(&query(pairs));
    let page = arranging(&[("name", "a"), ("page", "1")]);
    assert_eq!(page, arranging(&[("name", "a"), ("page", "2"), ("page_size", "7")]));
    assert_ne!(page, arranging(&[("name", "a")]));
}

/// The answer of a node to its part of a list.
fn part_of(node: &str, rows: &[Value], part: &Query) -> OtherRows {
    let Rows { head, items, tail, .. } = Listing::of(part).unwrap().rows(rows.to_vec()).unwrap();
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    OtherRows::parse(node, format!("{head}{}{tail}", items.join(",")).as_bytes()).unwrap()
}

proptest! {
    /// A list of which nodes have parts is that of one node with all rows, in the order of the nodes.
    #[test]
    fn parts_of_nodes_make_the_whole_list(
        rows in prop::collection::vec(("[ab]", 0_i64..5), 0..20),
        cuts in [0_usize..20, 0_usize..20],
        query in any_query(),
    ) {
        let rows: Vec<Value> = rows.iter().map(|(name, n)| json!({"name": name, "n": n})).collect();
        let Ok(listing) = Listing::of(&query) else { return Ok(()) };
        let part = Listing::part(&query).unwrap();
        let cuts = [cuts[0].min(cuts[1]), cuts[0].max(cuts[1])].map(|it| it.min(rows.len()));
        let (first, own, last) = (&rows[..cuts[0]], &rows[cuts[0]..cuts[1]], &rows[cuts[1]..]);
        let others = vec![part_of("a", first, &part), part_of("c", last, &part)];
        let order = (MergeOrder::Node, listing.is_reversed());
        let text = |listed: Result<Rows, Refusal>| {
            let Rows { head, items, tail, .. } = listed.map_err(|refusal| refusal.reason)?;
            Ok::<_, String>(head + &Value::from_iter(items).to_string() + &tail)
        };
        let merged = listing.rows(Merged::new(own.to_vec(), "b", others, order));
        let whole = Listing::of(&query).unwrap().rows(rows);
        prop_assert_eq!(text(merged), text(whole));
    }
}

#[test]
fn rows_of_another_node_are_objects_and_as_many_as_it_says() {
    let parse = |text: &str| OtherRows::parse("a", text.as_bytes()).is_some();
    assert!(parse("[]") && parse(r#"[{"name":"a"},[]]"#));
    assert!(parse(r#"{"items":[{}],"filtered_count":1,"total_count":2,"page":1}"#));
    for damaged in [
        "",
        "{}",
        "[1]",
        "[{]",
        "[{}",
        r#"{"items":[{}],"filtered_count":0,"total_count":2}"#,
        r#"{"items":[{}],"filtered_count":3,"total_count":2}"#,
        r#"{"items":[{}],"filtered_count":-1,"total_count":2}"#,
        r#"{"items":[],"filtered_count":18446744073709551615,"total_count":18446744073709551615}"#,
        r#"{"items":{},"filtered_count":1,"total_count":2}"#,
    ] {
        assert!(!parse(damaged), "{damaged}");
    }
}
