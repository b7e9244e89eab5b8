//! The table of opcodes (IBTA 1.7, 9.2.1 and Annexes A14 and A19; RoCEv2 Annex
//! A17.9.3). RC and XRC differ in the XRCETH of requests, UC and UD are subsets.

use super::{Headers, Opcode, OpcodeInfo, Operation, Position, Suffix, Transport};
use crate::PayloadRule;

/// The value in [`INDEX`] of bytes that are not an opcode.
pub(super) const UNKNOWN: u8 = 0xff;

/// The index in [`TABLE`] of each byte's entry.
pub(super) static INDEX: [u8; 256] = {
    let mut index = [UNKNOWN; 256];
    let mut i = 0;
    while i < TABLE.len() {
        let byte = TABLE[i].opcode.0 as usize;
        assert!(index[byte] == UNKNOWN, "an opcode is in the table twice");
        index[byte] = i as u8;
        i += 1;
    }
    index
};

const fn union(sets: &[Headers]) -> Headers {
    let mut all = Headers::NONE;
    let mut i = 0;
    while i < sets.len() {
        all = all.union(sets[i]);
        i += 1;
    }
    all
}

macro_rules! opcodes {
    ($($byte:literal $const:ident $name:literal:
       $transport:ident $operation:ident $position:ident $suffix:ident
       [$($header:ident)*] $payload:ident;)*) => {
        impl Opcode {
            $(
                #[doc = concat!($name, ", `", stringify!($byte), "`.")]
                pub const $const: Opcode = Opcode($byte);
            )*
        }

        pub(super) static TABLE: [OpcodeInfo; [$($byte),*].len()] = [$({
            let headers = union(&[$(Headers::$header),*]);
            let (shortest, longest) = PayloadRule::$payload.bounds();
            OpcodeInfo {
                opcode: Opcode::$const,
                name: $name,
                transport: Transport::$transport,
                operation: Operation::$operation,
                position: Position::$position,
                suffix: Suffix::$suffix,
                headers,
                headers_len: headers.byte_len() as u8,
                payload: PayloadRule::$payload,
                shortest,
                slack: longest - shortest,
            }
        }),*];
    };
}

#[rustfmt::skip]
opcodes! {
    // rule: 9.2.1-rc-opcodes
    0x00 RC_SEND_FIRST "RC SEND First": Rc Send First None [] ExactlyMtu;
    0x01 RC_SEND_MIDDLE "RC SEND Middle": Rc Send Middle None [] ExactlyMtu;
    0x02 RC_SEND_LAST "RC SEND Last": Rc Send Last None [] OneToMtu;
    0x03 RC_SEND_LAST_WITH_IMMEDIATE "RC SEND Last with Immediate": Rc Send Last Immediate [IMM] OneToMtu;
    0x04 RC_SEND_ONLY "RC SEND Only": Rc Send Only None [] UpToMtu;
    0x05 RC_SEND_ONLY_WITH_IMMEDIATE "RC SEND Only with Immediate": Rc Send Only Immediate [IMM] UpToMtu;
    0x06 RC_WRITE_FIRST "RC RDMA WRITE First": Rc Write First None [RETH] ExactlyMtu;
    0x07 RC_WRITE_MIDDLE "RC RDMA WRITE Middle": Rc Write Middle None [] ExactlyMtu;
    0x08 RC_WRITE_LAST "RC RDMA WRITE Last": Rc Write Last None [] OneToMtu;
    0x09 RC_WRITE_LAST_WITH_IMMEDIATE "RC RDMA WRITE Last with Immediate": Rc Write Last Immediate [IMM] OneToMtu;
    0x0a RC_WRITE_ONLY "RC RDMA WRITE Only": Rc Write Only None [RETH] UpToMtu;
    0x0b RC_WRITE_ONLY_WITH_IMMEDIATE "RC RDMA WRITE Only with Immediate": Rc Write Only Immediate [RETH IMM] UpToMtu;
    0x0c RC_READ_REQUEST "RC RDMA READ Request": Rc ReadRequest Only None [RETH] None;
    0x0d RC_READ_RESPONSE_FIRST "RC RDMA READ Response First": Rc ReadResponse First None [AETH] ExactlyMtu;
    0x0e RC_READ_RESPONSE_MIDDLE "RC RDMA READ Response Middle": Rc ReadResponse Middle None [] ExactlyMtu;
    0x0f RC_READ_RESPONSE_LAST "RC RDMA READ Response Last": Rc ReadResponse Last None [AETH] OneToMtu;
    0x10 RC_READ_RESPONSE_ONLY "RC RDMA READ Response Only": Rc ReadResponse Only None [AETH] UpToMtu;
    0x11 RC_ACKNOWLEDGE "RC Acknowledge": Rc Acknowledge Only None [AETH] None;
    0x12 RC_ATOMIC_ACKNOWLEDGE "RC ATOMIC Acknowledge": Rc AtomicAcknowledge Only None [AETH ATOMIC_ACK] None;
    0x13 RC_COMPARE_SWAP "RC CmpSwap": Rc CompareSwap Only None [ATOMIC] None;
    0x14 RC_FETCH_ADD "RC FetchAdd": Rc FetchAdd Only None [ATOMIC] None;
    0x16 RC_SEND_LAST_WITH_INVALIDATE "RC SEND Last with Invalidate": Rc Send Last Invalidate [IETH] OneToMtu;
    0x17 RC_SEND_ONLY_WITH_INVALIDATE "RC SEND Only with Invalidate": Rc Send Only Invalidate [IETH] UpToMtu;
    // rule: A19-opcodes
    0x1c RC_FLUSH "RC FLUSH": Rc Flush Only None [FETH RETH] None;
    0x1d RC_ATOMIC_WRITE "RC ATOMIC WRITE": Rc AtomicWrite Only None [RETH] Eight;

    // rule: 9.2.1-uc-opcodes
    0x20 UC_SEND_FIRST "UC SEND First": Uc Send First None [] ExactlyMtu;
    0x21 UC_SEND_MIDDLE "UC SEND Middle": Uc Send Middle None [] ExactlyMtu;
    0x22 UC_SEND_LAST "UC SEND Last": Uc Send Last None [] OneToMtu;
    0x23 UC_SEND_LAST_WITH_IMMEDIATE "UC SEND Last with Immediate": Uc Send Last Immediate [IMM] OneToMtu;
    0x24 UC_SEND_ONLY "UC SEND Only": Uc Send Only None [] UpToMtu;
    0x25 UC_SEND_ONLY_WITH_IMMEDIATE "UC SEND Only with Immediate": Uc Send Only Immediate [IMM] UpToMtu;
    0x26 UC_WRITE_FIRST "UC RDMA WRITE First": Uc Write First None [RETH] ExactlyMtu;
    0x27 UC_WRITE_MIDDLE "UC RDMA WRITE Middle": Uc Write Middle None [] ExactlyMtu;
    0x28 UC_WRITE_LAST "UC RDMA WRITE Last": Uc Write Last None [] OneToMtu;
    0x29 UC_WRITE_LAST_WITH_IMMEDIATE "UC RDMA WRITE Last with Immediate": Uc Write Last Immediate [IMM] OneToMtu;
    0x2a UC_WRITE_ONLY "UC RDMA WRITE Only": Uc Write Only None [RETH] UpToMtu;
    0x2b UC_WRITE_ONLY_WITH_IMMEDIATE "UC RDMA WRITE Only with Immediate": Uc Write Only Immediate [RETH IMM] UpToMtu;

    // rule: 9.2.1-ud-opcodes
    0x64 UD_SEND_ONLY "UD SEND Only": Ud Send Only None [DETH] UpToMtu;
    0x65 UD_SEND_ONLY_WITH_IMMEDIATE "UD SEND Only with Immediate": Ud Send Only Immediate [DETH IMM] UpToMtu;

    // rule: A17.9.3-cnp-opcode
    0x81 CNP "CNP": Cnp Cnp Only None [CNP] None;

    // rule: A14-opcodes
    0xa0 XRC_SEND_FIRST "XRC SEND First": Xrc Send First None [XRCETH] ExactlyMtu;
    0xa1 XRC_SEND_MIDDLE "XRC SEND Middle": Xrc Send Middle None [XRCETH] ExactlyMtu;
    0xa2 XRC_SEND_LAST "XRC SEND Last": Xrc Send Last None [XRCETH] OneToMtu;
    0xa3 XRC_SEND_LAST_WITH_IMMEDIATE "XRC SEND Last with Immediate": Xrc Send Last Immediate [XRCETH IMM] OneToMtu;
    0xa4 XRC_SEND_ONLY "XRC SEND Only": Xrc Send Only None [XRCETH] UpToMtu;
    0xa5 XRC_SEND_ONLY_WITH_IMMEDIATE "XRC SEND Only with Immediate": Xrc Send Only Immediate [XRCETH IMM] UpToMtu;
    0xa6 XRC_WRITE_FIRST "XRC RDMA WRITE First": Xrc Write First None [XRCETH RETH] ExactlyMtu;
    0xa7 XRC_WRITE_MIDDLE "XRC RDMA WRITE Middle": Xrc Write Middle None [XRCETH] ExactlyMtu;
    0xa8 XRC_WRITE_LAST "XRC RDMA WRITE Last": Xrc Write Last None [XRCETH] OneToMtu;
    0xa9 XRC_WRITE_LAST_WITH_IMMEDIATE "XRC RDMA WRITE Last with Immediate": Xrc Write Last Immediate [XRCETH IMM] OneToMtu;
    0xaa XRC_WRITE_ONLY "XRC RDMA WRITE Only": Xrc Write Only None [XRCETH RETH] UpToMtu;
    0xab XRC_WRITE_ONLY_WITH_IMMEDIATE "XRC RDMA WRITE Only with Immediate": Xrc Write Only Immediate [XRCETH RETH IMM] UpToMtu;
    0xac XRC_READ_REQUEST "XRC RDMA READ Request": Xrc ReadRequest Only None [XRCETH RETH] None;
    0xad XRC_READ_RESPONSE_FIRST "XRC RDMA READ Response First": Xrc ReadResponse First None [AETH] ExactlyMtu;
    0xae XRC_READ_RESPONSE_MIDDLE "XRC RDMA READ Response Middle": Xrc ReadResponse Middle None [] ExactlyMtu;
    0xaf XRC_READ_RESPONSE_LAST "XRC RDMA READ Response Last": Xrc ReadResponse Last None [AETH] OneToMtu;
    0xb0 XRC_READ_RESPONSE_ONLY "XRC RDMA READ Response Only": Xrc ReadResponse Only None [AETH] UpToMtu;
    0xb1 XRC_ACKNOWLEDGE "XRC Acknowledge": Xrc Acknowledge Only None [AETH] None;
    0xb2 XRC_ATOMIC_ACKNOWLEDGE "XRC ATOMIC Acknowledge": Xrc AtomicAcknowledge Only None [AETH ATOMIC_ACK] None;
    0xb3 XRC_COMPARE_SWAP "XRC CmpSwap": Xrc CompareSwap Only None [XRCETH ATOMIC] None;
    0xb4 XRC_FETCH_ADD "XRC FetchAdd": Xrc FetchAdd Only None [XRCETH ATOMIC] None;
    0xb6 XRC_SEND_LAST_WITH_INVALIDATE "XRC SEND Last with Invalidate": Xrc Send Last Invalidate [XRCETH IETH] OneToMtu;
    0xb7 XRC_SEND_ONLY_WITH_INVALIDATE "XRC SEND Only with Invalidate": Xrc Send Only Invalidate [XRCETH IETH] UpToMtu;
    0xbc XRC_FLUSH "XRC FLUSH": Xrc Flush Only None [XRCETH FETH RETH] None;
    0xbd XRC_ATOMIC_WRITE "XRC ATOMIC WRITE": Xrc AtomicWrite Only None [XRCETH RETH] Eight;
}
