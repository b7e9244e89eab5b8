use super::*;

const MAPS: &str = "\
1000-3000 rw-s 00000000 fe:00 11                         /d/a
3000-4000 rw-s 00005000 103:00 12                        /p/b c
5000-6000 rw-p 00000000 00:00 0
6000-7000 rw-s 00000000 fe:00 13                         /d/gone (deleted)
7000-8000 rw-s 00000000 00:01 14                         /memfd:x (deleted)
8000-9000 rw-s 00000000 00:63 15                         /x (deleted)
";

const MOUNTS: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 259:0 / /p rw,relatime shared:7 - ext4 /dev/pmem0 rw,dax=always
";

fn parts(range: Range<u64>) -> Result<Vec<(FilePart, bool)>, NotPersistent> {
    parts_in(MAPS, MOUNTS, &range)
}

#[test]
fn a_range_is_split_by_its_files() {
    let found = parts(0x1800..0x3800).expect("files");
    let part = |range, dax| {
        let keeper = Keeper::File;
        (FilePart { range, keeper }, dax)
    };
    assert_eq!(
        found,
        [part(0x1800..0x3000, false), part(0x3000..0x3800, true)]
    );
    // It has no name any more, but its file system is mounted.
    assert_eq!(parts(0x6000..0x7000).expect("a file").len(), 1);
}

#[test]
fn a_range_without_a_file_in_all_of_it_is_refused() {
    use NotPersistent::{NoFile, Unknown, Unmapped, Volatile};
    assert!(matches!(
        parts(0x3000..0x5001),
        Err(Unmapped { addr: 0x4000 })
    ));
    assert!(matches!(
        parts(0x800..0x1800),
        Err(Unmapped { addr: 0x800 })
    ));
    assert!(matches!(
        parts(0x9000..0x9001),
        Err(Unmapped { addr: 0x9000 })
    ));
    assert!(matches!(
        parts(0x5fff..0x6001),
        Err(NoFile { addr: 0x5fff })
    ));
    assert!(matches!(
        parts(0x6fff..0x7001),
        Err(Volatile { addr: 0x7000, .. })
    ));
    assert!(matches!(parts(0x8000..0x8001), Err(Unknown { .. })));
}

#[test]
fn synchronous_mappings_are_known_by_their_flags() {
    let detailed = "\
1000-3000 rw-s 00000000 fe:00 11 /d/a
Size:                  8 kB
VmFlags: rd wr sh mr mw me ms
3000-4000 rw-s 00005000 103:00 12 /p/b
Size:                  4 kB
VmFlags: rd wr sh mr mw me ms sf mm
";
    let found = synchronous_mappings(detailed.as_bytes()).expect("read");
    assert_eq!(found, std::slice::from_ref(&(0x3000..0x4000)));
}
