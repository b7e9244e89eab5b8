use super::*;
use crate::nic::Nic;
use roce_verbs::Device;
use std::fs;

fn nic() -> Nic {
    let device = Device::with_address("127.0.0.1".parse().expect("an address"));
    Nic::new(device.expect("loopback").open().expect("opened"))
}

/// A namespace of 4096 bytes in a file of the system.
fn on(path: &str) -> FileStorage {
    let file = OpenOptions::new().read(true).write(true).open(path);
    FileStorage::new(file.expect(path), 4096)
}

#[test]
fn a_file_is_created_with_its_length_and_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let pd = nic().pd;
    let absent = Storage::open(&Backing::file(&path), &pd).expect_err("it does not exist");
    let path_shown = path.display().to_string();
    assert!(absent.to_string().contains(&path_shown), "{absent}");
    let made = Storage::open(&Backing::file_or_new(&path, 1025), &pd).expect("made");
    assert_eq!((made.len(), made.blocks()), (1024, 2), "whole blocks");
    made.write(512, &[7; 512]).expect("written");
    made.flush().expect("flushed");
    let again = Storage::open(&Backing::file_or_new(&path, 1 << 20), &pd).expect("opened");
    assert_eq!(again.len(), 1024, "it keeps its length");
    assert_eq!(fs::read(&path).expect("read")[512..1024], [7; 512]);
}

#[test]
fn a_namespace_without_blocks_is_refused() {
    let pd = nic().pd;
    for backing in [Backing::memory(511), Backing::file("/dev/null")] {
        let refused = Storage::open(&backing, &pd).expect_err("no blocks");
        assert!(refused.to_string().contains("no blocks"), "{refused}");
    }
}

#[test]
fn errors_of_a_file_become_statuses() {
    let full = on("/dev/full");
    assert_eq!(full.write(0, &[1; 512]), Err(Status::CAPACITY_EXCEEDED));
    let pd = nic().pd;
    let memory = pd.allocate(512, Access::LOCAL_WRITE).expect("memory");
    let mut scratch = Vec::new();
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short");
    fs::write(&short, [1; 512]).expect("written");
    let short = on(short.to_str().expect("a name"));
    let mut read = |offset| short.read(offset, (&memory, 0), 512, &mut scratch);
    assert_eq!(read(0), Ok(()));
    assert_eq!(read(512), Err(Status::UNRECOVERED_READ_ERROR));
    let only_readable = File::open("/dev/zero").expect("opened");
    let only_readable = FileStorage::new(only_readable, 4096);
    assert_eq!(only_readable.write(0, &[1; 512]), Err(Status::WRITE_FAULT));
}

#[test]
fn after_a_flush_that_failed_none_succeeds() {
    // The system cannot make /dev/full durable.
    let storage = on("/dev/full");
    assert_eq!(storage.flush(), Err(Status::WRITE_FAULT));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    fs::write(&path, [0; 4096]).expect("written");
    let good = on(path.to_str().expect("a name"));
    assert_eq!(good.flush(), Ok(()));
    good.lost_writes.store(true, Ordering::Release);
    assert_eq!(good.flush(), Err(Status::WRITE_FAULT));
    let good = Storage::File(good);
    assert_eq!(good.finish(Ok(()), true), Err(Status::WRITE_FAULT));
    assert_eq!(good.finish(Ok(()), false), Ok(()));
    let failed = Err(Status::CAPACITY_EXCEEDED);
    assert_eq!(good.finish(failed, true), failed);
}

#[test]
fn long_transfers_go_in_pieces_without_gaps() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let pd = nic().pd;
    let len = 2 * PIECE + 512;
    let file = Storage::open(&Backing::file_or_new(&path, 1 << 20), &pd).expect("made");
    let bytes: Vec<u8> = (0..len).map(|at| (at / 3) as u8).collect();
    let memory = pd.allocate(512 + len, Access::LOCAL_WRITE).expect("memory");
    memory.write(512, &bytes).expect("fits");
    let mut scratch = Vec::new();
    file.write_from(4096, (&memory, 512), len, &mut scratch)
        .expect("written");
    assert_eq!(fs::read(&path).expect("read")[4096..4096 + len], bytes);
    let back = pd.allocate(512 + len, Access::LOCAL_WRITE).expect("memory");
    let Storage::File(file) = file else {
        panic!("it is a file")
    };
    file.read(4096, (&back, 512), len, &mut scratch)
        .expect("read");
    let mut found = vec![0; len];
    back.read(512, &mut found).expect("fits");
    assert_eq!(found, bytes);
}
