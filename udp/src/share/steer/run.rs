//! Runs the programs as the kernel does.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_RSH,
    BPF_W, sock_filter,
};

use super::BPF_RET_A;

/// Runs a program. A load beyond the end makes the program return 0.
pub(in super::super) fn run(program: &[sock_filter], packet: &[u8]) -> u32 {
    let (mut a, mut at) = (0_u32, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let field_at = |bytes: usize| {
            let field = packet.get(k as usize..k as usize + bytes)?;
            Some(
                field
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
            )
        };
        let loaded = match u32::from(code) {
            code if code == BPF_LD | BPF_W | BPF_ABS => field_at(4),
            code if code == BPF_LD | BPF_H | BPF_ABS => field_at(2),
            code if code == BPF_LD | BPF_B | BPF_ABS => field_at(1),
            code if code == BPF_ALU | BPF_AND | BPF_K => Some(a & k),
            code if code == BPF_ALU | BPF_RSH | BPF_K => Some(a >> k),
            code if code == BPF_JMP | BPF_JEQ | BPF_K => {
                at += usize::from(if a == k { jt } else { jf });
                Some(a)
            }
            BPF_RET_A => return a,
            code if code == BPF_RET | BPF_K => return k,
            code => panic!("code {code:#x}"),
        };
        match loaded {
            Some(loaded) => a = loaded,
            None => return 0,
        }
    }
}
