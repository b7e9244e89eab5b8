//! Why an agent refused what its owner asked for.

use crate::ServiceId;
use core::fmt;

/// Why an agent refused what its owner asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmError {
    /// There is no such connection (any more).
    UnknownConnection,
    /// The connection is not in a state in which this can be asked for.
    WrongState {
        /// What it does now.
        state: &'static str,
        /// What it would have to do.
        expected: &'static str,
    },
    /// More private data than the message carries.
    PrivateDataTooLong {
        /// Bytes that were given.
        given: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// Somebody of this agent listens to the same service at the same addresses.
    ServiceInUse {
        /// The service.
        service: ServiceId,
    },
    /// A number has more bits than its field.
    TooLarge {
        /// The field.
        field: &'static str,
        /// The value that was given.
        given: u32,
        /// The largest value that fits.
        limit: u32,
    },
    /// The two addresses of the path are not of one family.
    TwoFamilies,
    /// The agent has as many connections as it can have.
    TooManyConnections {
        /// How many that is.
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
                write!(f, "somebody listens to service {service} already")
            }
            Self::TooLarge {
                field,
                given,
                limit,
            } => write!(f, "{field} {given}, at most {limit} fits"),
            Self::TwoFamilies => f.write_str("one address of the path is IPv4 and the other IPv6"),
            Self::TooManyConnections { limit } => {
                write!(
                    f,
                    "there are {limit} connections already, and no more can be had"
                )
            }
        }
    }
}

impl std::error::Error for CmError {}
