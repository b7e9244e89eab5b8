//! Observations of an RDMA NIC, in words for people.
//!
//! The stack reports data: the [`Cause`](roce_stack::Cause) of a failure, a
//! [`Mismatch`](roce_stack::Mismatch) between the two ends, the last
//! [`QpEvent`](roce_stack::QpEvent)s of a QP. [`InWords`] writes each of them as a sentence.
//!
//! ```
//! use roce_observe::InWords;
//! use roce_stack::Cause;
//!
//! let cause = Cause::WrongSrq;
//! assert!(InWords(&cause).to_string().contains("an SRQ that is not in the XRC domain"));
//! ```
//!
//! [`why`] explains failures. [`capture`] writes what a device sends and receives. [`watch`] shows the open
//! devices of a process to other processes. [`tally`] counts what a program and its children do.
//!
//! An open device is observed through [`DeviceView`] and [`WatchedDevice`]; [`Options`] says how.
#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod capture;
mod causes;
mod device;
mod events;
mod mismatches;
mod options;
mod settings;
pub mod tally;
pub mod watch;
pub mod why;

pub use device::{DeviceNames, DeviceView, WatchedDevice};
pub use mismatches::advice_on;
pub use options::Options;
pub use settings::CHECKS;

use core::fmt::{Display, Formatter, Result};

/// Displays something observed in words.
#[derive(Clone, Copy, Debug)]
pub struct InWords<'a, T>(pub &'a T);

/// A number of bytes.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            1 => f.write_str("1 byte"),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}
