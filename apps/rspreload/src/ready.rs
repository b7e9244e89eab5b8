//! Maps poll events between the program and `rpoll`. `poll` and `epoll` use the same bits.

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

/// The events to report to the program, given what `rpoll` returned for an rsocket.
pub(crate) fn report(rs: c_int, events: i16, returned: i16) -> i16 {
    let mut found = returned & ALWAYS;
    // A closed connection is readable: a read returns end of file.
    if returned & (libc::POLLIN | libc::POLLHUP) != 0 {
        found |= events & RECEIVE;
    }
    if returned & libc::POLLOUT != 0 {
        found |= events & SEND;
    }
    if returned & libc::POLLHUP != 0
        || returned & libc::POLLIN != 0 && events & libc::POLLRDHUP != 0 && rdmacm::is_at_end(rs)
    {
        found |= events & libc::POLLRDHUP;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requested_events_are_reported() {
        assert_eq!(request(libc::POLLRDNORM | libc::POLLRDHUP), libc::POLLIN);
        let both = libc::POLLIN | libc::POLLOUT;
        assert_eq!(report(-1, libc::POLLOUT, both), libc::POLLOUT);
        assert_eq!(
            report(-1, libc::POLLIN, libc::POLLHUP),
            libc::POLLIN | libc::POLLHUP
        );
    }
}
