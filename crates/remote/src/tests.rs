use super::*;
use message::{Annotations, Body, BodyForm, MessageRef};
use meta::{QueueId, QueueKind};

fn remote(durable: bool) -> Arc<RemoteQueue> {
    let [vhost, name, home] = ["/", "q", "rabbit@b"].map(Name::from);
    let def = QueueDef {
        id: QueueId(1),
        vhost,
        name,
        kind: QueueKind::Classic,
        durable,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Default::default(),
        home: Default::default(),
    };
    RemoteQueue::new(Arc::new(def), home)
}

/// The indexes of the refused ones among two messages.
fn refused(queue: &RemoteQueue) -> Vec<u32> {
    let message = MessageRef {
        exchange: b"",
        routing_key: b"q",
        properties: &[],
        body: Body::Borrowed(b"x"),
        persistent: true,
        annotations: Annotations::default(),
        form: BodyForm::Plain,
    };
    let incoming = Incoming { message, home: None, confirm: None, named: None };
    let mut refused = Vec::new();
    let awaited = queue.publish(&[incoming, incoming], &mut refused);
    assert!(awaited.log.is_none() && awaited.journals.is_empty());
    let is_plain = |it: &RefusedItem| it.why == Refusal::Unavailable && it.dead_letter_to.is_none();
    assert!(refused.iter().all(is_plain));
    refused.iter().map(|it| it.item).collect()
}

#[test]
fn each_message_is_refused_until_the_queue_is_deleted() {
    let queue = remote(true);
    assert_eq!(refused(&queue), [0, 1]);
    queue.delete();
    assert!(queue.is_deleted());
    assert!(refused(&queue).is_empty());
}

#[test]
fn refusals_name_the_home_and_the_queue() {
    let text = "home node 'rabbit@b' of durable queue 'q' in vhost '/' is down or inaccessible";
    assert_eq!(remote(true).refuse_attach(), AttachRefused::HomeDown(text.to_owned()));
    assert_eq!(remote(true).refuse(), QueueRefused::HomeDown(text.to_owned()));
    let text = "home node 'rabbit@b' of queue 'q' in vhost '/' is down or inaccessible";
    assert_eq!(remote(false).refuse(), QueueRefused::HomeDown(text.to_owned()));
}

#[test]
fn a_delete_needs_no_home_unless_the_queue_is_to_be_empty() {
    let delete =
        |if_unused, if_empty| remote(true).begin_delete(DeleteConditions { if_unused, if_empty });
    assert_eq!(delete(true, false), Ok(0));
    assert_eq!(delete(false, true), Err(QueueRefused::NotEmpty));
}
