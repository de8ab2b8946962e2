//! Changes that are planned on a view and made as one, while others change the definitions too.

use crate::client::{block_on, start};
use broker::Broker;
use meta::{
    Command, ExchangeDeclare, ExchangeKind, Name, SuperStream, SuperStreamError, VhostMetadata,
    stream_arguments,
};
use session::Table;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use testing::MemoryDisk;

/// Creates a super stream of two partitions, and changes the definitions by `meanwhile` once its first stream
/// has files.
fn create_while(meanwhile: Command) -> (Arc<Broker>, Result<(), SuperStreamError>) {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let (vhost, arguments) = (Name::from("/"), stream_arguments([]).unwrap());
    let wanted = SuperStream::numbered("s", 2, arguments);
    let created = {
        let operations = broker.operations();
        let mut creating = pin!(operations.create_super_stream(&vhost, &wanted));
        let mut context = Context::from_waker(Waker::noop());
        assert!(creating.as_mut().poll(&mut context).is_pending());
        block_on(broker.apply_definition(meanwhile)).unwrap();
        block_on(creating)
    };
    (broker, created)
}

#[test]
fn a_plan_that_still_holds_is_carried_out() {
    let (vhost, metadata) = (Name::from("other"), VhostMetadata::default());
    let (broker, created) = create_while(Command::CreateVhost { vhost, metadata });
    created.unwrap();
    assert_eq!(broker.view().streams().count(), 2);
}

#[test]
fn a_plan_that_others_have_made_void_is_made_anew() {
    let (broker, created) = create_while(Command::DeclareExchange(ExchangeDeclare {
        vhost: Name::from("/"),
        name: Name::from("s"),
        kind: ExchangeKind::Fanout,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::new(),
    }));
    assert_eq!(created.unwrap_err().to_string(), "there is already an exchange named s");
    assert_eq!(broker.view().streams().count(), 0);
    assert_eq!(broker.view().meta.exchange("/", "s").unwrap().kind, ExchangeKind::Fanout);
}
