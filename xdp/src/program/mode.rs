//! The ways to attach the program.

/// How to attach the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver if it supports it, otherwise in the kernel.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the kernel, with any driver. Each frame becomes a socket buffer first.
    Generic,
}

/// How the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver.
    Native,
    /// In the kernel.
    Generic,
}

impl Mode {
    /// Flags of `IFLA_XDP_FLAGS`.
    pub(super) fn flags(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Native => 1 << 2,
        }
    }

    /// The mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}
