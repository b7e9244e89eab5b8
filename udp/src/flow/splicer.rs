//! Sends long datagrams without a copy by the kernel, if that is possible and cheaper.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::method::{Method, MethodChooser};
use crate::config::UdpSplice;
use crate::sys::memory::Blocks;
use crate::sys::options;
use crate::sys::splice::Pipe;

/// Why datagrams are always copied.
pub(crate) type Reason = &'static str;

/// With [`UdpSplice::Auto`], datagrams shorter than this are copied: for them, a copy costs no more
/// than the two system calls that avoid it.
const AUTO_MIN_BYTES: usize = 16 << 10;

/// The minimum share of a burst that must leave without a copy for the burst to be a sample of
/// [`Method::Reference`], as a fraction.
const MIN_REFERENCE_SHARE: (u64, u64) = (3, 4);

/// Sends datagrams without a copy.
pub(crate) struct Splicer {
    /// The length of the shortest datagram that is sent without a copy, in bytes.
    min_bytes: usize,
    pipe: Option<Pipe>,
    off_reason: Option<Reason>,
    /// Set with [`UdpSplice::Auto`].
    chooser: Option<MethodChooser>,
    method: Method,
    /// The time at which the burst began, if it is timed.
    began: Option<Instant>,
}

impl Splicer {
    pub(crate) fn new(config: UdpSplice) -> Self {
        let off_reason = match config {
            UdpSplice::Auto | UdpSplice::From(_) => check_support().err(),
            UdpSplice::Off => Some("the configuration has it off"),
        };
        let min_bytes = match config {
            UdpSplice::Auto => AUTO_MIN_BYTES,
            UdpSplice::From(bytes) => bytes,
            UdpSplice::Off => usize::MAX,
        };
        let is_auto = config == UdpSplice::Auto && off_reason.is_none();
        Self {
            min_bytes,
            pipe: None,
            off_reason,
            chooser: is_auto.then(MethodChooser::new),
            method: Method::Reference,
            began: None,
        }
    }

    /// Chooses the method for a burst. A burst begins with the first packet in an empty queue and
    /// ends when the port flushes.
    #[inline]
    pub(crate) fn begin_burst(&mut self) {
        if let Some(chooser) = &mut self.chooser {
            let (method, is_timed) = chooser.next();
            self.method = method;
            self.began = is_timed.then(Instant::now);
        }
    }

    /// Records that a burst of `bytes` bytes was sent, of which `by_reference` bytes were not
    /// copied.
    #[inline]
    pub(crate) fn end_burst(&mut self, bytes: u64, by_reference: u64) {
        let (Some(began), Some(chooser)) = (self.began.take(), &mut self.chooser) else {
            return;
        };
        let used_method = match self.method {
            Method::Copy => by_reference == 0,
            Method::Reference => {
                by_reference * MIN_REFERENCE_SHARE.1 >= bytes * MIN_REFERENCE_SHARE.0
            }
        };
        if bytes >= self.min_bytes as u64 && used_method {
            chooser.add_sample(self.method, bytes as usize, began.elapsed());
        }
    }

    /// Why the kernel copies every datagram; `None` if it does not copy long ones.
    pub(crate) fn off_reason(&self) -> Option<Reason> {
        self.off_reason
    }

    /// Whether a packet of `len` bytes is long enough to begin an uncopied datagram, whatever this
    /// burst's method. Returns `false` if every datagram is copied.
    pub(crate) fn may_begin_block(&self, len: usize) -> bool {
        /// The minimum length of the first packet, in bytes: shorter packets seldom make up a long
        /// datagram.
        const MIN_PACKET_BYTES: usize = 1024;
        self.off_reason.is_none() && len >= MIN_PACKET_BYTES.min(self.min_bytes)
    }

    /// Whether a packet of `len` bytes begins a datagram that is not copied, in this burst.
    pub(crate) fn begins_block_with(&self, len: usize) -> bool {
        self.method == Method::Reference && self.may_begin_block(len)
    }

    /// Whether a datagram of `len` bytes is sent without a copy.
    pub(crate) fn sends_by_reference(&self, len: usize) -> bool {
        self.off_reason.is_none() && len >= self.min_bytes
    }

    /// Makes the kernel copy every datagram from now on.
    pub(crate) fn turn_off(&mut self) {
        self.off_reason = Some("the kernel refused to segment a datagram that was not copied");
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

/// Checks that this kernel sends datagrams that are spliced into a UDP socket, and does not copy
/// them.
pub(crate) fn check_support() -> Result<(), Reason> {
    static ANSWER: OnceLock<Result<(), Reason>> = OnceLock::new();
    if let Some(answer) = ANSWER.get() {
        return *answer;
    }
    match probe() {
        Ok(true) => *ANSWER.get_or_init(|| Ok(())),
        Ok(false) => *ANSWER.get_or_init(|| {
            Err("this kernel copies what is spliced into a UDP socket (Linux 6.5 and newer do not)")
        }),
        // Do not remember this answer: the process may have been out of descriptors, or too slow.
        Err(_) => Err("a segmented datagram that was spliced into a UDP socket did not arrive"),
    }
}

/// Sends a datagram of several segments to a socket of this process, and changes the memory before
/// receiving it. Returns whether the change arrived, which shows that the kernel has not copied the
/// datagram.
fn probe() -> io::Result<bool> {
    const SEGMENT: usize = 1000;
    const LEN: usize = 2 * SEGMENT + 500;
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(Duration::from_millis(100)))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
    options::set(sender.as_fd(), level, name, SEGMENT as i32)?;
    let mut memory = Blocks::map(1)?;
    memory.bytes_mut(0)[..LEN].fill(1);
    Pipe::new()?.send(sender.as_fd(), &memory.bytes(0)[..LEN])?;
    memory.bytes_mut(0)[..LEN].fill(2);
    let (mut received, mut buffer) = (0, [0; 1 << 12]);
    let mut by_reference = true;
    while received < LEN {
        let len = receiver.recv(&mut buffer)?;
        if len == 0 || len > SEGMENT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        by_reference &= buffer[..len].iter().all(|&byte| byte == 2);
        received += len;
    }
    Ok(by_reference)
}
