//! AF_XDP sockets: one for each queue of an interface.
//!
//! The first socket of an interface registers the UMEM. The sockets of other queues share the
//! registration, or register the UMEM again if the kernel can't share it among queues. Each socket
//! has four rings of its own. [`open`] creates sockets, rings and queues for all configured queues.
//! Frames arrive after each socket is added to the map of the redirect program
//! ([`crate::program`]).

mod bind;
mod config;
mod stats;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub use bind::OpenError;
pub use config::{BusyPoll, SocketConfig, ZeroCopy};
pub use stats::SocketStatistics;

use crate::queue::{Kernel, Queue, Rings};
use crate::ring::Descriptor;
use crate::sys::ring::SharedRing;
use crate::sys::xsk;
use crate::umem::Umem;

/// The socket behind a queue.
#[derive(Debug)]
pub struct XdpSocket {
    fd: OwnedFd,
    /// The interface's queue, counted from 0.
    queue: u32,
    zero_copy: bool,
    shares_memory: bool,
    offloads_checksums: bool,
    polls: bool,
}

/// A queue of a real interface.
pub type SocketQueue = Queue<XdpSocket>;

type SocketRings = Rings<SharedRing<Descriptor>, SharedRing<u64>>;

impl XdpSocket {
    /// The interface's queue, counted from 0.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the driver reads and writes frames in user memory (`XDP_OPTIONS`).
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Whether the socket shares the memory that the interface's first socket registered.
    pub fn shares_memory(&self) -> bool {
        self.shares_memory
    }

    /// Whether a frame's checksum can be left to the driver, or to the kernel in copy mode
    /// ([`Queue::reserve_with`]).
    pub fn offloads_checksums(&self) -> bool {
        self.offloads_checksums
    }

    /// The kernel's counters (`XDP_STATISTICS`).
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        stats::read(self.fd.as_fd())
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Kernel for XdpSocket {
    type Descriptors = SharedRing<Descriptor>;
    type Addresses = SharedRing<u64>;

    fn wake_tx(&self) -> io::Result<()> {
        ignore_transient(xsk::wake_tx(self.fd.as_fd()))
    }

    fn wake_rx(&self) -> io::Result<()> {
        ignore_transient(xsk::wake_rx(self.fd.as_fd()))
    }

    fn polls(&self) -> bool {
        self.polls
    }
}

/// Ignores transient errors: the kernel is busy or lacks memory at the moment, or the link is down.
/// Frames stay in the ring.
fn ignore_transient(result: io::Result<()>) -> io::Result<()> {
    const TRANSIENT: [libc::c_int; 6] = [
        libc::EAGAIN,
        libc::EBUSY,
        libc::ENOBUFS,
        libc::ENETDOWN,
        libc::EINTR,
        libc::ENOMEM,
    ];
    match result {
        Err(error)
            if error
                .raw_os_error()
                .is_some_and(|code| TRANSIENT.contains(&code)) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Opens the queues of `config`, each with a bound socket and a full fill ring.
///
/// # Errors
/// See [`OpenError`].
pub fn open(config: &SocketConfig) -> Result<Vec<SocketQueue>, OpenError> {
    let config = &without_unsupported_metadata(config);
    let chunks = config.memory.chunks();
    let count = config.queues.len() as u32;
    let umem = Umem::new(chunks.saturating_mul(count)).map_err(|source| OpenError {
        what: format!("memory for {count} queues of {chunks} chunks"),
        source,
    })?;
    let shares = umem
        .cut(&vec![chunks; config.queues.len()])
        .map_err(|source| OpenError {
            what: "cutting the memory for frames".to_owned(),
            source,
        })?;
    let mut queues: Vec<SocketQueue> = Vec::with_capacity(shares.len());
    for (&queue, share) in config.queues.iter().zip(shares) {
        let first = queues.first().filter(|_| config.share_memory);
        let first = first.map(|first| first.kernel().as_fd().as_raw_fd());
        queues.push(bind::open_queue(config, queue, share, first)?);
    }
    Ok(queues)
}

/// The configuration, without metadata if the kernel does not support metadata.
fn without_unsupported_metadata(config: &SocketConfig) -> SocketConfig {
    let mut config = config.clone();
    if config.memory.has_metadata() {
        config.memory.tx_metadata = bind::kernel_has_metadata();
    }
    config
}

#[cfg(test)]
mod tests {
    use super::ignore_transient;
    use std::io;

    #[test]
    fn only_transient_errors_are_ignored() {
        for code in [
            libc::EAGAIN,
            libc::EBUSY,
            libc::ENOBUFS,
            libc::ENETDOWN,
            libc::EINTR,
            libc::ENOMEM,
        ] {
            assert!(
                ignore_transient(Err(io::Error::from_raw_os_error(code))).is_ok(),
                "{code}"
            );
        }
        for code in [libc::ENXIO, libc::EBADF, libc::EINVAL, libc::EOPNOTSUPP] {
            assert!(
                ignore_transient(Err(io::Error::from_raw_os_error(code))).is_err(),
                "{code}"
            );
        }
        assert!(ignore_transient(Ok(())).is_ok());
    }
}
