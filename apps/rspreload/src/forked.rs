//! Listeners of servers that pass connections to forked children.

use crate::socket::Socket;
use crate::{rdmacm, say, settings};
use std::sync::atomic::Ordering;

/// Makes the listener that accepted `connection` refuse further ones over RDMA, so that clients fall
/// back to TCP immediately. A forked child uses the connection, and relaying it takes several times as
/// long as TCP.
pub(crate) fn leave_to_tcp(connection: &Socket) {
    let Some(listener) = connection.listener.upgrade() else {
        return;
    };
    if settings::get().is_only || listener.is_left_to_tcp.swap(true, Ordering::AcqRel) {
        return;
    }
    let shut = rdmacm::shutdown(listener.rs(), libc::SHUT_RD);
    if let (Ok(()), Ok(at)) = (shut, rdmacm::own_name(listener.rs())) {
        say::once(&format!(
            "a forked child uses a connection that was accepted at {at}: further connections use TCP"
        ));
    }
}
