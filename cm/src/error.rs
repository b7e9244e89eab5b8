//! Why an agent refused a call of its owner.

use crate::ServiceId;
use core::fmt;

/// Why an agent refused a call of its owner.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmError {
    /// The connection does not exist, or it has ended and the agent no longer knows it.
    UnknownConnection,
    /// The connection is in a state that does not allow the call.
    WrongState {
        /// Its state.
        state: &'static str,
        /// The state that the call needs.
        expected: &'static str,
    },
    /// More private data than the message can carry.
    PrivateDataTooLong {
        /// Length of the given data, in bytes.
        given: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// This agent already listens to the same service at the same addresses.
    ServiceInUse {
        /// The service.
        service: ServiceId,
    },
    /// A number has more bits than its field.
    TooLarge {
        /// The field.
        field: &'static str,
        /// The given value.
        given: u32,
        /// The largest value that fits.
        limit: u32,
    },
    /// The two addresses of the path belong to different address families.
    MixedFamilies,
    /// The agent has reached its limit of connections.
    TooManyConnections {
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownConnection => f.write_str("there is no such connection (any more)"),
            Self::WrongState { state, expected } => {
                write!(
                    f,
                    "the connection {state}; this asks for one that {expected}"
                )
            }
            Self::PrivateDataTooLong { given, limit } => {
                write!(f, "{given} bytes of private data, at most {limit} fit")
            }
            Self::ServiceInUse { service } => {
                write!(f, "another listener already has service {service}")
            }
            Self::TooLarge {
                field,
                given,
                limit,
            } => write!(f, "{field} {given}, at most {limit} fits"),
            Self::MixedFamilies => {
                f.write_str("one address of the path is IPv4 and the other IPv6")
            }
            Self::TooManyConnections { limit } => {
                write!(
                    f,
                    "there are {limit} connections already, which is the maximum"
                )
            }
        }
    }
}

impl fmt::Debug for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CmError {}
