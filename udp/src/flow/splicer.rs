//! Whether, and from which size on, datagrams leave without a copy.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::Duration;

use crate::sys::memory::Blocks;
use crate::sys::options;
use crate::sys::splice::Pipe;

/// Why datagrams are always copied.
pub(crate) type Reason = &'static str;

/// Sends datagrams without a copy.
pub(crate) struct Splicer {
    /// The shortest datagram that is sent so, in bytes.
    from: usize,
    pipe: Option<Pipe>,
    off: Option<Reason>,
}

impl Splicer {
    /// For datagrams of `from` bytes and more; for none if `None`.
    pub(crate) fn new(from: Option<usize>) -> Self {
        let off = match from {
            Some(_) => works().err(),
            None => Some("the configuration has it off"),
        };
        Self {
            from: from.unwrap_or(usize::MAX),
            pipe: None,
            off,
        }
    }

    /// Why every datagram is copied; `None` if long ones are not.
    pub(crate) fn off(&self) -> Option<Reason> {
        self.off
    }

    /// Whether a packet of `len` bytes may be part of a datagram that is not copied.
    pub(crate) fn wants_packet(&self, len: usize) -> bool {
        /// Shorter packets seldom make up a long datagram.
        const LEAST: usize = 1024;
        self.off.is_none() && len >= LEAST.min(self.from)
    }

    /// Whether a datagram of `len` bytes is sent without a copy.
    pub(crate) fn wants(&self, len: usize) -> bool {
        self.off.is_none() && len >= self.from
    }

    /// Copies every datagram from now on.
    pub(crate) fn turn_off(&mut self) {
        self.off = Some("the kernel refused to segment a datagram that was not copied");
    }

    /// Sends a datagram from a connected socket without copying it.
    ///
    /// # Errors
    /// The kernel's error. Nothing was sent.
    pub(crate) fn send(&mut self, to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        let pipe = match self.pipe.take() {
            Some(pipe) => pipe,
            None => Pipe::new()?,
        };
        pipe.send(to, bytes)?;
        // After an error, the pipe may hold part of the datagram, and is closed.
        self.pipe = Some(pipe);
        Ok(())
    }
}

/// Whether this kernel sends datagrams that are spliced into a UDP socket, and by reference.
pub(crate) fn works() -> Result<(), Reason> {
    static ANSWER: OnceLock<Result<(), Reason>> = OnceLock::new();
    if let Some(answer) = ANSWER.get() {
        return *answer;
    }
    match try_it() {
        Ok(true) => *ANSWER.get_or_init(|| Ok(())),
        Ok(false) => *ANSWER.get_or_init(|| {
            Err("this kernel copies what is spliced into a UDP socket (Linux 6.5 does not)")
        }),
        // Another attempt may fare better: there may have been no descriptor, or no time.
        Err(_) => Err("a segmented datagram that was spliced into a UDP socket did not arrive"),
    }
}

/// Sends a datagram of several segments to a socket of this process, and changes the memory before
/// it is received: if the change arrives, the kernel has not copied it.
fn try_it() -> io::Result<bool> {
    const SEGMENT: usize = 1000;
    const LEN: usize = 2 * SEGMENT + 500;
    let there = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    there.set_read_timeout(Some(Duration::from_millis(100)))?;
    let here = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    here.connect(there.local_addr()?)?;
    let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
    options::set(here.as_fd(), level, name, SEGMENT as i32)?;
    let mut memory = Blocks::map(1)?;
    memory.bytes_mut(0)[..LEN].fill(1);
    Pipe::new()?.send(here.as_fd(), &memory.bytes(0)[..LEN])?;
    memory.bytes_mut(0)[..LEN].fill(2);
    let (mut received, mut buffer) = (0, [0; 1 << 12]);
    let mut by_reference = true;
    while received < LEN {
        let len = there.recv(&mut buffer)?;
        if len == 0 || len > SEGMENT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        by_reference &= buffer[..len].iter().all(|&byte| byte == 2);
        received += len;
    }
    Ok(by_reference)
}
