//! Writing back cache lines of memory that may vanish.

use super::handlers::install;
use core::arch::asm;
use roce_stack::MemoryFault;
use std::sync::OnceLock;

const LINE: u64 = 64;

/// An instruction that writes back a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteBack {
    /// Keeps the line in the cache.
    Clwb,
    Clflushopt,
    /// Every x86-64 has it.
    Clflush,
}

impl WriteBack {
    /// The fastest one that this processor has.
    fn best() -> Self {
        const STRUCTURED_FEATURES: u32 = 7;
        const CLFLUSHOPT: u32 = 1 << 23;
        const CLWB: u32 = 1 << 24;
        static BEST: OnceLock<WriteBack> = OnceLock::new();
        *BEST.get_or_init(|| {
            use core::arch::x86_64::{__cpuid, __cpuid_count};
            if __cpuid(0).eax < STRUCTURED_FEATURES {
                return Self::Clflush;
            }
            match __cpuid_count(STRUCTURED_FEATURES, 0).ebx {
                features if features & CLWB != 0 => Self::Clwb,
                features if features & CLFLUSHOPT != 0 => Self::Clflushopt,
                _ => Self::Clflush,
            }
        })
    }

    fn run(self, first: u64, lines: u64) -> Result<(), MemoryFault> {
        let current = install().map_err(|_| MemoryFault)?;
        let len = usize::try_from(lines * LINE).map_err(|_| MemoryFault)?;
        current.guard(first, len, || {
            for line in (first..).step_by(LINE as usize).take(lines as usize) {
                // SAFETY: these instructions change nothing that a program can see, and a fault
                // ends the access. `best` has checked that the processor has the instruction.
                // Written as bytes: not every assembler knows them. Each is for the line at rdi.
                unsafe {
                    match self {
                        Self::Clwb => asm!(".byte 0x66, 0x0f, 0xae, 0x37", in("rdi") line),
                        Self::Clflushopt => {
                            asm!(".byte 0x66, 0x0f, 0xae, 0x3f", in("rdi") line);
                        }
                        Self::Clflush => asm!(".byte 0x0f, 0xae, 0x3f", in("rdi") line),
                    }
                }
            }
        })?;
        // SAFETY: it only waits for the instructions above.
        unsafe { asm!("sfence") };
        Ok(())
    }
}

/// Writes back the cache lines of `len` bytes of persistent memory at `addr`, and waits until the
/// memory has them.
///
/// # Errors
/// If the file does not have the pages any more.
pub(in crate::memory) fn write_back(addr: u64, len: u64) -> Result<(), MemoryFault> {
    if len == 0 {
        return Ok(());
    }
    let first = addr - addr % LINE;
    WriteBack::best().run(first, (addr + len - first).div_ceil(LINE))
}

#[cfg(test)]
mod tests {
    use super::super::accessor::GuardedMemory;
    use super::super::mapped::{Mapped, PAGE};
    use super::*;
    use nix::unistd::ftruncate;
    use roce_stack::FaultSafe as _;

    fn memory() -> GuardedMemory {
        GuardedMemory::new().expect("installed")
    }

    /// The instructions that this processor has.
    fn write_backs() -> &'static [WriteBack] {
        const ALL: [WriteBack; 3] = [WriteBack::Clwb, WriteBack::Clflushopt, WriteBack::Clflush];
        let best = ALL.iter().position(|one| *one == WriteBack::best());
        &ALL[best.expect("one of these")..]
    }

    #[test]
    fn lines_are_written_back_without_a_change() {
        let mapped = Mapped::new();
        let data: Vec<u8> = (0..200).collect();
        memory().write(mapped.at(0), &data).expect("written");
        for one in write_backs() {
            assert_eq!(one.run(mapped.at(0), 64), Ok(()), "{one:?}");
            assert_eq!(one.run(mapped.at(0), 0), Ok(()), "{one:?}");
        }
        let mut found = vec![0; 200];
        memory().read(mapped.at(0), &mut found).expect("read");
        assert_eq!(found, data);
    }

    #[test]
    fn lines_of_a_truncated_file_are_an_error() {
        let mapped = Mapped::new();
        ftruncate(&mapped.file, PAGE as i64).expect("shorter");
        for one in write_backs() {
            let whole = one.run(mapped.at(0), PAGE as u64 / 64);
            assert_eq!(whole, Ok(()), "{one:?}");
            let beyond = one.run(mapped.at(0), PAGE as u64 / 64 + 1);
            assert_eq!(beyond, Err(MemoryFault), "{one:?}");
        }
    }
}
