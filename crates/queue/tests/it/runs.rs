//! Runs of ready messages for a consumer that is the only one and settles nothing.

use queue::{AckMode, Checkout, CreditMode, Fifo, PositionRange, pass_ready, ready_run};

fn attach(fifo: &mut Fifo, settling: AckMode) {
    let credit_mode = CreditMode::Unlimited;
    fifo.consumers_mut().attach(Checkout { settling, credit_mode, priority: 0 });
}

#[test]
fn a_run_is_given_as_its_messages_would_be_one_by_one() {
    let mut fifo = Fifo::new();
    fifo.enqueue(5);
    attach(&mut fifo, AckMode::Auto);
    let mut singly = fifo.clone();
    let (taker, run) = ready_run(&fifo).unwrap();
    assert_eq!(run, PositionRange { start: 0, end: 5 });
    pass_ready(&mut fifo, &taker, 3);
    for position in 0..3 {
        let given = singly.next_delivery().unwrap();
        assert_eq!((given.consumer, given.position), (taker.consumer, position));
    }
    assert_eq!(fifo.messages().ready().collect::<Vec<_>>(), [PositionRange { start: 3, end: 5 }]);
    assert_eq!(fifo.next_delivery(), singly.next_delivery());
}

#[test]
fn there_is_no_run_for_a_consumer_that_settles_or_is_one_of_two() {
    let mut fifo = Fifo::new();
    fifo.enqueue(1);
    assert_eq!(ready_run(&fifo), None);
    let mut settling = fifo.clone();
    attach(&mut settling, AckMode::Manual);
    assert_eq!(ready_run(&settling), None);
    attach(&mut fifo, AckMode::Auto);
    attach(&mut fifo, AckMode::Auto);
    assert_eq!(ready_run(&fifo), None);
}
