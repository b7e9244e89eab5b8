//! The kernel's filter, a classic BPF program, so that other traffic costs nothing here.

use libc::sock_filter;
use roce_wire::UDP_PORT;

/// The number of bytes to return of each packet: more than any packet has.
const WHOLE: u32 = 256 << 10;

const ETHERTYPE_IPV4: u32 = 0x0800;
const ETHERTYPE_IPV6: u32 = 0x86dd;
const ETHERTYPE_ROCE_V1: u32 = 0x8915;
const ETHERTYPES_VLAN: [u32; 2] = [0x8100, 0x88a8];
const UDP: u32 = 17;

/// The most VLAN tags in a frame. (The kernel may have removed one more.)
const MAX_VLANS: u32 = 2;

/// The target of a jump, relative to the next instruction.
#[derive(Clone, Copy)]
enum To {
    Next,
    Accept,
    Reject,
    /// Skip this many instructions.
    Skip(u8),
}

/// A program under construction.
#[derive(Default)]
struct Program(Vec<(sock_filter, To, To)>);

impl Program {
    fn plain(&mut self, code: u32, k: u32) {
        self.branch(code, k, To::Next, To::Next);
    }

    fn branch(&mut self, code: u32, k: u32, yes: To, no: To) {
        let instruction = sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        };
        self.0.push((instruction, yes, no));
    }

    /// Continues only if the loaded value is `k`.
    fn require(&mut self, k: u32) {
        self.branch(libc::BPF_JMP | libc::BPF_JEQ, k, To::Next, To::Reject);
    }

    fn load_byte(&mut self, at: u32) {
        self.plain(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, at);
    }

    fn load_half(&mut self, at: u32) {
        self.plain(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, at);
    }

    /// Filters an IPv4 packet at `at`. Always emits [`V4_LEN`] instructions.
    fn ipv4(&mut self, at: u32) {
        self.load_byte(at + 9);
        self.require(UDP);
        // Fragments other than the first have no UDP header.
        self.load_half(at + 6);
        let fragment = libc::BPF_JMP | libc::BPF_JSET;
        self.branch(fragment, 0x1fff, To::Reject, To::Next);
        // Loads the header's length into the index register.
        self.plain(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, at);
        self.plain(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, at + 2);
        let is_roce = libc::BPF_JMP | libc::BPF_JEQ;
        self.branch(is_roce, UDP_PORT.into(), To::Accept, To::Reject);
    }

    /// Filters an IPv6 packet at `at`. RoCE packets have no extension headers.
    fn ipv6(&mut self, at: u32) {
        self.load_byte(at + 6);
        self.require(UDP);
        self.load_half(at + 40 + 2);
        let is_roce = libc::BPF_JMP | libc::BPF_JEQ;
        self.branch(is_roce, UDP_PORT.into(), To::Accept, To::Reject);
    }

    /// Resolves the jumps, and appends the two verdicts.
    fn finish(self) -> Vec<sock_filter> {
        let len = self.0.len();
        let mut program: Vec<sock_filter> = self
            .0
            .into_iter()
            .enumerate()
            .map(|(index, (mut instruction, yes, no))| {
                let distance = |to| match to {
                    To::Next => 0,
                    To::Skip(count) => count,
                    // These programs have far fewer than 256 instructions.
                    To::Accept => (len - index - 1) as u8,
                    To::Reject => (len - index) as u8,
                };
                (instruction.jt, instruction.jf) = (distance(yes), distance(no));
                instruction
            })
            .collect();
        for verdict in [WHOLE, 0] {
            program.push(sock_filter {
                code: (libc::BPF_RET | libc::BPF_K) as u16,
                jt: 0,
                jf: 0,
                k: verdict,
            });
        }
        program
    }
}

/// Number of instructions of [`Program::ipv4`] and [`Program::ipv6`].
const V4_LEN: u8 = 7;
const V6_LEN: u8 = 4;

/// The filter for frames: RoCEv2 and RoCE v1, each in up to two VLANs.
pub(super) fn ethernet() -> Vec<sock_filter> {
    let equal = libc::BPF_JMP | libc::BPF_JEQ;
    let mut program = Program::default();
    for vlans in 0..=MAX_VLANS {
        let at = 14 + 4 * vlans;
        program.load_half(at - 2);
        program.branch(equal, ETHERTYPE_ROCE_V1, To::Accept, To::Next);
        program.branch(equal, ETHERTYPE_IPV4, To::Next, To::Skip(V4_LEN));
        program.ipv4(at);
        program.branch(equal, ETHERTYPE_IPV6, To::Next, To::Skip(V6_LEN));
        program.ipv6(at);
        if vlans == MAX_VLANS {
            // Three tags are too many: the decoder does not read them.
            program.branch(equal, ETHERTYPES_VLAN[0], To::Reject, To::Reject);
        } else {
            program.branch(equal, ETHERTYPES_VLAN[0], To::Skip(1), To::Next);
            program.branch(equal, ETHERTYPES_VLAN[1], To::Next, To::Reject);
        }
    }
    program.finish()
}

/// The filter for packets without a link header: RoCEv2.
pub(super) fn raw_ip() -> Vec<sock_filter> {
    let mut program = Program::default();
    program.load_byte(0);
    program.plain(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 4);
    let equal = libc::BPF_JMP | libc::BPF_JEQ;
    program.branch(equal, 4, To::Next, To::Skip(V4_LEN));
    program.ipv4(0);
    program.require(6);
    program.ipv6(0);
    program.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program on a packet as the kernel would; returns whether it accepts the packet.
    fn accepts(program: &[sock_filter], packet: &[u8]) -> bool {
        let bytes = |at: u32, count: usize| {
            let found = packet.get(at as usize..)?.get(..count)?;
            Some(
                found
                    .iter()
                    .fold(0, |sum, &byte| sum << 8 | u32::from(byte)),
            )
        };
        let (mut a, mut x, mut next) = (0_u32, 0_u32, 0);
        loop {
            let instruction = program[next];
            next += 1;
            let k = instruction.k;
            let loaded = match instruction.code {
                0x30 => bytes(k, 1),
                0x28 => bytes(k, 2),
                0x48 => bytes(x + k, 2),
                0xb1 => bytes(k, 1).map(|byte| 4 * (byte & 0xf)),
                0x74 => Some(a >> k),
                0x15 | 0x45 => {
                    let yes = match instruction.code {
                        0x15 => a == k,
                        _ => a & k != 0,
                    };
                    let distance = if yes { instruction.jt } else { instruction.jf };
                    next += usize::from(distance);
                    continue;
                }
                0x06 => return k != 0,
                code => panic!("instruction {code:#x}"),
            };
            // The kernel rejects packets that are too short for a load.
            let Some(loaded) = loaded else { return false };
            if instruction.code == 0xb1 {
                x = loaded;
            } else {
                a = loaded;
            }
        }
    }

    fn ipv4(header_words: u8, protocol: u8, fragment: u16, port: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(header_words) * 4 + 8];
        packet[0] = 0x40 | header_words;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        let at = usize::from(header_words) * 4 + 2;
        packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn ipv6(protocol: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 48];
        (packet[0], packet[6]) = (0x60, protocol);
        packet[42..44].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn frame(vlans: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xaa; 12];
        for tag in vlans {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 5]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    #[test]
    fn only_roce_is_accepted() {
        let (ethernet, raw) = (ethernet(), raw_ip());
        for (ethertype, packet, is_roce) in [
            (0x0800, ipv4(5, 17, 0, 4791), true),
            (0x0800, ipv4(5, 17, 0x4000, 4791), true),
            (0x0800, ipv4(15, 17, 0, 4791), true),
            (0x0800, ipv4(5, 17, 0x2000, 4791), true),
            (0x0800, ipv4(5, 17, 0x2001, 4791), false),
            (0x0800, ipv4(5, 17, 0, 4792), false),
            (0x0800, ipv4(5, 6, 0, 4791), false),
            (0x0800, ipv4(5, 17, 0, 4791)[..22].to_vec(), false),
            (0x86dd, ipv6(17, 4791), true),
            (0x86dd, ipv6(17, 53), false),
            (0x86dd, ipv6(58, 4791), false),
        ] {
            for vlans in [&[][..], &[0x8100], &[0x88a8], &[0x88a8, 0x8100]] {
                let frame = frame(vlans, ethertype, &packet);
                assert_eq!(accepts(&ethernet, &frame), is_roce, "{frame:x?}");
            }
            let three = frame(&[0x8100; 3], ethertype, &packet);
            assert!(!accepts(&ethernet, &three));
            assert_eq!(accepts(&raw, &packet), is_roce, "{packet:x?}");
        }
        for vlans in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            assert!(accepts(&ethernet, &frame(vlans, 0x8915, &[0; 60])));
            assert!(!accepts(&ethernet, &frame(vlans, 0x0806, &[0; 60])));
        }
        assert!(!accepts(&ethernet, &[]));
        assert!(!accepts(&raw, &[0x50; 60]));
    }

    #[test]
    fn jumps_fit_in_their_bytes() {
        assert!(ethernet().len() < 256 && raw_ip().len() < 256);
    }
}
