//! The status of a command.

use std::fmt;

/// The status field of a response, without the phase bit: what became of the command (Base, 3.3.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident = $kind:literal $code:literal $text:literal,)*) => {
        impl Status {
            $(#[doc = concat!("\"", $text, "\": type ", $kind, ", code ", $code, ".")]
            pub const $name: Self = Self::new($kind, $code);)*

            /// The specification's name of the status, if it is one of those here.
            pub fn name(self) -> Option<&'static str> {
                match self.without_flags() {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0 0x00 "successful completion",
    INVALID_OPCODE = 0 0x01 "invalid command opcode",
    INVALID_FIELD = 0 0x02 "invalid field in command",
    DATA_TRANSFER_ERROR = 0 0x04 "data transfer error",
    INTERNAL_ERROR = 0 0x06 "internal error",
    ABORT_REQUESTED = 0 0x07 "command abort requested",
    INVALID_NAMESPACE = 0 0x0b "invalid namespace or format",
    COMMAND_SEQUENCE_ERROR = 0 0x0c "command sequence error",
    INVALID_SGL_COUNT = 0 0x0e "invalid number of SGL descriptors",
    DATA_SGL_LENGTH_INVALID = 0 0x0f "data SGL length invalid",
    SGL_TYPE_INVALID = 0 0x11 "SGL descriptor type invalid",
    SGL_OFFSET_INVALID = 0 0x16 "SGL offset invalid",
    HOST_ID_INCONSISTENT = 0 0x18 "host identifier inconsistent format",
    KEEP_ALIVE_EXPIRED = 0 0x19 "keep alive timer expired",
    KEEP_ALIVE_INVALID = 0 0x1a "keep alive timeout invalid",
    NAMESPACE_WRITE_PROTECTED = 0 0x20 "namespace is write protected",
    TRANSIENT_TRANSPORT_ERROR = 0 0x22 "transient transport error",
    LBA_OUT_OF_RANGE = 0 0x80 "LBA out of range",
    CAPACITY_EXCEEDED = 0 0x81 "capacity exceeded",
    NAMESPACE_NOT_READY = 0 0x82 "namespace not ready",
    INVALID_LOG_PAGE = 1 0x09 "invalid log page",
    FEATURE_NOT_SAVEABLE = 1 0x0d "feature identifier not saveable",
    CONNECT_INCOMPATIBLE_FORMAT = 1 0x80 "connect incompatible format",
    CONNECT_CONTROLLER_BUSY = 1 0x81 "connect controller busy",
    CONNECT_INVALID_PARAMETERS = 1 0x82 "connect invalid parameters",
    CONNECT_RESTART_DISCOVERY = 1 0x83 "connect restart discovery",
    CONNECT_INVALID_HOST = 1 0x84 "connect invalid host",
    INVALID_QUEUE_TYPE = 1 0x85 "invalid queue type",
    AUTHENTICATION_REQUIRED = 1 0x91 "authentication required",
    WRITE_FAULT = 2 0x80 "write fault",
    UNRECOVERED_READ_ERROR = 2 0x81 "unrecovered read error",
    ACCESS_DENIED = 2 0x86 "access denied",
}

/// "Do not retry".
const DNR: u16 = 1 << 14;
/// Status code and status code type.
const CODE_AND_TYPE: u16 = 0x7ff;

impl Status {
    /// A status of a status code type (0: generic, 1: command specific, 2: media and data
    /// integrity, 3: path) and a status code.
    pub const fn new(kind: u8, code: u8) -> Self {
        Self((kind as u16 & 7) << 8 | code as u16)
    }

    /// From a response's last 16 bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits >> 1)
    }

    /// As a response's last 16 bits, with phase bit 0.
    pub const fn bits(self) -> u16 {
        self.0 << 1
    }

    /// The same with the flag "do not retry".
    #[must_use]
    pub const fn do_not_retry(self) -> Self {
        Self(self.0 | DNR)
    }

    /// Whether repeating the command is futile.
    pub const fn is_final(self) -> bool {
        self.0 & DNR != 0
    }

    /// Whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.0 & CODE_AND_TYPE == 0
    }

    /// Its type and code, without flags.
    #[must_use]
    pub const fn without_flags(self) -> Self {
        Self(self.0 & CODE_AND_TYPE)
    }

    /// Its status code type.
    pub const fn kind(self) -> u8 {
        (self.0 >> 8 & 7) as u8
    }

    /// Its status code.
    pub const fn code(self) -> u8 {
        self.0.to_le_bytes()[0]
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or("a status without a name here");
        write!(f, "{name} (type {}, code {:#04x}", self.kind(), self.code())?;
        let retry = if self.is_final() {
            ", do not retry"
        } else {
            ""
        };
        write!(f, "{retry})")
    }
}
