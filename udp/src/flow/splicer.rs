//! Whether, and from which size on, datagrams leave without a copy.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::cheaper::{CheaperWay, Way};
use crate::config::UdpSplice;
use crate::sys::memory::Blocks;
use crate::sys::options;
use crate::sys::splice::Pipe;

/// Why datagrams are always copied.
pub(crate) type Reason = &'static str;

/// With [`UdpSplice::Auto`], shorter datagrams are copied: two system calls cost as much.
const AUTO_FROM: usize = 16 << 10;

/// A burst with less in it, by this way, is not compared with others.
const LEAST_SHARE: (u64, u64) = (3, 4);

/// Sends datagrams without a copy.
pub(crate) struct Splicer {
    /// The shortest datagram that is sent so, in bytes.
    from: usize,
    pipe: Option<Pipe>,
    off: Option<Reason>,
    /// With [`UdpSplice::Auto`].
    cheaper: Option<CheaperWay>,
    way: Way,
    /// When the burst began, if it is timed.
    began: Option<Instant>,
}

impl Splicer {
    pub(crate) fn new(which: UdpSplice) -> Self {
        let off = match which {
            UdpSplice::Auto | UdpSplice::From(_) => works().err(),
            UdpSplice::Off => Some("the configuration has it off"),
        };
        let from = match which {
            UdpSplice::Auto => AUTO_FROM,
            UdpSplice::From(bytes) => bytes,
            UdpSplice::Off => usize::MAX,
        };
        let is_open = which == UdpSplice::Auto && off.is_none();
        Self {
            from,
            pipe: None,
            off,
            cheaper: is_open.then(CheaperWay::new),
            way: Way::Reference,
            began: None,
        }
    }

    /// Chooses the way for a burst: the packets from the first one in an empty queue until the port
    /// flushes.
    #[inline]
    pub(crate) fn begin_burst(&mut self) {
        if let Some(cheaper) = &mut self.cheaper {
            let (way, is_timed) = cheaper.next();
            self.way = way;
            self.began = is_timed.then(Instant::now);
        }
    }

    /// Notes that a burst was sent: `bytes` bytes, of them `by_reference` without a copy.
    #[inline]
    pub(crate) fn end_burst(&mut self, bytes: u64, by_reference: u64) {
        let (Some(began), Some(cheaper)) = (self.began.take(), &mut self.cheaper) else {
            return;
        };
        let goes_this_way = match self.way {
            Way::Copy => by_reference == 0,
            Way::Reference => by_reference * LEAST_SHARE.1 >= bytes * LEAST_SHARE.0,
        };
        if bytes >= self.from as u64 && goes_this_way {
            cheaper.note(self.way, bytes as usize, began.elapsed());
        }
    }

    /// Why every datagram is copied; `None` if long ones are not.
    pub(crate) fn off(&self) -> Option<Reason> {
        self.off
    }

    /// Whether a packet of `len` bytes may begin a datagram that is not copied.
    pub(crate) fn wants_packet(&self, len: usize) -> bool {
        /// Shorter packets seldom make up a long datagram.
        const LEAST: usize = 1024;
        self.off.is_none() && len >= LEAST.min(self.from)
    }

    /// Whether a datagram that begins with a packet of `len` bytes is to leave without a copy, in
    /// this burst.
    pub(crate) fn takes_packet(&self, len: usize) -> bool {
        self.way == Way::Reference && self.wants_packet(len)
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
