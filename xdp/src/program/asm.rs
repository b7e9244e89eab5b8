//! A small assembler for BPF. It has the few instructions that the redirect program needs, and
//! jumps to labels.

use std::os::fd::{AsRawFd, BorrowedFd};

/// A register. `R0` holds results. `R1` to `R5` hold arguments, and calls clobber them. Calls
/// preserve `R6` to `R9`. `R10` is the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6,
    R7,
    R8,
    R10,
}

impl Reg {
    fn number(self) -> u8 {
        match self {
            Self::R0 => 0,
            Self::R1 => 1,
            Self::R2 => 2,
            Self::R3 => 3,
            Self::R4 => 4,
            Self::R6 => 6,
            Self::R7 => 7,
            Self::R8 => 8,
            Self::R10 => 10,
        }
    }
}

/// The size of an access.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
    Double,
}

impl Size {
    fn bits(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

/// The condition of a jump.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Equal,
    NotEqual,
    /// Unsigned greater than.
    Above,
    /// Any bit in common.
    AnyBit,
}

impl When {
    fn bits(self) -> u8 {
        match self {
            Self::Equal => 0x10,
            Self::Above => 0x20,
            Self::AnyBit => 0x40,
            Self::NotEqual => 0x50,
        }
    }
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

const LDX_MEM: u8 = 0x61;
const STX_MEM: u8 = 0x63;
const ST_MEM: u8 = 0x62;
const ALU64_MOV_K: u8 = 0xb7;
const ALU64_MOV_X: u8 = 0xbf;
const ALU64_ADD_K: u8 = 0x07;
const ALU64_AND_K: u8 = 0x57;
const JMP_K: u8 = 0x05;
const JMP_X: u8 = 0x0d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LD_IMM64: u8 = 0x18;
/// The value of the source register field that marks a 64-bit constant as a map's file descriptor.
const PSEUDO_MAP_FD: u8 = 1;

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    /// The position of each label.
    labels: Vec<Option<usize>>,
    /// The jump instructions and their labels.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// Creates a label, to be placed later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places the label at the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `to = *(size *)(base + offset)`
    pub(super) fn load(&mut self, size: Size, to: Reg, base: Reg, offset: i16) {
        self.emit(LDX_MEM | size.bits(), to.number(), base.number(), offset, 0);
    }

    /// `*(size *)(base + offset) = from`
    pub(super) fn store(&mut self, size: Size, base: Reg, offset: i16, from: Reg) {
        self.emit(
            STX_MEM | size.bits(),
            base.number(),
            from.number(),
            offset,
            0,
        );
    }

    /// `*(size *)(base + offset) = value`
    pub(super) fn store_value(&mut self, size: Size, base: Reg, offset: i16, value: i32) {
        self.emit(ST_MEM | size.bits(), base.number(), 0, offset, value);
    }

    /// `to = value`
    pub(super) fn set(&mut self, to: Reg, value: i32) {
        self.emit(ALU64_MOV_K, to.number(), 0, 0, value);
    }

    /// `to = from`
    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.emit(ALU64_MOV_X, to.number(), from.number(), 0, 0);
    }

    /// `to += value`
    pub(super) fn add(&mut self, to: Reg, value: i32) {
        self.emit(ALU64_ADD_K, to.number(), 0, 0, value);
    }

    /// `to &= value`
    pub(super) fn and(&mut self, to: Reg, value: i32) {
        self.emit(ALU64_AND_K, to.number(), 0, 0, value);
    }

    /// `if left (when) value goto label`
    pub(super) fn jump_if(&mut self, when: When, left: Reg, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(JMP_K | when.bits(), left.number(), 0, 0, value);
    }

    /// `if left (when) right goto label`
    pub(super) fn jump_if_reg(&mut self, when: When, left: Reg, right: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(JMP_X | when.bits(), left.number(), right.number(), 0, 0);
    }

    /// `goto label`
    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(JMP_K, 0, 0, 0, 0);
    }

    /// `to = map`
    pub(super) fn map(&mut self, to: Reg, map: BorrowedFd<'_>) {
        self.emit(LD_IMM64, to.number(), PSEUDO_MAP_FD, 0, map.as_raw_fd());
        // The second instruction holds the upper half of the constant.
        self.emit(0, 0, 0, 0, 0);
    }

    /// `R0 = helper(R1, …)`
    pub(super) fn call(&mut self, helper: i32) {
        self.emit(CALL, 0, 0, 0, helper);
    }

    /// `return R0`
    pub(super) fn exit(&mut self) {
        self.emit(EXIT, 0, 0, 0, 0);
    }

    /// The program in the kernel's format.
    ///
    /// # Panics
    /// If a label was not placed.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, label) in std::mem::take(&mut self.jumps) {
            let target = self.labels[label.0].expect("a placed label");
            let offset = target as i64 - at as i64 - 1;
            let offset = i16::try_from(offset).expect("a short program");
            let mut bytes = self.code[at].to_ne_bytes();
            bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
            self.code[at] = u64::from_ne_bytes(bytes);
        }
        self.code
    }

    /// `struct bpf_insn`
    fn emit(&mut self, opcode: u8, to: u8, from: u8, offset: i16, value: i32) {
        let registers = if cfg!(target_endian = "little") {
            from << 4 | to
        } else {
            to << 4 | from
        };
        let [a, b] = offset.to_ne_bytes();
        let [c, d, e, f] = value.to_ne_bytes();
        self.code
            .push(u64::from_ne_bytes([opcode, registers, a, b, c, d, e, f]));
    }
}
