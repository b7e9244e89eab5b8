//! The link between the namespace and the guest: names, addresses, MTU.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::LabError;
use super::namespace::Namespace;

/// The network interface outside of the guest, in the lab's namespace.
pub const HOST_INTERFACE: &str = "roce0";
/// The guest's network interface.
pub const GUEST_INTERFACE: &str = "eth0";
/// The guest's Soft-RoCE device. GID 0 is [`GUEST_LL6`], GID 1 [`GUEST_IP4`].
pub const GUEST_RDMA_DEVICE: &str = "rxe0";
/// Address of the outside, with a prefix of 24 bits.
pub const HOST_IP4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the guest, with a prefix of 24 bits.
pub const GUEST_IP4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Address of a second guest, with a prefix of 24 bits.
pub const SECOND_IP4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// Link-local address of the outside, made from its MAC address.
pub const HOST_LL6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe4d, 1);
/// Link-local address of the guest, made from its MAC address.
pub const GUEST_LL6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe4d, 2);

/// The cable to the guest, in the lab's namespace: the other end of [`HOST_INTERFACE`], and the
/// guest's tap device, connected by a bridge. Without the bridge, a capture of departing packets
/// would contain whole batches, which the kernel segments last.
pub(super) const HOST_SIDE: &str = "cable0";
pub(super) const GUEST_SIDE: &str = "tap0";
const SECOND_SIDE: &str = "tap1";
const BRIDGE: &str = "bridge0";

pub(super) const HOST_MAC: &str = "52:54:00:4d:00:01";
pub(super) const GUEST_MAC: &str = "52:54:00:4d:00:02";
const SECOND_MAC: &str = "52:54:00:4d:00:03";

/// Packets that can wait for a guest to fetch them. An emulated guest is slow, and packets lost on
/// the way to a UC QP are not retransmitted: five messages of 8 MiB in packets of 1 KiB fit.
const GUEST_QUEUE: u32 = 1 << 16;

/// The position of a guest on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The tap device, in the lab's namespace.
    pub(super) tap: &'static str,
    /// The MAC address of the guest's interface.
    pub(super) mac: &'static str,
    /// Its address.
    pub(super) ip4: Ipv4Addr,
}

/// The position of the guest of each lab.
pub(super) const FIRST: Place = Place {
    tap: GUEST_SIDE,
    mac: GUEST_MAC,
    ip4: GUEST_IP4,
};

/// The position of a second guest, if a lab has one.
pub(super) const SECOND: Place = Place {
    tap: SECOND_SIDE,
    mac: SECOND_MAC,
    ip4: SECOND_IP4,
};
/// The largest MTU that the link can be given.
pub(super) const MAX_MTU: u32 = 9000;
/// The smallest MTU, which IPv6 requires.
const MIN_MTU: u32 = 1280;

/// A TCP port at which nothing in the guest listens.
const SILENT_PORT: u16 = 9;
/// The number of attempts to reach the guest, and the time that each may take.
const PROBES: (u32, Duration) = (3, Duration::from_secs(3));

/// Whether packets pass to the guest and back: it refuses a connection.
pub(super) fn is_alive(namespace: &Namespace) -> bool {
    let guest = SocketAddr::from((GUEST_IP4, SILENT_PORT));
    let (attempts, patience) = PROBES;
    namespace.enter(|| {
        (0..attempts).any(|_| {
            TcpStream::connect_timeout(&guest, patience)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        })
    })
}

pub(super) fn check_mtu(mtu: u32) -> Result<(), LabError> {
    if (MIN_MTU..=MAX_MTU).contains(&mtu) {
        return Ok(());
    }
    Err(LabError::new(format!(
        "MTU {mtu} is not in {MIN_MTU} to {MAX_MTU} bytes"
    )))
}

/// Creates the interface outside of the guest, up and with its addresses, and the cable to a guest
/// with this number of queue pairs.
pub(super) fn create_link(
    namespace: &Namespace,
    mtu: u32,
    queue_pairs: u32,
) -> Result<(), LabError> {
    let multi_queue = if queue_pairs > 1 { " multi_queue" } else { "" };
    // Set these before the devices exist, so that they inherit them. Without duplicate address
    // detection, addresses are usable at once. Without router solicitations, captures contain only
    // what tests cause. The cable itself has no IPv6.
    set_ipv6(
        namespace,
        "default",
        &[
            ("accept_dad", "0"),
            ("router_solicitations", "0"),
            ("disable_ipv6", "1"),
        ],
    )?;
    // Only the interface that has an address answers for it. Otherwise the bridge, in the same
    // namespace, would also answer, and packets of the guest would arrive there and bypass AF_XDP.
    namespace.set("ipv4/conf/all/arp_ignore", "1")?;
    // At most one segment passes at a time: the kernel segments batches at the interface.
    let commands = format!(
        "link set lo up\n\
         link add {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
         link add {HOST_INTERFACE} address {HOST_MAC} gso_max_segs 1 type veth \
            peer name {HOST_SIDE}\n\
         tuntap add dev {GUEST_SIDE} mode tap{multi_queue}\n\
         link set {GUEST_SIDE} txqueuelen {GUEST_QUEUE}\n\
         link set {HOST_SIDE} master {BRIDGE}\n\
         link set {GUEST_SIDE} master {BRIDGE}\n\
         address add {HOST_IP4}/24 dev {HOST_INTERFACE}\n"
    );
    namespace.run(&["ip", "-batch", "-"], &commands)?;
    set_host_mtu(namespace, mtu)?;
    set_ipv6(namespace, HOST_INTERFACE, &[("disable_ipv6", "0")])?;
    let up: String = [BRIDGE, GUEST_SIDE, HOST_SIDE, HOST_INTERFACE]
        .map(|device| format!("link set {device} up\n"))
        .concat();
    // Static neighbours: no packet waits for address resolution, or is dropped while waiting.
    let neighbours: String = [GUEST_IP4.to_string(), GUEST_LL6.to_string()]
        .map(|address| format!("neighbour add {address} lladdr {GUEST_MAC} dev {HOST_INTERFACE}\n"))
        .concat();
    namespace
        .run(&["ip", "-batch", "-"], &(up + &neighbours))
        .map(drop)
}

/// Puts a second guest's tap device on the bridge.
pub(super) fn add_second(namespace: &Namespace, mtu: u32) -> Result<(), LabError> {
    let commands = format!(
        "tuntap add dev {SECOND_SIDE} mode tap\n\
         link set {SECOND_SIDE} txqueuelen {GUEST_QUEUE} mtu {mtu}\n\
         link set {SECOND_SIDE} master {BRIDGE}\n\
         link set {SECOND_SIDE} up\n"
    );
    namespace.run(&["ip", "-batch", "-"], &commands).map(drop)
}

pub(super) fn set_host_mtu(namespace: &Namespace, mtu: u32) -> Result<(), LabError> {
    let commands: String = [GUEST_SIDE, HOST_SIDE, HOST_INTERFACE, BRIDGE]
        .map(|device| format!("link set {device} mtu {mtu}\n"))
        .concat();
    namespace.run(&["ip", "-batch", "-"], &commands).map(drop)
}

/// Sets IPv6 options of a device of the namespace, or of those to come.
fn set_ipv6(namespace: &Namespace, device: &str, options: &[(&str, &str)]) -> Result<(), LabError> {
    options
        .iter()
        .try_for_each(|(name, value)| namespace.set(&format!("ipv6/conf/{device}/{name}"), value))
}
