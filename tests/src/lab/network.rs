//! The link between the namespace and the guest: names, addresses, MTU.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::LabError;
use super::namespace::Namespace;

/// The tap device in the lab's namespace.
pub const HOST_INTERFACE: &str = "roce0";
/// The guest's network interface.
pub const GUEST_INTERFACE: &str = "eth0";
/// The guest's Soft-RoCE device. GID 0 is [`GUEST_LL6`], GID 1 [`GUEST_IP4`].
pub const GUEST_RDMA_DEVICE: &str = "rxe0";
/// Address of the outside, with a prefix of 24 bits.
pub const HOST_IP4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the guest, with a prefix of 24 bits.
pub const GUEST_IP4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Link-local address of the outside, made from its MAC address.
pub const HOST_LL6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe4d, 1);
/// Link-local address of the guest, made from its MAC address.
pub const GUEST_LL6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe4d, 2);

pub(super) const HOST_MAC: &str = "52:54:00:4d:00:01";
pub(super) const GUEST_MAC: &str = "52:54:00:4d:00:02";
/// The largest MTU that the link can be given.
pub(super) const MAX_MTU: u32 = 9000;
/// The smallest: IPv6 demands it.
const MIN_MTU: u32 = 1280;

pub(super) fn check_mtu(mtu: u32) -> Result<(), LabError> {
    if (MIN_MTU..=MAX_MTU).contains(&mtu) {
        return Ok(());
    }
    Err(LabError::new(format!(
        "MTU {mtu} is not in {MIN_MTU} to {MAX_MTU} bytes"
    )))
}

/// Makes the outside end of the link, up and with its addresses.
pub(super) fn create_tap(namespace: &Namespace, mtu: u32) -> Result<(), LabError> {
    // Before the device exists, so that it inherits them. No duplicate address
    // detection: addresses are usable at once. No router solicitations: captures
    // hold what tests cause.
    namespace.enter(|| {
        for name in ["accept_dad", "router_solicitations"] {
            let path = format!("/proc/sys/net/ipv6/conf/default/{name}");
            let path = Path::new(&path);
            fs::write(path, "0").map_err(|e| LabError::io("write", path, &e))?;
        }
        Ok(())
    })??;
    // The emulated guest is slow to fetch its packets: let them wait, not get lost.
    let commands = format!(
        "link set lo up\n\
         tuntap add dev {HOST_INTERFACE} mode tap\n\
         link set {HOST_INTERFACE} address {HOST_MAC} mtu {mtu} txqueuelen 4096\n\
         address add {HOST_IP4}/24 dev {HOST_INTERFACE}\n\
         link set {HOST_INTERFACE} up\n"
    );
    namespace.run(&["ip", "-batch", "-"], &commands).map(drop)
}

pub(super) fn set_host_mtu(namespace: &Namespace, mtu: u32) -> Result<(), LabError> {
    namespace
        .run(
            &["ip", "link", "set", HOST_INTERFACE, "mtu", &mtu.to_string()],
            "",
        )
        .map(drop)
}
