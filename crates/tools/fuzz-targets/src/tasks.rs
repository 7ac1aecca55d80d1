//! Messages between a user's program and the task broker: a program can send any bytes.

use task_wire::{REPLY_LEN, REQUEST_LEN, Reply, Request};

pub(crate) fn task_wire(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        assert_eq!(&request.encode()[..], input);
    }
    if let Ok(reply) = Reply::decode(input) {
        assert_eq!(&reply.encode()[..], input);
    }
    // Changes mostly change the length, too: the fields are looked at only where that is right.
    let sized = |len: usize| {
        let mut bytes = input.to_vec();
        bytes.resize(len, 0);
        bytes
    };
    let bytes = sized(REQUEST_LEN);
    if let Ok(request) = Request::decode(&bytes) {
        assert_eq!(&request.encode()[..], bytes);
    }
    let bytes = sized(REPLY_LEN);
    if let Ok(reply) = Reply::decode(&bytes) {
        assert_eq!(&reply.encode()[..], bytes);
    }
}
