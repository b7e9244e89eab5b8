//! Opening a socket and setting its options.

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use roce_port::{Offers, PortError};
use socket2::Socket;

use super::{PortSocket, group, priority};
use crate::bind::{bind, new_socket};
use crate::config::{SocketOffer, UdpPortConfig, header_bytes};
use crate::prepare::{set_buffers, set_class, set_priority, set_required_options};
use crate::queue::TxQueue;
use crate::share;
use crate::sys::{options, receive::BUNDLE_BYTES};

/// The maximum number of datagrams in one socket's queue.
const MAX_DATAGRAMS: usize = 512;

/// Opens the socket for `address`, which may be a multicast group. What other members offer goes to
/// `offers`.
///
/// # Errors
/// If the address can't be bound, or the kernel lacks an option without which packets would not
/// conform to RoCEv2. The text says what to do.
pub(crate) fn open(
    config: &UdpPortConfig,
    address: IpAddr,
    offers: Option<&Arc<dyn Offers>>,
) -> Result<PortSocket, PortError> {
    let fail = |what: &str| {
        let what = format!("{what} for {address} of {}", config.interface);
        move |source| PortError { what, source }
    };
    let (socket, member) = match config.part {
        Some(part) if !address.is_multicast() => {
            let (socket, member) = share::join(config, address, part, offers)?;
            reset_class(&socket, address).map_err(fail("resetting a UDP socket"))?;
            (socket, Some(member))
        }
        _ => {
            let socket = new_socket(address).map_err(fail("opening a UDP socket"))?;
            if address.is_multicast() {
                // Several processes may be in a multicast group, and each gets a copy.
                socket
                    .set_reuse_address(true)
                    .map_err(fail("sharing a UDP socket's address"))?;
            }
            bind(&socket, config, address)?;
            (socket, None)
        }
    };
    if address.is_multicast() {
        group::join(&socket, config, address)?;
    } else {
        group::set_multicast_interface(&socket, config, address);
    }
    if let Some(map) = &config.priorities {
        priority::check_permitted(&socket, map).map_err(fail(
            "setting SO_PRIORITY 7, which needs CAP_NET_ADMIN (0 to 6 do not), as a DSCP asks,",
        ))?;
    }
    set_required_options(&socket, address).map_err(fail(
        "setting the options that RoCEv2 needs (no fragmentation, traffic class) on a UDP socket",
    ))?;
    set_buffers(&socket, config);
    let (can_segment, _) = use_offloads(&socket, address);
    Ok(PortSocket {
        address,
        queue: TxQueue::new(
            config.queue_bytes.max(2 * BUNDLE_BYTES),
            MAX_DATAGRAMS,
            config.segmentation && can_segment,
        ),
        socket,
        member,
        scope: config.interface_index,
        socket_class: 0,
        last_single_class: 0,
        priorities: config.priorities,
        has_priority: false,
        refuses_management_since: None,
        receive_batch: 1,
        empty_polls: 0,
    })
}

/// Returns the buffer sizes and offloads that the kernel grants a socket of `config`. Returns the
/// minimum if no socket can be opened.
pub(crate) fn probe(config: &UdpPortConfig) -> SocketOffer {
    const FALLBACK: SocketOffer = SocketOffer {
        receive_buffer_bytes: 64 << 10,
        segmentation: false,
        coalescing: false,
        flow_sockets: 0,
        why_copied: None,
    };
    let address = config.addresses.first().copied();
    let address = address.unwrap_or(IpAddr::from([127, 0, 0, 1]));
    let probe = || -> io::Result<SocketOffer> {
        let socket = new_socket(address)?;
        set_buffers(&socket, config);
        let (can_segment, coalescing) = use_offloads(&socket, address);
        Ok(SocketOffer {
            // The kernel doubles the requested size, because it charges each packet with all the
            // memory it takes, and reports the doubled size.
            receive_buffer_bytes: socket.recv_buffer_size()? / 2,
            segmentation: config.segmentation && can_segment,
            coalescing,
            ..FALLBACK
        })
    };
    probe().unwrap_or(FALLBACK)
}

/// Resets the traffic class and priority of a socket that belonged to another process.
fn reset_class(socket: &Socket, address: IpAddr) -> io::Result<()> {
    set_class(socket, address, 0)?;
    set_priority(socket, 0)
}

/// Sets the options that a kernel may lack. Returns whether the kernel supports segmentation
/// (`UDP_SEGMENT`) and coalescing (`UDP_GRO`).
fn use_offloads(socket: &Socket, address: IpAddr) -> (bool, bool) {
    if address.is_ipv6() {
        // RoCE hardware sends UDP checksum 0. Without this option, the socket misses those packets
        // and no others.
        let _ = set(socket, libc::SOL_UDP, libc::UDP_NO_CHECK6_RX, 1);
    }
    // Without this option, each receive returns one datagram.
    let can_coalesce = set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    // An old kernel would ignore the control message of the same name and send one huge datagram,
    // so check beforehand. 0 is the default.
    let can_segment = set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
    (can_segment, can_coalesce)
}

fn set(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    options::set(socket.as_fd(), level, name, value)
}

/// The maximum length of a datagram that is joined from several packets, in bytes. The 16-bit
/// length fields limit it, not the MTU.
pub(crate) fn max_datagram_bytes(ipv6: bool) -> usize {
    usize::from(u16::MAX) - header_bytes(ipv6)
}
