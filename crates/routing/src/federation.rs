//! Messages that an exchange which federates lets by to another broker: the header in which each broker notes
//! that it was sent a message keeps messages from going round and round.

use amqp091::{TableRef, ValueRef};

use crate::exchange_kind::Downstream;
use crate::selector::Steps;

/// The header with an entry for each broker that was sent the message by federation.
const RECEIVED_FROM: &[u8] = b"x-received-from";
/// Fields of such an entry.
const CLUSTER_NAME: &[u8] = b"cluster-name";
const VHOST: &[u8] = b"vhost";
/// The cost of looking at one entry, in steps, besides that of its bytes.
const STEPS_PER_HOP: usize = 8;

impl Downstream {
    /// Whether the downstream is to get a message: it has not had the message yet, and few enough brokers
    /// have. False once `steps` have run out.
    pub(crate) fn takes(&self, headers: Option<TableRef<'_>>, steps: &mut Steps) -> bool {
        let header = headers.and_then(|headers| headers.get(RECEIVED_FROM));
        // COMPAT: what is no list is not of federation.
        let Some(hops) = header.and_then(|header| header.as_array()) else { return true };
        if self.hops_max <= 0 {
            return false;
        }
        // The first hop too many ends the loop, whatever follows.
        hops.iter().zip(1..).all(|(hop, n_hops)| {
            let bytes = hop.as_table().map_or(0, |hop| hop.as_bytes().len());
            let has_steps = steps.take(STEPS_PER_HOP).and_then(|()| steps.pass_over(bytes));
            has_steps.is_some() && n_hops < self.hops_max && !self.is_hop(hop)
        })
    }

    fn is_hop(&self, hop: ValueRef<'_>) -> bool {
        let (Some(hop), Some(cluster), Some(vhost)) = (hop.as_table(), &self.cluster, &self.vhost)
        else {
            return false;
        };
        let is = |field: &[u8], name: &str| {
            hop.get(field).and_then(|value| value.as_str()) == Some(name)
        };
        is(CLUSTER_NAME, cluster) && is(VHOST, vhost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::{ShortString, Table, Value};

    fn table(entries: &[(&'static str, Value)]) -> Table {
        let named =
            |(name, value): &(&'static str, Value)| (ShortString::from_static(name), value.clone());
        entries.iter().map(named).collect()
    }

    fn hop(cluster: impl Into<Value>, vhost: impl Into<Value>) -> Value {
        Value::Table(table(&[("cluster-name", cluster.into()), ("vhost", vhost.into())]))
    }

    fn takes(downstream: &Downstream, hops: Value) -> bool {
        let headers = table(&[("x-received-from", hops)]).to_bytes();
        downstream.takes(Some(TableRef::parse(&headers).unwrap()), &mut Steps::default())
    }

    #[test]
    fn takes_what_it_has_not_had_and_few_have() {
        let far =
            Downstream { hops_max: 2, cluster: Some("down".into()), vhost: Some("far".into()) };
        assert!(far.takes(None, &mut Steps::default()));
        assert!(far.takes(Some(TableRef::EMPTY), &mut Steps::default()));
        let no_lists = [Value::from("down"), Value::I64(9), hop("down", "far"), Value::Void];
        assert!(no_lists.into_iter().all(|value| takes(&far, value)));
        let list = |hops: &[Value]| Value::Array(hops.to_vec());
        let lets_by = [hop("down", "near"), hop("other", "far"), Value::from("down"), hop(1, 2)];
        assert!(lets_by.iter().all(|hop| takes(&far, list(std::slice::from_ref(hop)))));
        let of_bytes = hop(Value::Bytes(b"down".to_vec()), "far");
        assert!(takes(&far, list(&[of_bytes])));
        assert!(!takes(&far, list(&[hop("down", "far")])));
        assert!(!takes(&far, list(&[Value::Void, Value::Void])));
        let of_old_release = Downstream { vhost: None, ..far.clone() };
        assert!(takes(&of_old_release, list(&[hop("down", "far")])));
        let nowhere = Downstream { hops_max: 0, ..far };
        assert!(takes(&nowhere, Value::Void) && !takes(&nowhere, list(&[])));
    }

    #[test]
    fn a_list_costs_steps_and_is_refused_without() {
        let far = Downstream { hops_max: i64::MAX, cluster: None, vhost: None };
        let hops = Value::Array(vec![Value::Void; 64_000]);
        let headers = table(&[("x-received-from", hops)]).to_bytes();
        let headers = Some(TableRef::parse(&headers).unwrap());
        let mut steps = Steps::new(600_000);
        assert!(far.takes(headers, &mut steps) && steps.n_taken() > 0);
        assert!(!far.takes(headers, &mut steps) && steps.ran_out());
    }
}
