//! Listeners of servers whose forked children use the connections.

use crate::socket::Socket;
use crate::{rdmacm, say, settings};
use std::sync::atomic::Ordering;

/// A forked child uses a connection, which this process relays. That takes several times as long as TCP
/// does, so the listener that accepted the connection refuses further ones over RDMA: their clients
/// connect over TCP at once.
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
            "a forked child uses a connection that was accepted at {at}: further ones go over TCP"
        ));
    }
}
