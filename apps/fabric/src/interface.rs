//! A host's interfaces: a TAP device, whose frames this process reads and writes, and the loopback.

use crate::frame;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::stat::Mode;
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
    let socket = control(AddressFamily::Inet).map_err(|error| ("open a socket", error))?;
    let set = |what, request, data: Data| {
        let mut request_data = Request::new(NAME, data);
        ioctl(&socket, request, &mut request_data).map_err(|error| (what, error))
    };
    let mtu = libc::c_int::try_from(mtu).unwrap_or(libc::c_int::MAX);
    set(
        "set the MAC address",
        libc::SIOCSIFHWADDR,
        Data::mac(frame::mac(number)),
    )?;
    set("set the MTU", libc::SIOCSIFMTU, Data::number(mtu))?;
    let address = frame::ipv4(number);
    set(
        "set the address",
        libc::SIOCSIFADDR,
        Data::ipv4(address.octets()),
    )?;
    set(
        "set the netmask",
        libc::SIOCSIFNETMASK,
        Data::ipv4([255, 255, 0, 0]),
    )?;
    let index = index(&socket).map_err(|error| ("find the interface", error))?;
    set_queue_length(index).map_err(|error| ("set the queue length", error))?;
    set_up(&socket, NAME).map_err(|error| ("set the interface up", error))?;
    // A kernel without IPv6 has hosts without it.
    let _ = add_ipv6(index, number);
    set_up(&socket, "lo").map_err(|error| ("set the loopback up", error))?;
    Ok(tap)
}

fn tap() -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let tap = open("/dev/net/tun", flags, Mode::empty())?;
    let kind = libc::IFF_TAP | libc::IFF_NO_PI;
    let mut request = Request::new(NAME, Data::flags(kind as libc::c_short));
    ioctl(&tap, libc::TUNSETIFF, &mut request)?;
    Ok(tap)
}

fn control(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socket(family, SockType::Datagram, flags, None)?)
}

fn set_up(socket: &OwnedFd, name: &str) -> io::Result<()> {
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    let mut request = Request::new(name, Data::flags(flags as libc::c_short));
    ioctl(socket, libc::SIOCSIFFLAGS, &mut request)
}

fn index(socket: &OwnedFd) -> io::Result<libc::c_int> {
    let mut request = Request::new(NAME, Data::number(0));
    ioctl(socket, libc::SIOCGIFINDEX, &mut request)?;
    Ok(request.data.as_number())
}

/// Sets the length of the interface's queue. The `ioctl` for it is not allowed in a user namespace,
/// but this message is.
fn set_queue_length(index: libc::c_int) -> io::Result<()> {
    /// `struct nlmsghdr`, `struct ifinfomsg`, and the attribute `IFLA_TXQLEN`.
    #[repr(C)]
    struct SetLink {
        len: u32,
        kind: u16,
        flags: u16,
        sequence: u32,
        port: u32,
        family: u8,
        pad: u8,
        device_kind: u16,
        index: libc::c_int,
        device_flags: u32,
        change: u32,
        attribute_len: u16,
        attribute: u16,
        queue_length: u32,
    }
    /// `struct nlmsghdr`, and what begins `struct nlmsgerr`.
    #[repr(C)]
    struct Answer {
        header: [u32; 4],
        error: i32,
        rest: [u32; 16],
    }
    let request = SetLink {
        len: size_of::<SetLink>() as u32,
        kind: libc::RTM_SETLINK,
        flags: (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16,
        sequence: 1,
        port: 0,
        family: 0,
        pad: 0,
        device_kind: 0,
        index,
        device_flags: 0,
        change: 0,
        attribute_len: 8,
        attribute: libc::IFLA_TXQLEN,
        queue_length: QUEUED_FRAMES,
    };
    let mut answer = Answer {
        header: [0; 4],
        error: 0,
        rest: [0; 16],
    };
    let (family, kind) = (AddressFamily::Netlink, SockType::Raw);
    let kernel = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: the kernel reads a message of this size, and writes at most the size of the answer.
    let got = unsafe {
        let request = (&raw const request).cast();
        Errno::result(libc::send(
            kernel.as_raw_fd(),
            request,
            size_of::<SetLink>(),
            0,
        ))?;
        let answer = (&raw mut answer).cast();
        Errno::result(libc::recv(
            kernel.as_raw_fd(),
            answer,
            size_of::<Answer>(),
            0,
        ))?
    };
    match answer.error {
        _ if got < 20 => Err(io::ErrorKind::UnexpectedEof.into()),
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

fn add_ipv6(index: libc::c_int, number: u16) -> io::Result<()> {
    /// `struct in6_ifreq`.
    #[repr(C)]
    struct Address {
        address: [u8; 16],
        prefix_bits: u32,
        index: libc::c_int,
    }
    let mut address = Address {
        address: frame::ipv6(number).octets(),
        prefix_bits: 64,
        index,
    };
    // Nobody else has the address, so the kernel need not ask for a second whether somebody has.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{NAME}/accept_dad"), "0");
    let control = control(AddressFamily::Inet6)?;
    // SAFETY: the kernel reads a structure of this layout.
    let done = unsafe {
        libc::ioctl(
            control.as_raw_fd(),
            libc::SIOCSIFADDR as _,
            &raw mut address,
        )
    };
    Errno::result(done)?;
    Ok(())
}

/// `struct ifreq`: a name, and 24 bytes whose meaning depends on the call.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: Data,
}

#[repr(C, align(8))]
struct Data([u8; 24]);

impl Request {
    fn new(name: &str, data: Data) -> Self {
        let mut bytes = [0; libc::IFNAMSIZ];
        // The last byte stays zero.
        for (to, from) in bytes.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
            *to = from;
        }
        Self { name: bytes, data }
    }
}

impl Data {
    fn of(bytes: &[u8]) -> Self {
        let mut data = [0; 24];
        data[..bytes.len()].copy_from_slice(bytes);
        Self(data)
    }

    fn number(number: libc::c_int) -> Self {
        Self::of(&number.to_ne_bytes())
    }

    fn as_number(&self) -> libc::c_int {
        let [a, b, c, d, ..] = self.0;
        libc::c_int::from_ne_bytes([a, b, c, d])
    }

    fn flags(flags: libc::c_short) -> Self {
        Self::of(&flags.to_ne_bytes())
    }

    fn mac(mac: [u8; 6]) -> Self {
        let [a, b] = libc::ARPHRD_ETHER.to_ne_bytes();
        let [c, d, e, f, g, h] = mac;
        Self::of(&[a, b, c, d, e, f, g, h])
    }

    fn ipv4(address: [u8; 4]) -> Self {
        let [a, b] = (libc::AF_INET as u16).to_ne_bytes();
        let [c, d, e, f] = address;
        Self::of(&[a, b, 0, 0, c, d, e, f])
    }
}

fn ioctl(socket: &OwnedFd, call: libc::c_ulong, request: &mut Request) -> io::Result<()> {
    // SAFETY: the kernel reads and writes a structure of this layout and size.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), call as _, std::ptr::from_mut(request)) };
    Errno::result(done)?;
    Ok(())
}
