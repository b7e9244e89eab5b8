//! FLUSH and ATOMIC WRITE between this stack and Soft-RoCE.

use super::TIMEOUT;
use super::ours::Ours;
use super::peer::Program;
use roce_tests::lab::{Flavour, Lab, LabConfig};
use roce_verbs::work::{FlushPlacement, FlushSelectivity};
use roce_verbs::{Access, RemoteAddr, WcStatus};
use std::fs::OpenOptions;

/// The size of the memory, which is that of a huge page.
const LEN: usize = 2 << 20;

fn boot() -> Option<Lab> {
    Lab::boot_or_skip(&LabConfig {
        flavour: Flavour::PersistentMemory,
        memory_mib: 768,
        boot_timeout: TIMEOUT,
        ..LabConfig::default()
    })
}

#[test]
fn both_are_peers_of_soft_roce() {
    let Some(program) = Program::get_or_skip() else {
        return;
    };
    let Some(lab) = boot() else { return };
    soft_roce_flushes_our_file(&lab, &program);
    we_flush_persistent_memory_of_soft_roce(&lab, &program);
    we_write_back_cache_lines(&lab, &program);
    lab.check_kernel().expect("no oops");
}

fn soft_roce_flushes_our_file(lab: &Lab, program: &Program) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut options = OpenOptions::new();
    options.create_new(true).read(true).write(true);
    let file = options.open(folder.path().join("memory")).expect("a file");
    file.set_len(LEN as u64).expect("longer");
    let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let flushes = Access::FLUSH_PERSISTENT | Access::FLUSH_GLOBAL;
    let ours = Ours::open(lab);
    let region = ours.pd.register_file(&file, 0, LEN, rights | flushes);
    let region = region.expect("registered");
    let mut peer = program.start(lab, &["4096"]);
    ours.connect(lab, &mut peer, region.remote(0));
    // Placement 1 is visibility, 2 persistence, 3 both; selectivity 0 is a range, 1 the region.
    for command in [
        "write 8 record",
        "flush 8 6 2 0",
        "atomic_write 0 count--1",
        "flush 0 8 3 0",
        "write 100 more",
        "flush 0 0 2 1",
        "flush 0 0 1 1",
    ] {
        assert_eq!(peer.ask(command), "success", "{command}");
    }
    let mut found = [0; 14];
    region.read(0, &mut found).expect("in range");
    assert_eq!(&found, b"count--1record");
    assert_eq!(
        peer.ask(&format!("flush {LEN} 1 2 0")),
        "remote access error"
    );

    // Memory without the right.
    let ours = Ours::open(lab);
    let region = ours.pd.register_file(&file, 0, LEN, rights);
    let region = region.expect("registered");
    let mut peer = program.start(lab, &["4096"]);
    ours.connect(lab, &mut peer, region.remote(0));
    assert_eq!(peer.ask("write 0 text"), "success");
    assert_eq!(peer.ask("flush 0 4 2 0"), "remote access error");
}

/// Our own library in the guest, in place of Soft-RoCE, with the same persistent memory.
fn we_write_back_cache_lines(lab: &Lab, program: &Program) {
    let removed = lab
        .guest(["rdma", "link", "delete", "rxe0"])
        .output(TIMEOUT);
    removed.expect("it runs").success().expect("removed");
    let ours = Ours::open(lab);
    let mut peer = program.start_on_ours(lab, &["/dev/dax0.0", &LEN.to_string()]);
    let nothing = RemoteAddr { addr: 0, rkey: 0 };
    ours.connect(lab, &mut peer, nothing);
    let at = |offset: u64| RemoteAddr {
        addr: peer.addr + offset,
        rkey: peer.rkey,
    };
    let persistence = FlushPlacement::PERSISTENCE;
    let (record, all) = (at(8), at(0));
    for status in [
        ours.write(record, "on-dax"),
        ours.flush(record, 6, persistence, FlushSelectivity::Range),
        // Longer than what is written back at once.
        ours.flush(all, 0, persistence, FlushSelectivity::Region),
    ] {
        assert_eq!(status, WcStatus::Success);
    }
    assert_eq!(peer.ask("show 8 6"), "on-dax");
}

fn we_flush_persistent_memory_of_soft_roce(lab: &Lab, program: &Program) {
    use FlushPlacement as Placement;
    use FlushSelectivity::{Range, Region};
    let ours = Ours::open(lab);
    let mut peer = program.start(lab, &["/dev/dax0.0", &LEN.to_string()]);
    let nothing = RemoteAddr { addr: 0, rkey: 0 };
    ours.connect(lab, &mut peer, nothing);
    let at = |offset: u64| RemoteAddr {
        addr: peer.addr + offset,
        rkey: peer.rkey,
    };
    let (record, count, all) = (at(8), at(0), at(0));
    let both = Placement::PERSISTENCE.union(Placement::GLOBAL_VISIBILITY);
    for status in [
        ours.write(record, "record"),
        ours.flush(record, 6, Placement::PERSISTENCE, Range),
        ours.atomic_write(count, "count--1"),
        ours.flush(count, 8, both, Range),
        ours.flush(all, 0, Placement::PERSISTENCE, Region),
        ours.flush(all, 0, Placement::GLOBAL_VISIBILITY, Region),
    ] {
        assert_eq!(status, WcStatus::Success);
    }
    let beyond = at(LEN as u64);
    assert_eq!(peer.ask("show 0 16"), "count--1record..");
    let status = ours.flush(beyond, 1, Placement::PERSISTENCE, Range);
    assert_eq!(status, WcStatus::RemoteAccessError);
}
