//! Which guest a lab boots.

use std::path::{Path, PathBuf};

/// Which kernel a lab's guest has, and what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// The kernel of the release that this machine runs, with Soft-RoCE.
    #[default]
    SoftRoce,
    /// A newer kernel, whose virtio_net has AF_XDP with zero-copy. The guest's
    /// interface is made as that needs it: two pairs of queues, of which the first is in
    /// use, and a device that respects the kernel's mapping of memory. There is no
    /// Soft-RoCE: UDP port 4791 is free.
    ZeroCopy,
}

/// What a guest loads to see this machine's files, and to be reached.
const BASIC_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "9p",
    "9pnet_virtio",
    "overlay",
];

/// What Soft-RoCE needs. Without an implementation of crc32, rxe answers "failed to
/// add eth0". Not the one for pclmulqdq, which the emulator computes bit by bit: tables
/// are twice as fast for a large message as a whole.
const SOFT_ROCE_MODULES: &[&str] = &["crc32_generic", "ib_uverbs", "rdma_ucm", "rdma_rxe"];

impl Flavour {
    /// As the guest's scripts call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SoftRoce => "soft-roce",
            Self::ZeroCopy => "zero-copy",
        }
    }

    /// Debian's suite that the kernel is of, unless it is the machine's own.
    pub(super) fn suite(self) -> Option<&'static str> {
        match self {
            Self::SoftRoce => None,
            // The first with such a virtio_net: kernel 7.2.
            Self::ZeroCopy => Some("forky"),
        }
    }

    /// Modules that the guest loads, each with what it depends on.
    pub(super) fn modules(self) -> Vec<&'static str> {
        match self {
            Self::SoftRoce => [BASIC_MODULES, SOFT_ROCE_MODULES].concat(),
            Self::ZeroCopy => BASIC_MODULES.to_vec(),
        }
    }

    /// Pairs of queues of the guest's interface.
    pub(super) fn queue_pairs(self) -> u32 {
        match self {
            Self::SoftRoce => 1,
            Self::ZeroCopy => 2,
        }
    }

    /// What else its kernel is told.
    pub(super) fn kernel_options(self) -> &'static str {
        match self {
            Self::SoftRoce => "",
            // On a busy machine the emulated timer may stand still for as long as the
            // kernel takes to find that it does not work.
            Self::ZeroCopy => " no_timer_check",
        }
    }

    /// Where kernel and first file system are kept: none waits for another's.
    pub(super) fn folder(self, cache: &Path) -> PathBuf {
        match self {
            Self::SoftRoce => cache.to_owned(),
            Self::ZeroCopy => cache.join(self.name()),
        }
    }
}
