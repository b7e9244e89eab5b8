//! Programs written in Go. Go's network package makes system calls itself, so its sockets stay on TCP.

use libc::{PT_LOAD, PT_NOTE, dl_phdr_info, size_t};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::slice;

/// The name and the type of the note in which Go's linker stores its build ID.
const BUILD_ID: (&[u8], u32) = (b"Go\0\0", 4);

/// Whether this process runs a program that Go's linker made.
pub(crate) fn is_program() -> bool {
    let mut found = false;
    // SAFETY: `look` is called before this returns, with a pointer to the flag.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// Looks at the first object, which is the program, and at no other.
unsafe extern "C" fn look(object: *mut dl_phdr_info, _: size_t, found: *mut c_void) -> c_int {
    // SAFETY: the C library describes an object that is loaded. A program without headers may have a null pointer
    // instead of an array of none.
    let (base, headers) = unsafe {
        let headers = NonNull::new((*object).dlpi_phdr.cast_mut()).unwrap_or(NonNull::dangling());
        let count = (*object).dlpi_phnum.into();
        (
            (*object).dlpi_addr,
            slice::from_raw_parts(headers.as_ptr(), count),
        )
    };
    let of = |kind| headers.iter().filter(move |header| header.p_type == kind);
    let is_loaded = |start: u64, end: u64| {
        of(PT_LOAD)
            .any(|load| load.p_vaddr <= start && end <= load.p_vaddr.saturating_add(load.p_filesz))
    };
    let is_go = of(PT_NOTE).any(|note| {
        let end = note.p_vaddr.checked_add(note.p_filesz);
        if !end.is_some_and(|end| is_loaded(note.p_vaddr, end)) {
            return false;
        }
        let start = base.wrapping_add(note.p_vaddr) as *const u8;
        // SAFETY: the notes are in a segment that is loaded, and that the loader made readable.
        has_build_id(unsafe { slice::from_raw_parts(start, note.p_filesz as usize) })
    });
    // SAFETY: `is_program` passes its flag.
    unsafe { *found.cast::<bool>() = is_go };
    1
}

/// Whether Go's build ID is among the notes of a segment (System V ABI, "Note Section").
fn has_build_id(mut notes: &[u8]) -> bool {
    // The lengths of the name and of the contents, and the type. Both are padded to whole words.
    while let Some((header, rest)) = notes.split_first_chunk::<12>() {
        let (words, _) = header.as_chunks::<4>();
        let [name, contents, kind] = [0, 1, 2].map(|word| u32::from_ne_bytes(words[word]));
        let [name, contents] = [name, contents].map(|len| len as usize);
        if rest.get(..name) == Some(BUILD_ID.0) && kind == BUILD_ID.1 {
            return true;
        }
        let next = name.next_multiple_of(4) + contents.next_multiple_of(4);
        notes = rest.get(next..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], contents: &[u8], kind: u32) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, contents.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, contents] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let other = note(b"GNU\0", b"12345", 3);
        let go = note(b"Go\0\0", b"abc", 4);
        assert!(has_build_id(&[&other[..], &go].concat()));
        assert!(has_build_id(&go));
        for others in [
            &other[..],
            &note(b"Go\0\0", b"abc", 3),
            &note(b"Go\0\0\0", b"abc", 4),
            &note(b"", b"Go\0\0", 4),
            &[],
        ] {
            assert!(!has_build_id(others), "{others:?}");
        }
    }

    #[test]
    fn notes_that_are_cut_or_claim_more_than_there_is_end_the_search() {
        let go = note(b"Go\0\0", b"abc", 4);
        for len in 0..16 {
            assert!(!has_build_id(&go[..len]), "{len}");
        }
        let mut long = note(b"GNU\0", b"", 3);
        long[..8].fill(0xff);
        assert!(!has_build_id(&[long, go].concat()));
    }

    #[test]
    fn this_is_no_go_program() {
        assert!(!is_program());
    }
}
