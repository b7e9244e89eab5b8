//! Which guest a lab boots.

use std::path::{Path, PathBuf};

/// The kernel of a lab's guest, and its purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// The kernel of this machine's release, with Soft-RoCE.
    #[default]
    SoftRoce,
    /// A newer kernel, whose virtio_net has AF_XDP with zero-copy. The guest's interface meets the
    /// requirements of zero-copy: it has two pairs of queues, of which the first is in use, and its
    /// device respects the kernel's mapping of memory. There is no Soft-RoCE: UDP port 4791 is
    /// free.
    ZeroCopy,
    /// The same newer kernel, with Soft-RoCE, which has FLUSH and ATOMIC WRITE there, and with
    /// persistent memory: `/dev/dax0.0`, [`Flavour::PERSISTENT_MIB`] less what its driver takes.
    PersistentMemory,
}

/// The modules for access to this machine's files, and for the network.
const BASIC_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "9p",
    "9pnet_virtio",
    "overlay",
];

/// The modules of Soft-RoCE. Without an implementation of crc32, rxe answers "failed to
/// add eth0". The implementation is not the one with pclmulqdq, which the emulator computes bit by
/// bit: with tables, a large message takes half the time.
const SOFT_ROCE_MODULES: &[&str] = &["crc32_generic", "ib_uverbs", "rdma_ucm", "rdma_rxe"];

/// The same of a newer kernel, those of persistent memory, which the device of the emulator announces
/// by ACPI (NFIT), and those of a disk.
const PERSISTENT_MODULES: &[&str] = &[
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
    "nfit",
    "nd_pmem",
    "dax_pmem",
    "device_dax",
    "virtio_blk",
    "ext4",
];

impl Flavour {
    /// The size of persistent memory in MiB.
    pub const PERSISTENT_MIB: u32 = 64;

    /// Whether the guest has Soft-RoCE.
    pub(super) fn has_soft_roce(self) -> bool {
        self != Self::ZeroCopy
    }

    /// Its name in the guest's scripts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SoftRoce => "soft-roce",
            Self::ZeroCopy => "zero-copy",
            Self::PersistentMemory => "persistent-memory",
        }
    }

    /// The Debian suite of the kernel; `None` for this machine's own.
    pub(super) fn suite(self) -> Option<&'static str> {
        match self {
            Self::SoftRoce => None,
            // The first with such a virtio_net: kernel 7.2.
            Self::ZeroCopy | Self::PersistentMemory => Some("forky"),
        }
    }

    /// Modules that the guest loads, in addition to their dependencies.
    pub(super) fn modules(self) -> Vec<&'static str> {
        match self {
            Self::SoftRoce => [BASIC_MODULES, SOFT_ROCE_MODULES].concat(),
            Self::ZeroCopy => BASIC_MODULES.to_vec(),
            Self::PersistentMemory => [BASIC_MODULES, PERSISTENT_MODULES].concat(),
        }
    }

    /// Pairs of queues of the guest's interface.
    pub(super) fn queue_pairs(self) -> u32 {
        match self {
            Self::SoftRoce | Self::PersistentMemory => 1,
            Self::ZeroCopy => 2,
        }
    }

    /// Further options of its kernel.
    pub(super) fn kernel_options(self) -> &'static str {
        match self {
            Self::SoftRoce => "",
            // On a busy machine the emulated timer may stall so long that the kernel concludes that
            // it does not work.
            Self::ZeroCopy | Self::PersistentMemory => " no_timer_check",
        }
    }

    /// The folder for kernel and initramfs. Those with different kernels have separate folders, so that
    /// they don't wait for each other.
    pub(super) fn folder(self, cache: &Path) -> PathBuf {
        match self {
            Self::SoftRoce => cache.to_owned(),
            Self::ZeroCopy | Self::PersistentMemory => cache.join(Self::ZeroCopy.name()),
        }
    }
}
