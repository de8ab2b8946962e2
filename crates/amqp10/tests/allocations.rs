//! Neither decoding nor encoding of what there is per message allocates anything.

use amqp10::{FrameType, Performative, decode_frame};

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

#[test]
fn frames_of_messages_allocate_nothing() {
    let frames: &[&[u8]] = &[
        // A transfer with its payload, a disposition that accepts, one that rejects, a flow, a detach.
        b"\x00\x00\x00\x1b\x02\x00\x00\x05\x00\x53\x14\xc0\x08\x05\x43\x43\xa0\x01\x00\x43\x42\x00\x53\x75\xa0\x01\x7e",
        b"\x00\x00\x00\x17\x02\x00\x00\x00\x00\x53\x15\xc0\x0a\x05\x41\x52\x07\x40\x41\x00\x53\x24\x45",
        b"\x00\x00\x00\x2a\x02\x00\x00\x00\x00\x53\x15\xc0\x1d\x05\x41\x52\x07\x40\x41\x00\x53\x25\xc0\x12\x01\
          \x00\x53\x1d\xc0\x0c\x03\xa3\x01a\xa1\x01b\xc1\x03\x02\x40\x40",
        b"\x00\x00\x00\x1f\x02\x00\x00\x00\x00\x53\x13\xc0\x12\x07\x52\x01\x70\x00\x00\x01\x90\x43\x70\xff\xff\xff\xff\x43\x40\x52\xaa",
        b"\x00\x00\x00\x10\x02\x00\x00\x00\x00\x53\x16\xc0\x03\x02\x43\x41",
    ];
    let mut out = Vec::with_capacity(4096);
    let before = counting::in_thread();
    for bytes in frames {
        out.clear();
        let (frame, _) = decode_frame(bytes, FrameType::Amqp, 512).unwrap().unwrap();
        let (performative, _) = Performative::decode(frame.body).unwrap();
        performative.encode_frame(0, &mut out);
    }
    assert_eq!(counting::in_thread().since(before).n_allocations, 0);
}
