//! A packet socket: receives the frames that pass one interface, with the kernel's timestamps.

use super::filter;
use roce_capture::LinkType;
use socket2::{Domain, SockFilter, Socket, Type};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Size of the kernel's receive buffer to ask for, in bytes.
const KERNEL_BYTES: libc::c_int = 32 << 20;

/// Size of the buffer for one packet, in bytes: more than any packet has.
const ROOM: usize = 256 << 10;

/// Length of a VLAN tag, which the kernel removes from the frame and reports separately.
const TAG: usize = 4;

/// Size of the buffer for control messages: a timestamp, and the kernel's facts about the packet.
const CONTROL_BYTES: usize = 256;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// A packet that passed the interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapturedPacket<'a> {
    pub(super) bytes: &'a [u8],
    /// Its length in bytes, whether or not all were captured.
    pub(super) wire_len: usize,
    pub(super) time: SystemTime,
    /// Whether this machine sent it.
    pub(super) sent: bool,
}

/// The link type of an interface's packets, by its hardware type (ARPHRD).
fn link_type(hardware: u16) -> Option<LinkType> {
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Some(LinkType::Ethernet),
        libc::ARPHRD_NONE
        | libc::ARPHRD_TUNNEL
        | libc::ARPHRD_TUNNEL6
        | libc::ARPHRD_SIT
        | libc::ARPHRD_IPGRE => Some(LinkType::RawIp),
        _ => None,
    }
}

/// The packet socket.
pub(super) struct PacketSocket {
    socket: Socket,
    buffer: Box<[u8]>,
    link_type: LinkType,
    /// Whether it is the loopback interface, where every packet sent is also received.
    loopback: bool,
}

impl PacketSocket {
    /// Starts capturing RoCE packets on the interface with this index. The inner error is the
    /// hardware type, if its packets can't be parsed.
    ///
    /// # Errors
    /// The kernel's; `PermissionDenied` without CAP_NET_RAW.
    pub(super) fn open(index: u32) -> io::Result<Result<Self, u16>> {
        // Without a protocol nothing arrives before the filter is attached.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        bind(&socket, index, 0)?;
        let hardware = hardware_type(&socket)?;
        let Some(link_type) = link_type(hardware) else {
            return Ok(Err(hardware));
        };
        let program = match link_type {
            LinkType::RawIp => filter::raw_ip(),
            _ => filter::ethernet(),
        };
        let program = program
            .iter()
            .map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k));
        socket.attach_filter(&program.collect::<Vec<_>>())?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        // More than the system's limit needs a privilege; a smaller buffer will do.
        if set(
            &socket,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            KERNEL_BYTES,
        )
        .is_err()
        {
            let _ = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, KERNEL_BYTES);
        }
        bind(&socket, index, libc::ETH_P_ALL as u16)?;
        Ok(Ok(Self {
            socket,
            buffer: vec![0; TAG + ROOM].into_boxed_slice(),
            link_type,
            loopback: hardware == libc::ARPHRD_LOOPBACK,
        }))
    }

    pub(super) fn link_type(&self) -> LinkType {
        self.link_type
    }

    /// The descriptor to wait for.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives the next packet, if one waits. The inner `None` is a duplicate on the loopback.
    ///
    /// # Errors
    /// The kernel's: `ENETDOWN` when the interface goes down.
    pub(super) fn receive(&mut self) -> io::Result<Option<Option<CapturedPacket<'_>>>> {
        let mut control = Control([0; CONTROL_BYTES]);
        // SAFETY: C structs of integers and pointers: zero is a valid value for each.
        let (mut from, mut message) =
            unsafe { (zeroed::<libc::sockaddr_ll>(), zeroed::<libc::msghdr>()) };
        let mut vector = libc::iovec {
            iov_base: self.buffer[TAG..].as_mut_ptr().cast(),
            iov_len: ROOM,
        };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control.0).cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: every pointer in the message is to a local or to the buffer, which is not
        // otherwise borrowed, with its length beside it.
        let len = unsafe {
            libc::recvmsg(
                self.socket.as_raw_fd(),
                &raw mut message,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        let Ok(wire_len) = usize::try_from(len) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        let sent = from.sll_pkttype == libc::PACKET_OUTGOING;
        if sent && self.loopback {
            return Ok(Some(None));
        }
        let ancillary = AncillaryData::read(&message);
        let len = wire_len.min(ROOM);
        let (start, added) = match ancillary.tag.filter(|_| len >= 12) {
            Some(tag) => {
                // The addresses move to the front, and the tag follows them.
                self.buffer.copy_within(TAG..TAG + 12, 0);
                self.buffer[12..16].copy_from_slice(&tag);
                (0, TAG)
            }
            None => (TAG, 0),
        };
        Ok(Some(Some(CapturedPacket {
            bytes: &self.buffer[start..TAG + len],
            wire_len: wire_len + added,
            time: ancillary.time.unwrap_or_else(SystemTime::now),
            sent,
        })))
    }

    /// The number of packets that the kernel dropped for lack of room since the last call.
    pub(super) fn lost(&self) -> u64 {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the pointer is to a local of the length given beside it.
        unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        };
        statistics.tp_drops.into()
    }
}

/// The kernel's facts about a packet.
#[derive(Default)]
struct AncillaryData {
    time: Option<SystemTime>,
    /// The VLAN tag, as in a frame.
    tag: Option<[u8; TAG]>,
}

impl AncillaryData {
    fn read(message: &libc::msghdr) -> Self {
        let mut found = Self::default();
        // SAFETY: the message was filled by the kernel, its control buffer still exists, and
        // these walk through it within its length.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
        while !next.is_null() {
            // SAFETY: not null, thus a header within the buffer, which is aligned for it.
            let header = unsafe { *next };
            // SAFETY: as above; data is read unaligned, and only of a kind whose length the
            // header confirms.
            let data = unsafe { libc::CMSG_DATA(next) };
            let has = |size: usize| {
                // SAFETY: it only computes.
                header.cmsg_len as usize >= unsafe { libc::CMSG_LEN(size as u32) } as usize
            };
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if has(size_of::<libc::timespec>()) => {
                    // SAFETY: see above.
                    let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                    let ns = u32::try_from(time.tv_nsec).unwrap_or(0);
                    found.time = Some(UNIX_EPOCH + Duration::new(seconds, ns));
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                    if has(size_of::<libc::tpacket_auxdata>()) =>
                {
                    // SAFETY: see above.
                    let aux = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
                    if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                        let kind = match aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
                            0 => 0x8100,
                            _ => aux.tp_vlan_tpid,
                        };
                        let ([a, b], [c, d]) = (kind.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes());
                        found.tag = Some([a, b, c, d]);
                    }
                }
                _ => {}
            }
            // SAFETY: as above.
            next = unsafe { libc::CMSG_NXTHDR(message, next) };
        }
        found
    }
}

fn bind(socket: &Socket, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: a C struct of integers: zero is a valid value.
    let mut address = unsafe { zeroed::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = libc::c_int::try_from(index).unwrap_or(-1);
    // SAFETY: the pointer is to a local of the length given beside it.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    check(result)
}

/// The hardware type of the interface that the socket is bound to.
fn hardware_type(socket: &Socket) -> io::Result<u16> {
    // SAFETY: a C struct of integers: zero is a valid value.
    let mut address = unsafe { zeroed::<libc::sockaddr_ll>() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is to a local of the length given beside it.
    let result =
        unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    check(result).map(|()| address.sll_hatype)
}

fn set(
    socket: &Socket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer is to a local of the length given beside it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check(result)
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
