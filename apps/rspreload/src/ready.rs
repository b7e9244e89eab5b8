//! Events of `poll` and `epoll`, whose bits are the same, for connections over RDMA.

use crate::rdmacm;
use std::ffi::c_int;

const RECEIVE: i16 = libc::POLLIN | libc::POLLRDNORM;
const SEND: i16 = libc::POLLOUT | libc::POLLWRNORM;
const ALWAYS: i16 = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// The events to ask `rpoll` for.
pub(crate) fn request(events: i16) -> i16 {
    let bits = |group: i16, bit: i16| if events & group != 0 { bit } else { 0 };
    bits(RECEIVE, libc::POLLIN) | bits(SEND, libc::POLLOUT)
}

/// What the program gets, from what `rpoll` said of an rsocket.
pub(crate) fn report(rs: c_int, events: i16, said: i16) -> i16 {
    let mut found = said & ALWAYS;
    // A connection that has ended can be read from: there is the end.
    if said & (libc::POLLIN | libc::POLLHUP) != 0 {
        found |= events & RECEIVE;
    }
    if said & libc::POLLOUT != 0 {
        found |= events & SEND;
    }
    if said & libc::POLLHUP != 0
        || said & libc::POLLIN != 0 && events & libc::POLLRDHUP != 0 && rdmacm::is_at_end(rs)
    {
        found |= events & libc::POLLRDHUP;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_reported() {
        assert_eq!(request(libc::POLLRDNORM | libc::POLLRDHUP), libc::POLLIN);
        let both = libc::POLLIN | libc::POLLOUT;
        assert_eq!(report(-1, libc::POLLOUT, both), libc::POLLOUT);
        assert_eq!(
            report(-1, libc::POLLIN, libc::POLLHUP),
            libc::POLLIN | libc::POLLHUP
        );
    }
}
