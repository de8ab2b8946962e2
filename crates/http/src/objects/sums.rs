//! Figures of several nodes together.

use serde_json::{Number, Value};

/// Adds the figures of another node to an overview. Queues and exchanges are the same on all nodes.
pub(super) fn add_overview(overview: &mut Value, other: &Value) {
    for total in ["channels", "consumers", "connections"] {
        let place = format!("/object_totals/{total}");
        if let (Some(sum), Some(more)) = (overview.pointer_mut(&place), other.pointer(&place)) {
            add(sum, more);
        }
    }
    for figures in ["queue_totals", "message_stats", "churn_rates"] {
        if let (Some(sum), Some(more)) = (overview.get_mut(figures), other.get(figures)) {
            add(sum, more);
        }
    }
    for list in ["listeners", "contexts"] {
        if let (Some(Value::Array(all)), Some(Value::Array(more))) =
            (overview.get_mut(list), other.get(list))
        {
            all.extend(more.iter().cloned());
        }
    }
}

/// Adds numbers, those of objects by their names, those of samples by their places. The times of samples
/// stay.
fn add(sum: &mut Value, more: &Value) {
    match (sum, more) {
        (Value::Number(sum), Value::Number(more)) => *sum = added(sum, more),
        (Value::Object(sum), Value::Object(more)) => {
            for (name, more) in more.iter().filter(|(name, _)| *name != "timestamp") {
                match sum.get_mut(name) {
                    Some(sum) => add(sum, more),
                    None => drop(sum.insert(name.clone(), more.clone())),
                }
            }
        }
        (Value::Array(sum), Value::Array(more)) => {
            sum.iter_mut().zip(more).for_each(|(sum, more)| add(sum, more));
        }
        _ => {}
    }
}

fn added(one: &Number, other: &Number) -> Number {
    let whole = one.as_i64().zip(other.as_i64());
    let whole = whole.and_then(|(one, other)| one.checked_add(other)).map(Number::from);
    let real = || Number::from_f64(one.as_f64()? + other.as_f64()?);
    whole.or_else(real).unwrap_or_else(|| one.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_added_and_facts_are_not() {
        let mut sum = json!({
            "object_totals": {"queues": 3, "channels": 1},
            "queue_totals": {"messages": 1, "messages_details": {"rate": 0.5, "samples": [
                {"sample": 1, "timestamp": 10}, {"sample": 2, "timestamp": 20},
            ]}},
            "message_stats": {},
            "listeners": ["a"],
        });
        let more = json!({
            "object_totals": {"queues": 3, "channels": 2},
            "queue_totals": {"messages": 4, "messages_details": {"rate": 1, "samples": [
                {"sample": 5, "timestamp": 11},
            ]}},
            "message_stats": {"publish": 7},
            "listeners": ["b"],
        });
        add_overview(&mut sum, &more);
        let expected = json!({
            "object_totals": {"queues": 3, "channels": 3},
            "queue_totals": {"messages": 5, "messages_details": {"rate": 1.5, "samples": [
                {"sample": 6, "timestamp": 10}, {"sample": 2, "timestamp": 20},
            ]}},
            "message_stats": {"publish": 7},
            "listeners": ["a", "b"],
        });
        assert_eq!(sum, expected);
        add_overview(&mut sum, &json!("damaged"));
        assert_eq!(sum, expected);
    }
}
