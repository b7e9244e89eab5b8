//! The kernel's counters for a socket.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::xsk;

/// The kernel's counters for a socket (`XDP_STATISTICS`). Kernels before 5.9 report only the first
/// three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStatistics {
    /// Received frames dropped for reasons other than those below.
    pub rx_dropped: u64,
    /// Entries of the fill ring that are not valid chunks.
    pub rx_invalid_descs: u64,
    /// Entries of the TX ring that are not a valid piece of a frame.
    pub tx_invalid_descs: u64,
    /// Received frames dropped because the RX ring was full.
    pub rx_ring_full: u64,
    /// The number of times that the kernel found the fill ring empty.
    pub rx_fill_ring_empty_descs: u64,
    /// The number of times that the kernel found the TX ring empty.
    pub tx_ring_empty_descs: u64,
}

impl SocketStatistics {
    /// Every counter with its name, for tables.
    pub fn each(&self) -> [(&'static str, u64); 6] {
        [
            ("kernel_rx_dropped", self.rx_dropped),
            ("kernel_rx_invalid_descs", self.rx_invalid_descs),
            ("kernel_tx_invalid_descs", self.tx_invalid_descs),
            ("kernel_rx_ring_full", self.rx_ring_full),
            ("kernel_rx_fill_ring_empty", self.rx_fill_ring_empty_descs),
            ("kernel_tx_ring_empty", self.tx_ring_empty_descs),
        ]
    }
}

pub(super) fn read(fd: BorrowedFd<'_>) -> io::Result<SocketStatistics> {
    let (kernel, _) = xsk::option::<libc::xdp_statistics>(fd, libc::SOL_XDP, libc::XDP_STATISTICS)?;
    Ok(SocketStatistics {
        rx_dropped: kernel.rx_dropped,
        rx_invalid_descs: kernel.rx_invalid_descs,
        tx_invalid_descs: kernel.tx_invalid_descs,
        rx_ring_full: kernel.rx_ring_full,
        rx_fill_ring_empty_descs: kernel.rx_fill_ring_empty_descs,
        tx_ring_empty_descs: kernel.tx_ring_empty_descs,
    })
}
