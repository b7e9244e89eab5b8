//! Opens one socket and its rings.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::{BusyPoll, SocketConfig, ZeroCopy};
use super::{SocketQueue, SocketRings, XdpSocket};
use crate::offer;
use crate::queue::{Queue, QueueConfig, Rings, TxMetadata};
use crate::sys::memory::Mapping;
use crate::sys::ring::SharedRing;
use crate::sys::xsk;
use crate::umem::{CHUNK_BYTES, Share};

/// The interval between attempts to bind to a queue that is still in use.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Why a socket could not be opened.
pub struct OpenError {
    /// The operation that failed.
    pub what: String,
    /// The operating system's error.
    pub source: io::Error,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.what, self.source, self.hint())
    }
}

impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl OpenError {
    /// An explanation of the OS error, if it is a common one.
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

/// Opens the socket of one queue. The first socket of an interface registers the memory. The others
/// share it with `first`, or register it again if sharing is not possible.
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
    let memory = Arc::clone(share.memory());
    if first.is_none() {
        let headroom = config.memory.tx_headroom();
        register(fd.as_fd(), &memory, headroom).map_err(failed("registering memory for frames"))?;
    }
    let rings = rings(fd.as_fd(), config).map_err(failed("making the rings"))?;
    raise_send_buffer_limit(fd.as_fd(), &config.memory);
    raise_send_budget(fd.as_fd(), &config.memory);
    if let Some(busy_poll) = &config.busy_poll {
        set_busy_poll(fd.as_fd(), busy_poll).map_err(failed("preferring busy-polling"))?;
    }
    let socket = XdpSocket {
        fd,
        queue,
        zero_copy: false,
        shares_memory: false,
        offloads_checksums: false,
        polls: config.busy_poll.is_some(),
    };
    // This fills the fill ring before the socket is bound, because some drivers require that.
    let mut opened = Queue::new(socket, rings, share, &config.memory)
        .map_err(|error| failed("taking the rings into use")(io::Error::other(error)))?;
    let socket = opened.kernel();
    let bound = match first {
        Some(first) => bind_shared_or_own(
            || bind_with_retries(config, socket, libc::XDP_SHARED_UMEM, Some(first)),
            || {
                register(socket.as_fd(), &memory, config.memory.tx_headroom())?;
                bind_first(config, socket)
            },
        ),
        None => bind_first(config, socket).map(|()| false),
    };
    let shares_memory = bound.map_err(failed("binding the socket"))?;
    let zero_copy = is_zero_copy(&socket.fd).map_err(failed("asking for the mode"))?;
    // In copy mode, the kernel computes the checksum itself if the driver can't.
    let driver_offloads = || offer::driver(config.interface_index).is_some_and(|of| of.tx_checksum);
    let has_metadata = config.memory.has_metadata();
    let socket = opened.kernel_mut();
    socket.zero_copy = zero_copy;
    socket.shares_memory = shares_memory;
    socket.offloads_checksums = has_metadata && (!zero_copy || driver_offloads());
    Ok(opened)
}

/// Binds a socket to the memory that another one has registered, or else to memory that it
/// registers itself. Kernels before 5.10 share memory only among sockets of one queue, and a driver
/// may refuse to use one queue's memory for another. Returns whether the memory is shared.
fn bind_shared_or_own(
    shared: impl FnOnce() -> io::Result<()>,
    own: impl FnOnce() -> io::Result<()>,
) -> io::Result<bool> {
    match shared() {
        Ok(()) => Ok(true),
        // The queue is in use, so registering memory would not help.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(error),
        Err(_) => own().map(|()| false),
    }
}

/// Whether the kernel supports metadata: since Linux 6.8, and in the stable releases that have it
/// backported.
pub(super) fn kernel_has_metadata() -> bool {
    let try_register = || {
        let memory = Mapping::new(CHUNK_BYTES)?;
        register(xsk::socket()?.as_fd(), &memory, TxMetadata::LEN)
    };
    try_register().is_ok()
}

/// Registers memory, with `tx_headroom` bytes in front of each frame to send.
fn register(fd: BorrowedFd<'_>, memory: &Mapping, tx_headroom: usize) -> io::Result<()> {
    let registration = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: CHUNK_BYTES as u32,
        headroom: 0,
        flags: match tx_headroom {
            0 => 0,
            _ => libc::XDP_UMEM_TX_METADATA_LEN,
        },
        tx_metadata_len: tx_headroom as u32,
    };
    // SAFETY: every queue over this memory has a share of it, which keeps the memory mapped, and
    // owns its socket. The ledger records which chunks the kernel has.
    unsafe { xsk::register_umem(fd, &registration) }
}

/// Number of entries of the TX ring.
fn tx_entries(memory: &QueueConfig) -> u32 {
    memory.tx_chunks().max(1).next_power_of_two()
}

fn rings(fd: BorrowedFd<'_>, config: &SocketConfig) -> io::Result<SocketRings> {
    // The rings have an entry for each chunk, so that no ring overflows.
    let rx = config.memory.rx_chunks.max(1).next_power_of_two();
    let tx = tx_entries(&config.memory);
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

/// Raises the send buffer limit. In copy mode the kernel charges unsent frames to the socket's send
/// buffer, 208 KiB by default, which holds a few dozen frames. The new limit is the size of all
/// slots for frames.
fn raise_send_buffer_limit(fd: BorrowedFd<'_>, memory: &QueueConfig) {
    let bytes = memory.tx_chunks() as usize * CHUNK_BYTES;
    let bytes = bytes.min(i32::MAX as usize / 2) as libc::c_int;
    // Without CAP_NET_ADMIN the limit is `net.core.wmem_max`. A smaller buffer is only slower.
    if xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
}

/// Lets one system call send the complete ring. In copy mode, one call sends 32 pieces of frames by
/// default: 16 packets of path MTU 4096. Each additional call takes a third of the time that a
/// packet takes.
fn raise_send_budget(fd: BorrowedFd<'_>, memory: &QueueConfig) {
    /// `XDP_MAX_TX_SKB_BUDGET` of the kernel's `linux/if_xdp.h`.
    const MAX_TX_SKB_BUDGET: libc::c_int = 9;
    // Older kernels lack this option, and smaller rings don't need it.
    let _ = xsk::set_option(fd, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &tx_entries(memory));
}

fn set_busy_poll(fd: BorrowedFd<'_>, busy_poll: &BusyPoll) -> io::Result<()> {
    let micros = busy_poll.time.as_micros().min(i32::MAX as u128) as libc::c_int;
    let on: libc::c_int = 1;
    xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &on)?;
    xsk::set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &micros)?;
    xsk::set_option(
        fd,
        libc::SOL_SOCKET,
        libc::SO_BUSY_POLL_BUDGET,
        &busy_poll.budget,
    )
}

/// Binds the socket that registered the memory, in zero-copy mode if configured and possible.
fn bind_first(config: &SocketConfig, socket: &XdpSocket) -> io::Result<()> {
    let common = libc::XDP_USE_NEED_WAKEUP
        | if config.multi_buffer {
            libc::XDP_USE_SG
        } else {
            0
        };
    let try_mode = |mode| bind_with_retries(config, socket, common | mode, None);
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

/// Binds a socket. The kernel releases a closed socket's queue with a delay, so this retries a
/// queue that is in use, for up to `config.bind_timeout`.
fn bind_with_retries(
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
                    && start.elapsed() < config.bind_timeout =>
            {
                // The kernel does not report when it has released the queue.
                std::thread::sleep(RETRY_INTERVAL);
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

#[cfg(test)]
mod tests {
    use super::{bind_shared_or_own, open_queue};
    use crate::queue::QueueConfig;
    use crate::socket::SocketConfig;
    use crate::testing::is_root;
    use crate::umem::Umem;
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    fn answer(code: Option<i32>) -> io::Result<()> {
        code.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    /// The result if sharing the memory, and then registering it, returns these errors.
    fn of(shared: Option<i32>, own: Option<i32>) -> Result<bool, Option<i32>> {
        bind_shared_or_own(|| answer(shared), || answer(own)).map_err(|error| error.raw_os_error())
    }

    #[test]
    fn memory_that_cannot_be_shared_is_registered_again() {
        assert_eq!(of(None, Some(libc::EIO)), Ok(true));
        for refused in [libc::EINVAL, libc::EOPNOTSUPP] {
            assert_eq!(of(Some(refused), None), Ok(false));
            assert_eq!(
                of(Some(refused), Some(libc::ENOMEM)),
                Err(Some(libc::ENOMEM))
            );
        }
        assert_eq!(of(Some(libc::EBUSY), None), Err(Some(libc::EBUSY)));
    }

    /// Binds to the loopback interface, whose index is 1, in a network namespace of its own.
    #[test]
    fn a_queue_that_can_not_share_registers_its_memory() {
        if !is_root("a_queue_that_can_not_share_registers_its_memory") {
            return;
        }
        let open = || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("root may");
            let config = SocketConfig {
                memory: QueueConfig {
                    rx_chunks: 8,
                    tx_frames: 8,
                    max_frame_bytes: 1514,
                    tx_metadata: false,
                },
                ..SocketConfig::new("lo", 1, 1500)
            };
            let umem = Umem::new(config.memory.chunks()).expect("memory");
            let share = umem.cut(&[config.memory.chunks()]).expect("all").remove(0);
            // A socket of another kind, whose memory can't be shared.
            let other = UdpSocket::bind("[::]:0").expect("a free port");
            let queue = open_queue(&config, 0, share, Some(other.as_raw_fd()));
            queue.map(|queue| queue.kernel().shares_memory())
        };
        let shares = std::thread::spawn(open).join().expect("it runs");
        assert!(!shares.expect("a queue"));
    }
}
