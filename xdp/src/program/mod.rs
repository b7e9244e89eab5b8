//! The redirect program. It redirects this process's frames to its sockets, and passes all others
//! to the kernel.
//!
//! This module assembles the program from a few instructions and loads it with `bpf(2)`, so no C
//! tool chain is needed. The program is attached with a BPF link, so the kernel detaches it when
//! the process ends or is killed.
//!
//! The program redirects a frame if the frame meets these conditions:
//!
//! - It is an IPv4 or IPv6 packet with at most one 802.1Q tag, not fragmented and without options
//!   or extension headers, to UDP port 4791 of an address passed to [`Program::add_address`]. If
//!   configured, a RoCE v1 frame to one of these addresses qualifies, too.
//! - It is for a QP in the configured part of the QPN space, if there is one
//!   ([`RedirectConfig::part`]).
//!
//! Redirected frames go to the socket of the queue that they arrived at. If that queue has no
//! socket, they go to the kernel.

mod asm;
mod attach;
mod holder;
mod mode;
mod redirect;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub use attach::Attached;
pub use holder::Holder;
pub(crate) use holder::holder;
#[cfg(any(test, fuzzing))]
pub(crate) use holder::program_of;
pub use mode::{AttachMode, Mode};
pub use redirect::RedirectConfig;

use crate::sys::bpf::{self, Map, MapKind};

/// The maximum number of addresses of a program.
const MAX_ADDRESSES: u32 = 1024;

/// Why a program could not be loaded, attached or changed.
pub struct ProgramError {
    /// The operation that failed, and a remedy if there is one.
    pub what: String,
    /// The operating system's error.
    pub source: io::Error,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl fmt::Debug for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ProgramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// The program's decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Pass the frame to the kernel.
    Pass,
    /// Redirect the frame to the socket of its queue.
    Redirect,
    /// Another return code, which this program never returns.
    Other(u32),
}

/// The loaded program with its maps.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    /// The map from queues to sockets.
    sockets: Map<4>,
    /// The set of addresses.
    addresses: Map<16>,
}

impl Program {
    /// Loads the program for up to `queues` queues, without sockets and addresses.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn load(queues: u32, config: &RedirectConfig) -> Result<Self, ProgramError> {
        let failed = |doing: &str| {
            let what = format!("the redirect program: {doing}");
            move |source| ProgramError { what, source }
        };
        let sockets = Map::new(MapKind::Sockets, queues.max(1), "roce_sockets").map_err(failed(
            "making the map of sockets (it takes CAP_BPF and CAP_NET_ADMIN)",
        ))?;
        let addresses = Map::new(MapKind::Hash, MAX_ADDRESSES, "roce_addresses")
            .map_err(failed("making the map of addresses"))?;
        let code = redirect::assemble(sockets.fd(), addresses.fd(), config);
        let fd = bpf::load_xdp(&code, "roce_redirect").map_err(failed("loading"))?;
        Ok(Self {
            fd,
            sockets,
            addresses,
        })
    }

    /// Redirects frames to this address from now on.
    ///
    /// # Errors
    /// If the kernel refuses, for instance because there are too many addresses.
    pub fn add_address(&self, address: IpAddr) -> Result<(), ProgramError> {
        let key = key_of(address);
        self.addresses
            .update(&key, &1_u32.to_ne_bytes())
            .map_err(|source| ProgramError {
                what: format!("adding {address} to the redirect program"),
                source,
            })
    }

    /// Passes frames to this address to the kernel from now on. Does nothing for an address that
    /// was not added.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn remove_address(&self, address: IpAddr) -> Result<(), ProgramError> {
        match self.addresses.delete(&key_of(address)) {
            Err(source) if source.raw_os_error() != Some(libc::ENOENT) => Err(ProgramError {
                what: format!("removing {address} from the redirect program"),
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Redirects frames that arrive at `queue` to `socket` from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), ProgramError> {
        let value = socket.as_raw_fd().to_ne_bytes();
        self.sockets
            .update(&queue.to_ne_bytes(), &value)
            .map_err(|source| ProgramError {
                what: format!("redirecting the frames of queue {queue} to its socket"),
                source,
            })
    }

    /// Runs the program on a frame at queue 0, and returns the verdict. The frame goes nowhere.
    ///
    /// # Errors
    /// If the kernel refuses. It accepts no frames shorter than an Ethernet header.
    pub fn judge(&self, frame: &[u8]) -> io::Result<Verdict> {
        Ok(match bpf::test_run(self.fd.as_fd(), frame)? {
            bpf::XDP_PASS => Verdict::Pass,
            bpf::XDP_REDIRECT => Verdict::Redirect,
            other => Verdict::Other(other),
        })
    }

    /// Attaches the program to an interface.
    ///
    /// # Errors
    /// If another program is already attached (the error says which), or the kernel refuses.
    pub fn attach(
        &self,
        interface: &str,
        index: u32,
        mode: AttachMode,
    ) -> Result<Attached, ProgramError> {
        attach::attach(self.fd.as_fd(), interface, index, mode)
    }
}

/// An address in the map's format: IPv4 addresses are mapped into IPv6.
fn key_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests;
