//! A switch's congestion point, as a BPF program at the egress of an interface.
//!
//! It keeps one time: when a link of a given rate would have sent all packets that have passed. The
//! time until then is the queue of that link. An ECN-capable RoCE packet is marked "congestion
//! experienced" (RFC 3168, 5) with a probability that grows with this queue, as in random early
//! detection. The real queue behind it, of a token bucket filter, may drop packets; this one only
//! marks.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The properties of a link, and when it is congested.
#[derive(Clone, Copy, Debug)]
pub struct Marking {
    /// Bits per second.
    pub rate: u64,
    /// Wait up to which no packet is marked, in nanoseconds.
    pub none_up_to: u32,
    /// Wait from which on every packet is marked, in nanoseconds.
    pub all_from: u32,
    /// Probability just below `all_from`, in percent.
    pub percent: u8,
    /// Capacity of the queue, in nanoseconds. A packet that does not fit does not lengthen it.
    pub longest: u32,
}

impl Marking {
    /// The growth of the probability with each nanosecond, in units of 2^-32.
    fn chance_per_nanosecond(&self) -> u64 {
        let range = self.all_from.saturating_sub(self.none_up_to).max(1);
        (u64::from(self.percent) << 32) / 100 / u64::from(range)
    }
}

/// The attached program. Dropping this value detaches it.
#[derive(Debug)]
pub struct Marker {
    _link: OwnedFd,
    state: OwnedFd,
}

/// Commands, kinds and helpers: include/uapi/linux/bpf.h.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_ARRAY: u32 = 2;
const PROG_SCHED_CLS: u32 = 3;
const TCX_EGRESS: u32 = 47;
const HELPER_MAP_LOOKUP: i32 = 1;
const HELPER_KTIME: i32 = 5;
const HELPER_RANDOM: i32 = 7;
const HELPER_STORE_BYTES: i32 = 9;
const HELPER_IP_CHECKSUM: i32 = 10;

/// The state: when the link is free, and the number of marked packets.
type State = [u64; 2];

impl Marker {
    /// Attaches it to an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel refuses. The error has the verifier's log.
    pub fn attach(interface: &str, marking: &Marking) -> io::Result<Self> {
        let state = bpf(
            MAP_CREATE,
            &words(&[MAP_ARRAY, 4, size_of::<State>() as u32, 1]),
        )?;
        let program = load(&instructions(marking, state.as_raw_fd()))?;
        let name = CString::new(interface)?;
        // SAFETY: a string that ends with zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let program = program.as_raw_fd().cast_unsigned();
        let link = bpf(LINK_CREATE, &words(&[program, index, TCX_EGRESS, 0]))?;
        Ok(Self { _link: link, state })
    }

    /// The number of packets that it has marked.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn marked(&self) -> io::Result<u64> {
        let (key, mut state) = (0_u32, State::default());
        let mut attributes = words(&[self.state.as_raw_fd().cast_unsigned(), 0]);
        attributes[1] = (&raw const key) as u64;
        attributes[2] = (&raw mut state) as u64;
        call(MAP_LOOKUP, &attributes)?;
        Ok(state[1])
    }
}

/// The argument of `bpf(2)`, long enough for each command.
type Attributes = [u64; 19];

fn words(words: &[u32]) -> Attributes {
    let mut attributes = Attributes::default();
    for (i, word) in words.iter().enumerate() {
        attributes[i / 2] |= u64::from(*word) << (32 * (i % 2));
    }
    attributes
}

fn load(program: &[u64]) -> io::Result<OwnedFd> {
    let (license, mut log) = (c"Dual MIT/GPL", vec![0_u8; 1 << 16]);
    let mut attributes = words(&[PROG_SCHED_CLS, program.len() as u32]);
    attributes[1] = program.as_ptr() as u64;
    attributes[2] = license.as_ptr() as u64;
    attributes[3] = 1 | (log.len() as u64) << 32;
    attributes[4] = log.as_mut_ptr() as u64;
    bpf(PROG_LOAD, &attributes).map_err(|e| {
        let said = String::from_utf8_lossy(&log);
        io::Error::new(e.kind(), format!("{e}: {}", said.trim_end_matches('\0')))
    })
}

fn bpf(command: libc::c_long, attributes: &Attributes) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call(command: libc::c_long, attributes: &Attributes) -> io::Result<i32> {
    // SAFETY: the kernel reads as many bytes as the call states, and all callers keep alive what
    // they point to.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of::<Attributes>(),
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(answer).map_err(io::Error::other)
}

/// Instructions, and the jumps to the end whose offsets are not known yet.
#[derive(Default)]
struct Code {
    instructions: Vec<u64>,
    leave: Vec<usize>,
}

impl Code {
    /// One instruction: operation, destination, source, offset, value.
    fn put(&mut self, op: u8, to: u8, from: u8, offset: i16, value: i32) {
        let registers = from << 4 | to;
        let offset = u64::from(offset.cast_unsigned());
        let value = u64::from(value.cast_unsigned());
        self.instructions
            .push(u64::from(op) | u64::from(registers) << 8 | offset << 16 | value << 32);
    }

    /// Leaves the packet unchanged if the comparison is true.
    fn leave_if(&mut self, op: u8, left: u8, right: u8, value: i32) {
        self.leave.push(self.instructions.len());
        self.put(op, left, right, 0, value);
    }

    fn finish(mut self) -> Vec<u64> {
        let end = self.instructions.len();
        for at in self.leave {
            self.instructions[at] |= ((end - at - 1) as u64) << 16;
        }
        self.instructions
    }
}

// Operations: include/uapi/linux/bpf_common.h and bpf.h.
const COPY: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const ADD_REG: u8 = 0x0f;
const SUB: u8 = 0x17;
const SUB_REG: u8 = 0x1f;
const MUL: u8 = 0x27;
const RIGHT: u8 = 0x77;
const LEFT: u8 = 0x67;
const AND: u8 = 0x57;
const OR: u8 = 0x47;
const LOAD8: u8 = 0x71;
const LOAD16: u8 = 0x69;
const LOAD32: u8 = 0x61;
const LOAD64: u8 = 0x79;
const STORE8: u8 = 0x73;
const STORE32_VALUE: u8 = 0x62;
const STORE64: u8 = 0x7b;
const IF_EQUAL: u8 = 0x15;
const IF_NOT_EQUAL: u8 = 0x55;
const IF_ABOVE: u8 = 0x25;
const IF_ABOVE_REG: u8 = 0x2d;
const IF_NOT_BELOW: u8 = 0x35;
const IF_NOT_BELOW_REG: u8 = 0x3d;
const IF_NOT_ABOVE: u8 = 0xb5;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

// Offsets in `struct __sk_buff`.
const LEN: i16 = 0;
const DATA: i16 = 76;
const DATA_END: i16 = 80;

// Offsets in an IPv4 frame without options.
const ETHER_TYPE: i16 = 12;
const TOS: i16 = 15;
const PROTOCOL: i16 = 23;
const IP_CHECKSUM: i32 = 24;
const UDP_DESTINATION: i16 = 36;
const HEADERS: i32 = 42;

fn instructions(marking: &Marking, state: i32) -> Vec<u64> {
    let nanoseconds_per_kib = 8 * 1024 * 1_000_000_000 / marking.rate;
    let value = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    let big_endian = |number: u16| i32::from(number.to_be());
    let mut code = Code::default();
    let c = &mut code;
    // r6: the packet. r7: its type of service.
    c.put(COPY, 6, 1, 0, 0);
    c.put(LOAD32, 2, 6, DATA, 0);
    c.put(LOAD32, 3, 6, DATA_END, 0);
    c.put(COPY, 4, 2, 0, 0);
    c.put(ADD, 4, 0, 0, HEADERS);
    c.leave_if(IF_ABOVE_REG, 4, 3, 0);
    c.put(LOAD16, 5, 2, ETHER_TYPE, 0);
    c.leave_if(IF_NOT_EQUAL, 5, 0, big_endian(0x0800));
    c.put(LOAD8, 5, 2, PROTOCOL, 0);
    c.leave_if(IF_NOT_EQUAL, 5, 0, 17);
    c.put(LOAD16, 5, 2, UDP_DESTINATION, 0);
    c.leave_if(IF_NOT_EQUAL, 5, 0, big_endian(4791));
    c.put(LOAD8, 7, 2, TOS, 0);
    // r8: the state. r9: when the link is free, at the earliest now.
    c.put(STORE32_VALUE, 10, 0, -4, 0);
    c.put(0x18, 1, 1, 0, state);
    c.instructions.push(0);
    c.put(COPY, 2, 10, 0, 0);
    c.put(ADD, 2, 0, 0, -4);
    c.put(CALL, 0, 0, 0, HELPER_MAP_LOOKUP);
    c.leave_if(IF_EQUAL, 0, 0, 0);
    c.put(COPY, 8, 0, 0, 0);
    c.put(CALL, 0, 0, 0, HELPER_KTIME);
    c.put(LOAD64, 9, 8, 0, 0);
    c.put(IF_NOT_BELOW_REG, 9, 0, 1, 0);
    c.put(COPY, 9, 0, 0, 0);
    // r1: the packet's wait. Its transmission time is added, if there is room.
    c.put(COPY, 1, 9, 0, 0);
    c.put(SUB_REG, 1, 0, 0, 0);
    c.put(IF_ABOVE, 1, 0, 5, value(marking.longest.into()));
    c.put(LOAD32, 2, 6, LEN, 0);
    c.put(MUL, 2, 0, 0, value(nanoseconds_per_kib));
    c.put(RIGHT, 2, 0, 0, 10);
    c.put(ADD_REG, 9, 2, 0, 0);
    c.put(STORE64, 8, 9, 0, 0);
    c.leave_if(IF_NOT_ABOVE, 1, 0, value(marking.none_up_to.into()));
    // Skip packets that are not ECN-capable or already marked.
    c.put(COPY, 2, 7, 0, 0);
    c.put(AND, 2, 0, 0, 3);
    c.leave_if(IF_EQUAL, 2, 0, 0);
    c.leave_if(IF_EQUAL, 2, 0, 3);
    // Below `all_from`, mark at random: if a random 32-bit number is below a value that grows with
    // each nanosecond. r9: the wait.
    c.put(COPY, 9, 1, 0, 0);
    c.put(IF_NOT_BELOW, 9, 0, 4, value(marking.all_from.into()));
    c.put(CALL, 0, 0, 0, HELPER_RANDOM);
    c.put(SUB, 9, 0, 0, value(marking.none_up_to.into()));
    c.put(MUL, 9, 0, 0, value(marking.chance_per_nanosecond()));
    c.leave_if(IF_NOT_BELOW_REG, 0, 9, 0);
    c.put(LOAD64, 2, 8, 8, 0);
    c.put(ADD, 2, 0, 0, 1);
    c.put(STORE64, 8, 2, 8, 0);
    // Set the mark, and update the checksum of the header.
    c.put(COPY, 9, 7, 0, 0);
    c.put(OR, 9, 0, 0, 3);
    c.put(STORE8, 10, 9, -8, 0);
    c.put(COPY, 1, 6, 0, 0);
    c.put(SET, 2, 0, 0, IP_CHECKSUM);
    c.put(COPY, 3, 7, 0, 0);
    c.put(LEFT, 3, 0, 0, 8);
    c.put(COPY, 4, 9, 0, 0);
    c.put(LEFT, 4, 0, 0, 8);
    c.put(SET, 5, 0, 0, 2);
    c.put(CALL, 0, 0, 0, HELPER_IP_CHECKSUM);
    c.put(COPY, 1, 6, 0, 0);
    c.put(SET, 2, 0, 0, TOS.into());
    c.put(COPY, 3, 10, 0, 0);
    c.put(ADD, 3, 0, 0, -8);
    c.put(SET, 4, 0, 0, 1);
    c.put(SET, 5, 0, 0, 0);
    c.put(CALL, 0, 0, 0, HELPER_STORE_BYTES);
    let mut instructions = code.finish();
    // Continue with the next program, if any (TCX_NEXT).
    let mut end = Code::default();
    end.put(SET, 0, 0, 0, -1);
    end.put(EXIT, 0, 0, 0, 0);
    instructions.extend(end.instructions);
    instructions
}
