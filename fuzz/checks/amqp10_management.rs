//! What must hold for any request to the management node. Shared by the fuzz target and by an ordinary test of the
//! crate, which needs no fuzzer.

use amqp10::MessageRef;
use front_amqp10::management::{ManagementAnswer, ManagementRequest, ManagingNode};

/// Any sections are a request or refused in words, and what is answered is a message.
pub(crate) fn amqp10_management(sections: &[u8]) {
    let request = ManagementRequest::parse(sections, "/");
    let answer = match &request.op {
        Ok(_) => ManagementAnswer::Done,
        Err(refused) => {
            assert!(!refused.text.is_empty());
            ManagementAnswer::Refused(refused)
        }
    };
    let mut response = Vec::new();
    request.pending.put(&answer, &ManagingNode { vhost: "/", name: "a@b" }, &mut response);
    let response = MessageRef::parse(&response).expect("a response is a message");
    assert!(response.properties.is_some_and(|properties| properties.subject.is_some()));
}
