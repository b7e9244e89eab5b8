//! Programs of every kind, and files that only look like one.

use super::*;
use crate::elf::MACHINE;
use std::os::unix::fs::PermissionsExt;

/// The size of the ELF header, and of a program header, of 64-bit programs.
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;

/// The program header that names the loader.
const PT_INTERP: u32 = 3;

/// A program whose loader is `interpreter`.
fn elf(interpreter: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..4].copy_from_slice(b"\x7fELF");
    bytes[4] = 2;
    bytes[5] = if cfg!(target_endian = "little") { 1 } else { 2 };
    bytes[18..20].copy_from_slice(&MACHINE.to_ne_bytes());
    bytes[32..40].copy_from_slice(&(HEADER_BYTES as u64).to_ne_bytes());
    bytes[54..56].copy_from_slice(&(SEGMENT_BYTES as u16).to_ne_bytes());
    bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes());
    let mut segment = vec![0; SEGMENT_BYTES];
    if let Some(name) = interpreter {
        segment[..4].copy_from_slice(&PT_INTERP.to_ne_bytes());
        let at = (HEADER_BYTES + SEGMENT_BYTES) as u64;
        segment[8..16].copy_from_slice(&at.to_ne_bytes());
        segment[32..40].copy_from_slice(&(name.len() as u64).to_ne_bytes());
    }
    bytes.extend(segment);
    bytes.extend(interpreter.unwrap_or_default());
    bytes
}

fn obstacle_of(bytes: &[u8], mode: u32) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program");
    fs::write(&path, bytes).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("allowed");
    obstacle(&path, Identity::of(&path))
}

#[test]
fn an_ordinary_program_has_no_obstacle() {
    let own = env::current_exe().expect("it has a path");
    assert_eq!(obstacle(&own, Identity::of(&own)), None);
    assert_eq!(
        obstacle_of(&elf(Some(b"/lib64/ld-linux.so.2\0")), 0o755),
        None
    );
    assert_eq!(obstacle_of(b"#!/bin/sh\n", 0o755), None);
    // The setuid bit of a program that the user owns has no effect.
    assert_eq!(obstacle_of(b"#!/bin/sh\n", 0o4755), None);
}

#[test]
fn obstacles_are_reported() {
    let mut other = elf(None);
    other[18] ^= 1;
    let mut short = elf(None);
    short[4] = 1;
    for (bytes, said) in [
        (elf(None), "linked statically"),
        (elf(Some(b"/lib/ld-musl-x86_64.so.1\0")), "musl"),
        (other, "another processor"),
        (short, "another processor"),
    ] {
        let found = obstacle_of(&bytes, 0o755);
        assert!(
            found.as_ref().is_some_and(|text| text.contains(said)),
            "{found:?}"
        );
    }
}

#[test]
fn files_that_are_cut_short_or_lie_are_no_programs() {
    let whole = elf(Some(b"/lib/ld-musl-x86_64.so.1\0"));
    for len in 0..HEADER_BYTES + SEGMENT_BYTES {
        assert_eq!(obstacle_of(&whole[..len], 0o755), None, "{len}");
    }
    // Offsets and lengths beyond anything.
    for at in [32, HEADER_BYTES + 8, HEADER_BYTES + 32] {
        let mut lying = whole.clone();
        lying[at..at + 8].fill(0xff);
        assert_eq!(obstacle_of(&lying, 0o755), None, "{at}");
    }
}

#[test]
fn a_program_is_found_as_a_shell_finds_it() {
    assert!(find(OsStr::new("sh")).is_ok_and(|path| path.ends_with("sh")));
    let exit_code = |name: &str| find(OsStr::new(name)).map_err(|e| e.exit_code());
    assert_eq!(exit_code("no-such-program-anywhere"), Err(127));
    assert_eq!(exit_code(""), Err(127));
    assert_eq!(exit_code("/etc/passwd"), Err(126));
    assert_eq!(exit_code("/"), Err(126));
    assert_eq!(exit_code("/etc/passwd/sh"), Err(127));
}
