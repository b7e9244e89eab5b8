//! The two ends of a ring: packets in shared memory.
//!
//! A ring holds *records*. A record is one packet or several of the same length, one after the other, behind
//! a head of 16 bytes. Records begin on cache lines.
//!
//! Neither end trusts the other: it reads a counter or a head once, and checks it before it uses it. The
//! receiver copies each packet out of the ring before anybody looks at it.

use crate::mapping::{Mapping, RING_BYTES};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;

/// Bytes in front of a record's packets.
const HEAD_BYTES: usize = 16;
/// Records begin at multiples of this number of bytes.
const LINE: usize = 64;
/// The longest packet, from BTH to ICRC.
pub const MAX_PACKET_BYTES: usize = 9216;
/// The most bytes of packets in a record. A receiver can begin with a record only when it is complete.
const MAX_RUN_BYTES: usize = 8 << 10;

/// What a record says of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Head {
    /// Bytes of each packet.
    len: u32,
    count: u16,
    src_port: u16,
    traffic_class: u8,
    has_icrc: u8,
    reserved: [u8; 6],
}

const _: () = assert!(size_of::<Head>() == HEAD_BYTES);

/// What travels with a packet beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The UDP source port that the packet would have had.
    pub src_port: u16,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Whether the packet ends with its ICRC. Otherwise its last four bytes mean nothing.
    pub has_icrc: bool,
}

/// The other end has written what no end writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end of the lane has written impossible values into it")
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Broken {}

/// Why there is no room for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The receiver has to take packets first.
    Full,
    /// The ring is useless.
    Broken,
}

/// The end that adds packets.
#[derive(Debug)]
pub struct Sender {
    ring: Mapping,
    tail: u64,
    /// What the receiver sees of that.
    shown: u64,
    /// The receiver's head when it was last read.
    head: u64,
    reserved: Option<Head>,
    wants_icrc: bool,
}

impl Sender {
    /// A new ring for packets from `source`. Returns the file for its receiver, too.
    ///
    /// # Errors
    /// If the system refuses the memory or a descriptor.
    pub fn create(source: IpAddr) -> io::Result<(Self, OwnedFd)> {
        let (ring, file) = Mapping::create(source)?;
        let sender = Self {
            ring,
            tail: 0,
            shown: 0,
            head: 0,
            reserved: None,
            wants_icrc: true,
        };
        Ok((sender, file))
    }

    /// Notes that the receiver has accepted the ring.
    pub fn note_accepted(&mut self) {
        self.wants_icrc = self.ring.wants_icrc();
    }

    /// Whether the receiver wants packets with their ICRC.
    #[inline]
    pub fn wants_icrc(&self) -> bool {
        self.wants_icrc
    }

    /// Makes room for at least one packet of `len` bytes and at most `count`, one after the other:
    /// [`Sender::room`]. Replaces an earlier reservation.
    ///
    /// # Errors
    /// See [`NoRoom`]. Packets of 0 and of more than [`MAX_PACKET_BYTES`] bytes never have room.
    #[inline]
    pub fn reserve(&mut self, label: Label, len: usize, count: usize) -> Result<(), NoRoom> {
        self.reserved = None;
        if len == 0 || len > MAX_PACKET_BYTES {
            return Err(NoRoom::Broken);
        }
        let mut count = count.clamp(1, (MAX_RUN_BYTES / len).max(1));
        if self.free()? < record_bytes(len, count) {
            self.head = self.ring.counters().head();
            if self.free()? < record_bytes(len, count) {
                count = 1;
                if self.free()? < record_bytes(len, count) {
                    return Err(NoRoom::Full);
                }
            }
        }
        self.reserved = Some(Head {
            len: len as u32,
            count: count as u16,
            src_port: label.src_port,
            traffic_class: label.traffic_class,
            has_icrc: label.has_icrc.into(),
            reserved: [0; 6],
        });
        Ok(())
    }

    /// The room that was reserved last, and is not committed; empty if there is none.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        let bytes = self
            .reserved
            .map_or(0, |head| head.len as usize * usize::from(head.count));
        let start = self.ring.at(self.tail + HEAD_BYTES as u64);
        // SAFETY: the room is free and at most the ring's length, which is mapped from each position on. A
        // receiver that keeps to the protocol does not look at it. One that does not can change the bytes
        // under us. That changes what it receives itself, and nothing else: no length or address is read
        // back, only, with an ICRC, the bytes that the ICRC covers.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    /// Bytes that the receiver has taken, as far as is known, and that are not used again yet.
    #[inline]
    fn free(&self) -> Result<usize, NoRoom> {
        let filled = self.tail.wrapping_sub(self.head);
        let free = (RING_BYTES as u64).checked_sub(filled);
        free.map(|free| free as usize).ok_or(NoRoom::Broken)
    }

    /// Adds the packets that were reserved last, if there are any. Returns their number. The receiver sees
    /// them after [`Sender::show`], or earlier if there are many.
    #[inline]
    pub fn commit(&mut self) -> usize {
        let Some(head) = self.reserved.take() else {
            return 0;
        };
        // SAFETY: the head lies in front of the room that was reserved, and is aligned as the record is.
        unsafe { self.ring.at(self.tail).cast::<Head>().write(head) };
        self.tail += record_bytes(head.len as usize, head.count.into()) as u64;
        if self.tail - self.shown >= MAX_RUN_BYTES as u64 {
            self.ring.counters().advance_tail(self.tail);
            self.shown = self.tail;
        }
        head.count.into()
    }

    /// Shows the receiver all packets that were added. An answer and the acknowledgement behind it so
    /// arrive together, as in one datagram.
    #[inline]
    pub fn show(&mut self) {
        if self.tail != self.shown {
            self.ring.counters().advance_tail(self.tail);
            self.shown = self.tail;
        }
    }

    /// Whether the caller has to wake up the receiver, so that it takes the packets that it sees. Ask
    /// after [`Sender::show`].
    #[inline]
    pub fn must_wake_receiver(&self) -> bool {
        self.ring.counters().must_wake_receiver()
    }

    /// Whether the receiver has closed the ring.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.ring.counters().is_closed()
    }
}

/// The end that takes packets.
#[derive(Debug)]
pub struct Receiver {
    ring: Mapping,
    head: u64,
    source: IpAddr,
}

impl Receiver {
    /// The ring in a file that another process has sent.
    ///
    /// # Errors
    /// If the file is not a ring's.
    pub fn open(file: BorrowedFd<'_>, wants_icrc: bool) -> io::Result<Self> {
        let ring = Mapping::open(file)?;
        ring.set_wants_icrc(wants_icrc);
        Ok(Self {
            source: ring.source(),
            head: 0,
            ring,
        })
    }

    /// The source address of all packets, according to the sender.
    pub fn source(&self) -> IpAddr {
        self.source
    }

    /// Passes packets to `sink`, with their labels and their indices in their records, until `budget`
    /// packets are passed or none is left. Returns their number. `room` has [`MAX_PACKET_BYTES`] bytes.
    ///
    /// # Errors
    /// If the sender has written impossible values. The packets in front of them were passed.
    #[inline]
    pub fn take(
        &mut self,
        budget: usize,
        room: &mut [u8],
        mut sink: impl FnMut(Label, u16, &[u8]),
    ) -> Result<usize, Broken> {
        let filled = self.ring.counters().tail().wrapping_sub(self.head);
        if filled == 0 {
            return Ok(0);
        }
        let mut filled = usize::try_from(filled).map_err(|_| Broken)?;
        if filled > RING_BYTES || !filled.is_multiple_of(LINE) {
            return Err(Broken);
        }
        let mut packets = 0;
        while filled > 0 && packets < budget {
            let record = self.ring.at(self.head);
            // SAFETY: a whole line is mapped from there on, and aligned. The sender may write it at the same
            // time, so it is read once, and any bytes are a valid head.
            let head = unsafe { record.cast::<Head>().read_volatile() };
            let (len, count) = (head.len as usize, usize::from(head.count));
            let is_legal = (1..=MAX_PACKET_BYTES).contains(&len)
                && (count == 1 || (1..=MAX_RUN_BYTES / len).contains(&count));
            if !is_legal {
                return Err(Broken);
            }
            let bytes = record_bytes(len, count);
            if bytes > filled {
                return Err(Broken);
            }
            let label = Label {
                src_port: head.src_port,
                traffic_class: head.traffic_class,
                has_icrc: head.has_icrc != 0,
            };
            let packet = room.get_mut(..len).ok_or(Broken)?;
            for index in 0..count {
                // SAFETY: the packets lie in the record, which lies in what is mapped. The copy goes to
                // memory of ours.
                unsafe {
                    let from = record.add(HEAD_BYTES + index * len);
                    ptr::copy_nonoverlapping(from, packet.as_mut_ptr(), len);
                }
                sink(label, index as u16, packet);
            }
            packets += count;
            filled -= bytes;
            self.head += bytes as u64;
            self.ring.counters().advance_head(self.head);
        }
        Ok(packets)
    }

    /// Announces that the receiver is about to sleep. It may do so if this returns true.
    pub fn fall_asleep(&self) -> bool {
        self.ring.counters().fall_asleep(self.head)
    }

    /// Whether no packets wait.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.counters().tail() == self.head
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ring.counters().close();
    }
}

/// Bytes of a record.
#[inline]
fn record_bytes(len: usize, count: usize) -> usize {
    (HEAD_BYTES + len * count).next_multiple_of(LINE)
}
