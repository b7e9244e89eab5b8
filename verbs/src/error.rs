//! What can go wrong, each with what to do about it.

use roce_cm::ServiceType;
use roce_port::PortError;
use roce_stack::{
    AddressError, BufferRange, CreateQpError, ModifyError, MulticastError, QpKind, RegisterError,
    RoceVersion,
};
use roce_wire::PathMtu;
use std::fmt;

/// A device was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// No device has this name.
    UnknownDevice {
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The address is not one of the interface.
    UnknownAddress {
        /// The address asked for.
        address: std::net::IpAddr,
        /// The interface.
        interface: String,
    },
    /// An environment variable's value is malformed.
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        error: String,
    },
    /// The operating system refused something.
    System {
        /// What was being done.
        what: &'static str,
        /// Its error.
        source: std::io::Error,
    },
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
            Self::UnknownAddress { address, interface } => write!(
                f,
                "{address} is no address of interface {interface}: add it, or choose one of the \
                 interface's own"
            ),
            Self::Environment {
                variable,
                value,
                error,
            } => write!(f, "{variable} is {value:?}: {error}"),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What an open device needs from the system did not start. An open device touches no
/// interface: the first call that needs its datapath, or a QP number, gets this error.
#[derive(Debug)]
pub enum StartError {
    /// The datapath that was asked for can't be had.
    Datapath {
        /// The device.
        device: String,
        /// Why, and what would change that.
        why: String,
    },
    /// The processes that share the interface have all QP numbers, or the system refused to
    /// note down which ones are this device's.
    QpNumbers {
        /// The device.
        device: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The operating system refused something.
    System {
        /// What was being done.
        what: &'static str,
        /// Its error.
        source: std::io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Datapath { device, why } => write!(
                f,
                "{device} can't use AF_XDP, and nothing else was asked for: {why}. \
                 ROCE_DATAPATH=udp takes UDP sockets"
            ),
            Self::QpNumbers { device, source } => {
                write!(f, "{device} gets no part of the QP numbers: {source}")
            }
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::QpNumbers { source, .. } | Self::System { source, .. } => Some(source),
            Self::Datapath { .. } => None,
        }
    }
}

/// A QP was not made.
#[derive(Debug)]
pub enum QpError {
    /// There is no number for it.
    Start(StartError),
    /// The NIC refused.
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

impl std::error::Error for QpError {}

impl From<StartError> for QpError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<CreateQpError> for QpError {
    fn from(error: CreateQpError) -> Self {
        Self::Create(error)
    }
}

/// A QP was not connected.
#[derive(Debug)]
pub enum ConnectError {
    /// The GID table has no entry of this index.
    UnknownGid {
        /// The index asked for.
        index: u8,
        /// The indices that there are.
        known: Vec<u8>,
    },
    /// The device does not have the address.
    UnknownAddress {
        /// The address asked for.
        address: std::net::IpAddr,
        /// Those that it has.
        known: Vec<std::net::IpAddr>,
    },
    /// The GID index is one of a version of RoCE that this datapath does not carry.
    NotCarried {
        /// The index asked for.
        index: u8,
        /// The version of its entry.
        version: RoceVersion,
    },
    /// The device's datapath did not start.
    Start(StartError),
    /// An attribute was refused.
    Modify(ModifyError),
    /// The address can't be used.
    Port(PortError),
    /// The address handle can't be made.
    Address(AddressError),
    /// The QP can't be in the multicast group.
    Multicast(MulticastError),
    /// The device has no address of the peer's kind (IPv4, IPv6, link-local).
    NoAddressFor {
        /// The peer's address.
        remote: std::net::IpAddr,
        /// Those that the device has.
        known: Vec<std::net::IpAddr>,
    },
    /// The QP is of another transport service than the connection.
    WrongService {
        /// The QP's.
        qp: QpKind,
        /// What the connection is for; `None` if no connection can be made for such a QP.
        asked: Option<ServiceType>,
    },
    /// The peer asks for a larger path MTU than the interface carries.
    PathMtu {
        /// What it asks for.
        asked: PathMtu,
        /// The largest that fits.
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
                    "{address} is no address of the device, which has: {}",
                    known.join(", ")
                )
            }
            Self::NotCarried { index, version } => write!(
                f,
                "GID index {index} is one of {version}, which UDP sockets can't carry: it takes \
                 AF_XDP (ROCE_DATAPATH=xdp), or an index of RoCE v2"
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
                "a QP of kind {qp:?} asks for no connection: QPs of RC and UC and XRC initiators do"
            ),
            Self::WrongService {
                qp,
                asked: Some(asked),
            } => write!(
                f,
                "the connection is for {asked:?}, and the QP of kind {qp:?}: make one of that kind"
            ),
            Self::PathMtu { asked, largest } => write!(
                f,
                "the peer asks for a path MTU of {} bytes, and the interface carries {}: raise its \
                 MTU, or ask for less at the peer",
                asked.bytes(),
                largest.bytes()
            ),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<StartError> for ConnectError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<ModifyError> for ConnectError {
    fn from(error: ModifyError) -> Self {
        Self::Modify(error)
    }
}

impl From<AddressError> for ConnectError {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<MulticastError> for ConnectError {
    fn from(error: MulticastError) -> Self {
        Self::Multicast(error)
    }
}

impl From<PortError> for ConnectError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// A memory region was not made, or an access to it reaches beyond its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// It was not registered.
    Register(RegisterError),
    /// The bytes don't lie in it.
    Range(BufferRange),
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(error) => error.fmt(f),
            Self::Range(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RegionError {}

impl From<BufferRange> for RegionError {
    fn from(error: BufferRange) -> Self {
        Self::Range(error)
    }
}

impl From<RegisterError> for RegionError {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}
