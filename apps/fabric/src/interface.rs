//! A host's interfaces: a TAP device, whose frames this process reads and writes, and the loopback.

use crate::frame;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use roce_trust::netlink::{Netlink, attribute, links};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The name of a host's interface.
pub const NAME: &str = "eth0";

/// Frames that wait in the interface for this process. The kernel drops those that find no space,
/// without a word to the sender, so it is more than the windows of many QPs.
const QUEUED_FRAMES: u32 = 20_000;

const NO_TUN: &str = "make a TAP device by /dev/net/tun (it comes with the kernel's module tun; a \
                      container needs --device /dev/net/tun)";

/// Makes the interface of the host with this number, from 1, in the network namespace of this
/// thread, with its addresses. Its frames come and go by the descriptor, which does not block.
pub(crate) fn make(number: u16, mtu: usize) -> Result<OwnedFd, (&'static str, io::Error)> {
    let tap = tap().map_err(|error| (NO_TUN, error))?;
    let kernel = Netlink::open(libc::NETLINK_ROUTE).map_err(|error| ("open a socket", error))?;
    let index = index(NAME).map_err(|error| ("find the interface", error))?;
    // Nobody else has its addresses, so the kernel need not ask for a second whether somebody has.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{NAME}/accept_dad"), "0");
    let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
    let attributes = [
        attribute(libc::IFLA_ADDRESS, &frame::mac(number)),
        attribute(libc::IFLA_MTU, &mtu.to_ne_bytes()),
        attribute(libc::IFLA_TXQLEN, &QUEUED_FRAMES.to_ne_bytes()),
    ];
    // The queue gets its length before it is used.
    set(&kernel, index, 0, &attributes.concat())
        .map_err(|error| ("set the MAC address, MTU and queue length", error))?;
    set(&kernel, index, libc::IFF_UP, &[]).map_err(|error| ("set the interface up", error))?;
    add_address(
        &kernel,
        index,
        (libc::AF_INET, 16),
        &frame::ipv4(number).octets(),
    )
    .map_err(|error| ("set the address", error))?;
    // A kernel without IPv6 has hosts without it.
    let _ = add_address(
        &kernel,
        index,
        (libc::AF_INET6, 64),
        &frame::ipv6(number).octets(),
    );
    self::index("lo")
        .and_then(|index| set(&kernel, index, libc::IFF_UP, &[]))
        .map_err(|error| ("set the loopback up", error))?;
    Ok(tap)
}

fn tap() -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let tap = open("/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: zeros are a value of this type.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the kernel reads and writes a structure of this layout.
    let done = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    Errno::result(done)?;
    Ok(tap)
}

fn index(name: &str) -> io::Result<u32> {
    let link = links()?.into_iter().find(|link| link.name == name);
    Ok(link.ok_or(io::ErrorKind::NotFound)?.index)
}

/// Sets flags and attributes of an interface.
fn set(kernel: &Netlink, index: u32, flags: libc::c_int, attributes: &[u8]) -> io::Result<()> {
    let flags = flags.to_ne_bytes();
    // `struct ifinfomsg`: family and kind, index, flags, and the mask of those that change.
    let message = [&[0; 4], &index.to_ne_bytes(), &flags, &flags, attributes].concat();
    kernel.change(libc::RTM_SETLINK, 0, &message)
}

/// Adds an address of a family, whose network has some bits.
fn add_address(
    kernel: &Netlink,
    index: u32,
    (family, bits): (libc::c_int, u8),
    address: &[u8],
) -> io::Result<()> {
    // `struct ifaddrmsg`: family, bits, flags, scope, index.
    let head = [family as u8, bits, 0, 0];
    let kinds = [libc::IFA_LOCAL, libc::IFA_ADDRESS];
    let mut attributes = kinds.map(|kind| attribute(kind, address)).concat();
    // The kernel derives none by itself.
    if let &[a, b, _, _] = address {
        attributes.extend(attribute(libc::IFA_BROADCAST, &[a, b, 255, 255]));
    }
    let message = [&head, &index.to_ne_bytes()[..], &attributes].concat();
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    kernel.change(libc::RTM_NEWADDR, flags, &message)
}
