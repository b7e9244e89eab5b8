//! The crate's errors. Each message says what to do about the error.

use roce_cm::ServiceType;
use roce_port::PortError;
use roce_stack::{
    AddressError, BufferRangeError, CreateQpError, ModifyError, MulticastError, QpKind,
    RegisterError, RoceVersion,
};
use roce_trust::environment::Malformed;
use roce_wire::PathMtu;
use std::fmt;

/// Why a device was not opened.
#[non_exhaustive]
pub enum OpenError {
    /// No device has this name.
    UnknownDevice {
        /// The requested name.
        name: String,
        /// The names of the devices that exist.
        known: Vec<String>,
    },
    /// No device's interface has the address.
    NoSuchAddress {
        /// The requested address.
        address: std::net::IpAddr,
        /// The names of the devices that exist.
        known: Vec<String>,
    },
    /// The interface does not have the address.
    UnknownAddress {
        /// The requested address.
        address: std::net::IpAddr,
        /// The interface.
        interface: String,
    },
    /// An environment variable's value is malformed.
    Environment(Malformed),
    /// A system call failed.
    System {
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl OpenError {
    /// For `map_err`: `what` failed.
    pub(crate) fn system(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDevice { name, known } if known.is_empty() => {
                write!(
                    f,
                    "no device is named {name:?}: no interface has an address"
                )
            }
            Self::UnknownDevice { name, known } => {
                write!(
                    f,
                    "no device is named {name:?}; there are: {}",
                    known.join(", ")
                )
            }
            Self::NoSuchAddress { address, known } => {
                write!(f, "no interface has the address {address}; ")?;
                match known.is_empty() {
                    true => write!(f, "no interface has any"),
                    false => write!(f, "the devices are: {}", known.join(", ")),
                }
            }
            Self::UnknownAddress { address, interface } => write!(
                f,
                "interface {interface} does not have the address {address}: add it, or choose one \
                 that the interface has"
            ),
            Self::Environment(malformed) => malformed.fmt(f),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

debug_as_display!(OpenError);
from_causes!(OpenError: Environment(Malformed));

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why the datapath of an open device did not start. Opening a device touches no interface, so this
/// error comes from the first call that needs the datapath or a QP number.
#[non_exhaustive]
pub enum StartError {
    /// The requested datapath is not available.
    Datapath {
        /// The device.
        device: String,
        /// Why, and what would make it available.
        why: String,
    },
    /// The device has stopped for good after a panic: a bug of this library.
    Stopped {
        /// The device.
        device: String,
    },
    /// The processes that share the interface hold all QP numbers, or the system failed to record
    /// the numbers of this device.
    QpNumbers {
        /// The device.
        device: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A system call failed.
    System {
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Datapath { device, why } => write!(
                f,
                "{device} can't use AF_XDP, and no other datapath was allowed: {why}. \
                 ROCE_DATAPATH=udp selects UDP sockets"
            ),
            Self::Stopped { device } => write!(
                f,
                "{device} has stopped after a panic, which is a bug of roce: close it and open it \
                 again"
            ),
            Self::QpNumbers { device, source } => {
                write!(f, "{device} can't get a range of QP numbers: {source}")
            }
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

debug_as_display!(StartError);

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::QpNumbers { source, .. } | Self::System { source, .. } => Some(source),
            Self::Datapath { .. } | Self::Stopped { .. } => None,
        }
    }
}

/// Why a QP was not created.
#[non_exhaustive]
pub enum QpError {
    /// The device did not start, so the QP has no number.
    Start(StartError),
    /// The NIC refused to create it.
    Create(CreateQpError),
}

impl fmt::Display for QpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Create(error) => error.fmt(f),
        }
    }
}

debug_as_display!(QpError);

impl std::error::Error for QpError {}

from_causes!(QpError: Start(StartError), Create(CreateQpError));

/// Why a QP was not connected, an address handle was not created, or a multicast group was not
/// joined.
#[non_exhaustive]
pub enum ConnectError {
    /// The GID table has no entry with this index.
    UnknownGid {
        /// The requested index.
        index: u8,
        /// The indices that have an entry.
        known: Vec<u8>,
    },
    /// The device does not have the address.
    UnknownAddress {
        /// The requested address.
        address: std::net::IpAddr,
        /// The device's addresses.
        known: Vec<std::net::IpAddr>,
    },
    /// The entry at the GID index is for a version of RoCE that this datapath does not carry.
    NotCarried {
        /// The requested index.
        index: u8,
        /// The version of its entry.
        version: RoceVersion,
    },
    /// The device's datapath did not start.
    Start(StartError),
    /// The NIC refused an attribute.
    Modify(ModifyError),
    /// The address can't be used.
    Port(PortError),
    /// The address handle can't be created.
    Address(AddressError),
    /// The QP can't join the multicast group.
    Multicast(MulticastError),
    /// The device has no address of the peer's kind (IPv4, IPv6, link-local).
    NoAddressFor {
        /// The peer's address.
        remote: std::net::IpAddr,
        /// The device's addresses.
        known: Vec<std::net::IpAddr>,
    },
    /// The QP's transport service differs from the connection's.
    WrongService {
        /// The QP's kind.
        qp: QpKind,
        /// The connection's service; `None` if QPs of this kind can't request a connection.
        asked: Option<ServiceType>,
    },
    /// The peer asks for a larger path MTU than the interface carries.
    PathMtu {
        /// The path MTU that the peer asks for.
        asked: PathMtu,
        /// The largest path MTU that the interface carries.
        largest: PathMtu,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownGid { index, known } if known.is_empty() => {
                write!(
                    f,
                    "GID index {index}: the interface has no address, so the table is empty"
                )
            }
            Self::UnknownGid { index, known } => {
                let known: Vec<String> = known.iter().map(u8::to_string).collect();
                write!(
                    f,
                    "GID index {index}: the table has entries {}",
                    known.join(", ")
                )
            }
            Self::UnknownAddress { address, known } => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "the device does not have the address {address}; it has: {}",
                    known.join(", ")
                )
            }
            Self::NotCarried { index, version } => write!(
                f,
                "GID index {index} is for {version}, which UDP sockets can't carry: use AF_XDP \
                 (ROCE_DATAPATH=xdp), or an index for RoCE v2"
            ),
            Self::Start(error) => error.fmt(f),
            Self::Modify(error) => error.fmt(f),
            Self::Port(error) => error.fmt(f),
            Self::Address(error) => error.fmt(f),
            Self::Multicast(error) => error.fmt(f),
            Self::NoAddressFor { remote, known } => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "the device has no address to reach {remote} from; it has: {}",
                    known.join(", ")
                )
            }
            Self::WrongService { qp, asked: None } => write!(
                f,
                "a QP of kind {qp:?} can't request a connection: RC, UC and XRC initiator QPs can"
            ),
            Self::WrongService {
                qp,
                asked: Some(asked),
            } => write!(
                f,
                "the connection is for {asked:?}, but the QP is of kind {qp:?}: create a matching QP"
            ),
            Self::PathMtu { asked, largest } => write!(
                f,
                "the peer asks for a path MTU of {} bytes, but the interface carries at most {}: raise \
                 the interface's MTU, or ask for less at the peer",
                asked.bytes(),
                largest.bytes()
            ),
        }
    }
}

debug_as_display!(ConnectError);

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::Port(error) => Some(error),
            _ => None,
        }
    }
}

from_causes! { ConnectError:
    Start(StartError),
    Modify(ModifyError),
    Address(AddressError),
    Multicast(MulticastError),
    Port(PortError)
}

/// Why a memory region was not created, or an access to it failed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionError {
    /// The NIC refused to register the memory.
    Register(RegisterError),
    /// The bytes are not within the region.
    Range(BufferRangeError),
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(error) => error.fmt(f),
            Self::Range(error) => error.fmt(f),
        }
    }
}

debug_as_display!(RegionError);

impl std::error::Error for RegionError {}

from_causes!(RegionError: Range(BufferRangeError), Register(RegisterError));

/// Why device memory was not allocated, or not copied.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceMemoryError {
    /// The allocation has no bytes.
    Empty,
    /// The allocation is too large.
    TooLarge {
        /// Its length in bytes.
        len: usize,
        /// The largest one.
        max: usize,
    },
    /// The alignment is too large.
    Alignment {
        /// The requested alignment, as a power of two.
        log2_alignment: u32,
        /// The largest one.
        max: u32,
    },
    /// The offset or the length of a copy is not a multiple of 4.
    NotWords {
        /// The offset in bytes.
        offset: usize,
        /// The length in bytes.
        len: usize,
    },
    /// The bytes are not within the memory.
    Range(BufferRangeError),
}

impl fmt::Display for DeviceMemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(
                f,
                "0 bytes of device memory are requested, but it must be 1 or more"
            ),
            Self::TooLarge { len, max } => write!(
                f,
                "{len} bytes of device memory are requested, but one allocation has at most {max}"
            ),
            Self::Alignment {
                log2_alignment,
                max,
            } => write!(
                f,
                "log_align_req is {log2_alignment}, but must be 0 to {max}"
            ),
            Self::NotWords { offset, len } => write!(
                f,
                "{len} bytes at offset {offset} of device memory are copied, but both numbers must \
                 be multiples of 4"
            ),
            Self::Range(error) => error.fmt(f),
        }
    }
}

debug_as_display!(DeviceMemoryError);

impl std::error::Error for DeviceMemoryError {}

from_causes!(DeviceMemoryError: Range(BufferRangeError));
