//! Properties of a controller: registers that a host reads and writes by Fabrics commands.

/// A property, by its offset (Base, 3.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// CAP, 8 bytes.
    Capabilities = 0x00,
    /// VS, 4 bytes.
    Version = 0x08,
    /// CC, 4 bytes.
    Configuration = 0x14,
    /// CSTS, 4 bytes.
    Status = 0x1c,
}

impl Property {
    /// The property at an offset; `None` if there is none that Fabrics has.
    pub fn at(offset: u32) -> Option<Self> {
        use Property::{Capabilities, Configuration, Status, Version};
        let all = [Capabilities, Version, Configuration, Status];
        all.into_iter().find(|property| property.offset() == offset)
    }

    /// Its offset.
    pub fn offset(self) -> u32 {
        self as u32
    }

    /// Whether it has 8 bytes, and not 4.
    pub fn is_wide(self) -> bool {
        self == Self::Capabilities
    }
}

/// CAP: what the controller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Capabilities of a controller whose queues have at most `max_queue_entries` (at least 2)
    /// entries and which becomes ready within `timeout_ms`.
    pub fn new(max_queue_entries: u16, timeout_ms: u32) -> Self {
        const CONTIGUOUS_QUEUES: u64 = 1 << 16;
        const NVM_COMMAND_SET: u64 = 1 << 37;
        let timeout = u64::from(timeout_ms.div_ceil(500).clamp(1, 255)) << 24;
        let entries = u64::from(max_queue_entries.saturating_sub(1));
        Self(entries | CONTIGUOUS_QUEUES | timeout | NVM_COMMAND_SET)
    }

    /// The most entries of a queue.
    pub fn max_queue_entries(self) -> u32 {
        u32::from(self.0.to_le_bytes()[0]) + (u32::from(self.0.to_le_bytes()[1]) << 8) + 1
    }

    /// The longest time in milliseconds that a change of CC takes to show in CSTS.
    pub fn timeout_ms(self) -> u32 {
        u32::from(self.0.to_le_bytes()[3]) * 500
    }
}

/// CC: what the host wants of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration(pub u32);

impl Configuration {
    /// Enabled, with entries of 64 and 16 bytes, pages of 4096 bytes and the NVM command set.
    pub const ENABLED: Self = Self(1 | 6 << 16 | 4 << 20);
    /// As above, and an orderly shutdown is requested.
    pub const SHUTDOWN: Self = Self(Self::ENABLED.0 | 1 << 14);

    /// Whether the controller is enabled.
    pub fn is_enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether a shutdown, orderly or abrupt, is requested.
    pub fn is_shutdown(self) -> bool {
        self.0 >> 14 & 3 != 0
    }
}

/// CSTS: the state of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    /// Ready for commands.
    pub const READY: Self = Self(1);
    /// A shutdown is complete.
    pub const SHUTDOWN_COMPLETE: Self = Self(2 << 2);

    /// Both states together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the controller takes commands.
    pub fn is_ready(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the controller has failed and must be reset.
    pub fn is_fatal(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether a requested shutdown is complete.
    pub fn is_shut_down(self) -> bool {
        self.0 >> 2 & 3 == 2
    }
}
