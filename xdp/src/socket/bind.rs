//! Making one socket and its rings.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::config::{BusyPoll, SocketConfig, ZeroCopy};
use super::{SocketQueue, SocketRings, XdpSocket};
use crate::queue::{Queue, QueueConfig, Rings};
use crate::sys::ring::SharedRing;
use crate::sys::xsk;
use crate::umem::{CHUNK_BYTES, Share};

/// Between two attempts at a queue that is still held.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Why a socket could not be opened.
#[derive(Debug)]
pub struct OpenError {
    /// What was tried, in words.
    pub what: String,
    /// The operating system's error.
    pub source: io::Error,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.what, self.source, self.hint())
    }
}

impl OpenError {
    /// What is behind the operating system's error, if it is one of the usual ones.
    pub fn hint(&self) -> &'static str {
        match self.source.raw_os_error() {
            Some(libc::EPERM) => {
                " (it takes CAP_NET_RAW, and CAP_BPF and CAP_NET_ADMIN for the program)"
            }
            Some(libc::EBUSY) => " (another AF_XDP socket holds the queue)",
            Some(libc::EAFNOSUPPORT) => " (this kernel has no AF_XDP)",
            _ => "",
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Makes the socket of one queue. The first of an interface registers the memory, the
/// others share it with the socket `first`.
pub(super) fn open_queue(
    config: &SocketConfig,
    queue: u32,
    share: Share,
    first: Option<RawFd>,
) -> Result<SocketQueue, OpenError> {
    let failed = |doing: &'static str| {
        let what = format!("AF_XDP on queue {queue} of {}: {doing}", config.interface);
        move |source| OpenError { what, source }
    };
    let fd = xsk::socket().map_err(failed("making a socket"))?;
    if first.is_none() {
        register(fd.as_fd(), &share).map_err(failed("registering memory for frames"))?;
    }
    let rings = rings(fd.as_fd(), config).map_err(failed("making the rings"))?;
    allow_to_send(fd.as_fd(), &config.memory);
    if let Some(busy_poll) = &config.busy_poll {
        set_busy_poll(fd.as_fd(), busy_poll).map_err(failed("preferring busy-polling"))?;
    }
    let socket = XdpSocket {
        fd,
        queue,
        zero_copy: false,
        polls: config.busy_poll.is_some(),
    };
    // Filled before it is bound, as some drivers want it.
    let mut new = Queue::new(socket, rings, share, &config.memory)
        .map_err(|error| failed("taking the rings into use")(io::Error::other(error)))?;
    let bound = match first {
        Some(first) => bind_patiently(config, new.kernel(), libc::XDP_SHARED_UMEM, Some(first)),
        None => bind_first(config, new.kernel()),
    };
    bound.map_err(failed("binding the socket"))?;
    let zero_copy = is_zero_copy(&new.kernel().fd).map_err(failed("asking for the mode"))?;
    new.kernel_mut().zero_copy = zero_copy;
    Ok(new)
}

fn register(fd: BorrowedFd<'_>, share: &Share) -> io::Result<()> {
    let memory = share.memory();
    let registration = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: CHUNK_BYTES as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    // SAFETY: every queue over this memory has a share of it, which keeps it mapped, and
    // holds its own socket; the ledger knows which chunks the kernel has.
    unsafe { xsk::register_umem(fd, &registration) }
}

fn rings(fd: BorrowedFd<'_>, config: &SocketConfig) -> io::Result<SocketRings> {
    // Room for all chunks that can be on the way, so that no ring overflows.
    let rx = config.memory.rx_chunks.max(1).next_power_of_two();
    let tx = config.memory.tx_chunks().max(1).next_power_of_two();
    let sizes = [
        (libc::XDP_UMEM_FILL_RING, rx),
        (libc::XDP_UMEM_COMPLETION_RING, tx),
        (libc::XDP_RX_RING, rx),
        (libc::XDP_TX_RING, tx),
    ];
    for (ring, size) in sizes {
        xsk::set_option(fd, libc::SOL_XDP, ring, &size)?;
    }
    let (offsets, len) =
        xsk::option::<libc::xdp_mmap_offsets>(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
    if len < size_of::<libc::xdp_mmap_offsets>() {
        let what = "the kernel's rings have no flags: it is older than 5.4";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(Rings {
        fill: SharedRing::map(fd, &offsets.fr, rx, libc::XDP_UMEM_PGOFF_FILL_RING)?,
        completion: SharedRing::map(fd, &offsets.cr, tx, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
        rx: SharedRing::map(fd, &offsets.rx, rx, libc::XDP_PGOFF_RX_RING as u64)?,
        tx: SharedRing::map(fd, &offsets.tx, tx, libc::XDP_PGOFF_TX_RING as u64)?,
    })
}

/// Where the kernel copies, it charges what it has not sent yet to the socket's send buffer,
/// of 208 KiB unless told otherwise: a few dozen frames. As many shall fit as there is room for.
fn allow_to_send(fd: BorrowedFd<'_>, memory: &QueueConfig) {
    let bytes = memory.tx_chunks() as usize * CHUNK_BYTES;
    let bytes = bytes.min(i32::MAX as usize / 2) as libc::c_int;
    // Without CAP_NET_ADMIN it is what `net.core.wmem_max` allows. Less is slower, no more.
    if xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
}

fn set_busy_poll(fd: BorrowedFd<'_>, wanted: &BusyPoll) -> io::Result<()> {
    let micros = wanted.time.as_micros().min(i32::MAX as u128) as libc::c_int;
    let on: libc::c_int = 1;
    xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &on)?;
    xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &micros)?;
    xsk::set_option(
        fd,
        libc::SOL_SOCKET,
        libc::SO_BUSY_POLL_BUDGET,
        &wanted.budget,
    )
}

/// Binds the socket that registered the memory, in the best mode that works.
fn bind_first(config: &SocketConfig, socket: &XdpSocket) -> io::Result<()> {
    let common = libc::XDP_USE_NEED_WAKEUP
        | if config.multi_buffer {
            libc::XDP_USE_SG
        } else {
            0
        };
    let try_mode = |mode| bind_patiently(config, socket, common | mode, None);
    match config.zero_copy {
        ZeroCopy::Off => try_mode(libc::XDP_COPY),
        ZeroCopy::Require => try_mode(libc::XDP_ZEROCOPY),
        ZeroCopy::Auto => match try_mode(libc::XDP_ZEROCOPY) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(error),
            Err(_) => try_mode(libc::XDP_COPY),
            Ok(()) => Ok(()),
        },
    }
}

/// Binds a socket. What a socket held that was closed a moment ago is given back later, so
/// a queue that is held is tried again until the patience is at its end.
fn bind_patiently(
    config: &SocketConfig,
    socket: &XdpSocket,
    flags: u16,
    shared: Option<RawFd>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: config.interface_index,
        sxdp_queue_id: socket.queue,
        sxdp_shared_umem_fd: shared.unwrap_or_default() as u32,
    };
    let start = Instant::now();
    loop {
        match xsk::bind(socket.fd.as_fd(), &address) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY)
                    && start.elapsed() < config.patience =>
            {
                // The kernel tells nobody when it is done.
                std::thread::sleep(RETRY_AFTER);
            }
            result => return result,
        }
    }
}

fn is_zero_copy(fd: &OwnedFd) -> io::Result<bool> {
    let (options, _) =
        xsk::option::<libc::xdp_options>(fd.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}
