use super::*;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

const PAGE: u64 = 4096;

/// Pages at an address.
struct Pages {
    start: NonNull<c_void>,
    len: usize,
}

impl Pages {
    #[expect(unsafe_code)]
    fn map(file: Option<&dyn AsFd>, pages: u64, flags: MapFlags) -> Self {
        let len = usize::try_from(pages * PAGE).expect("small");
        let size = NonZeroUsize::new(len).expect("some");
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that nobody uses.
        let start = unsafe {
            match file {
                Some(file) => mmap(None, size, rights, flags, file.as_fd(), 0),
                None => mmap_anonymous(None, size, rights, flags),
            }
        };
        let start = start.expect("mapped");
        Self { start, len }
    }

    fn addr(&self) -> u64 {
        self.start.as_ptr() as u64
    }
}

impl Drop for Pages {
    #[expect(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: only this value knows the mapping.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

/// A file of two pages on a disk.
fn file() -> (tempfile::TempDir, File) {
    // Unlike /tmp, this folder is on a disk, and every user can write to it.
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let file = OpenOptions::new()
        .create_new(true)
        .read(true)
        .write(true)
        .open(folder.path().join("memory"));
    let file = file.expect("a file");
    file.set_len(2 * PAGE).expect("longer");
    (folder, file)
}

fn refused(addr: u64, len: u64) -> NotPersistent {
    DurableFiles::behind(addr, len).expect_err("refused")
}

#[test]
fn a_shared_file_becomes_durable_even_after_it_was_unmapped() {
    let (_folder, file) = file();
    let pages = Pages::map(Some(&file), 2, MapFlags::MAP_SHARED);
    let files = DurableFiles::behind(pages.addr() + 100, 2 * PAGE - 200).expect("durable");
    assert!(files.blocks(1), "msync waits for the disk");
    for (offset, len) in [(0, 1), (0, 2 * PAGE - 200), (PAGE - 101, 2), (5, 0)] {
        assert_eq!(files.persist(offset, len), Ok(()));
    }
    drop(pages);
    drop(file);
    assert_eq!(files.persist(0, 2 * PAGE - 200), Ok(()));
}

/// The kernel reports only once that it could not write a page.
#[test]
fn a_failure_lasts() {
    let (_folder, file) = file();
    let pages = Pages::map(Some(&file), 2, MapFlags::MAP_SHARED);
    let files = DurableFiles::behind(pages.addr(), 2 * PAGE).expect("durable");
    assert_eq!(files.persist(0, 1), Ok(()));
    let (second, len) = files.parts[0].alias.pages(PAGE, 1);
    // SAFETY: nothing but `msync` uses the page, which fails from now on.
    #[expect(unsafe_code)]
    unsafe {
        munmap(second, len).expect("mapped until now");
    }
    assert_eq!(files.persist(PAGE, 1), Err(NotDurable));
    assert_eq!(files.persist(0, 1), Err(NotDurable));
}

#[test]
fn memory_that_nothing_keeps_is_refused() {
    let (_folder, file) = file();
    let name = c"test";
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
    let memfd = File::from(nix::sys::memfd::memfd_create(name, flags).expect("a memfd"));
    memfd.set_len(2 * PAGE).expect("longer");

    let anonymous = Pages::map(None, 2, MapFlags::MAP_PRIVATE);
    let found = refused(anonymous.addr() + 10, 10);
    let expected = anonymous.addr() + 10;
    assert!(
        matches!(found, NotPersistent::NoFile { addr } if addr == expected),
        "{found}"
    );

    let private = Pages::map(Some(&file), 2, MapFlags::MAP_PRIVATE);
    let found = refused(private.addr(), PAGE);
    let text = found.to_string();
    assert!(matches!(found, NotPersistent::Private { .. }), "{text}");
    assert!(text.contains("/memory is mapped privately"), "{text}");

    let in_memory = Pages::map(Some(&memfd), 2, MapFlags::MAP_SHARED);
    let found = refused(in_memory.addr(), PAGE);
    assert!(matches!(found, NotPersistent::Volatile { .. }), "{found}");

    let shared = Pages::map(None, 2, MapFlags::MAP_SHARED);
    let found = refused(shared.addr(), PAGE);
    assert!(matches!(found, NotPersistent::Volatile { .. }), "{found}");

    // The kernel maps nothing below vm.mmap_min_addr, so no other thread has memory there.
    let unmapped = 2 * PAGE;
    let found = refused(unmapped, PAGE);
    assert!(
        matches!(found, NotPersistent::Unmapped { addr } if addr == unmapped),
        "{found}"
    );
}

#[test]
fn a_file_in_a_file_system_of_memory_is_refused() {
    let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
    file.set_len(PAGE).expect("longer");
    let pages = Pages::map(Some(&file), 1, MapFlags::MAP_SHARED);
    let found = refused(pages.addr(), PAGE);
    let is_tmpfs = |kind: &str| kind == "tmpfs";
    assert!(
        matches!(&found, NotPersistent::Volatile { kind, .. } if is_tmpfs(kind)),
        "{found}"
    );
}
