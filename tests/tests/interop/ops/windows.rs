//! Memory windows of both types, ours and rxe's.
//!
//! Access beyond a window's bounds is tested for our windows only: the kernel of the lab does not
//! check the bounds of its own.

use roce_tests::ends::{End, Options, Ours, connect, pattern};
use roce_tests::lab::Lab;
use roce_tests::peer::{Access, Operation};
use roce_verbs::memory::{MemoryWindow, MwType, MwView};
use roce_verbs::{Access as OurAccess, MemoryRegion, RemoteAddr, SendOp, SendRequest};

use super::{HERE, assert_success, run};

/// A region without remote rights, a window, and its range: 3000 bytes from 500 on.
fn window(ours: &Ours, kind: MwType) -> (MemoryRegion, MemoryWindow, MwView) {
    let access = OurAccess::LOCAL_WRITE | OurAccess::MW_BIND;
    let region = ours.pd.allocate(4096, access).unwrap();
    let view = region.window(500, 3000, OurAccess::REMOTE_WRITE | OurAccess::REMOTE_READ);
    let window = ours.pd.alloc_mw(kind).unwrap();
    (region, window, view.unwrap())
}

fn post(ours: &mut Ours, op: SendOp, opcode: &str) {
    ours.qp.post_send(&SendRequest::new(3, op, ())).unwrap();
    assert_success(&ours.completion(), opcode);
}

fn write(RemoteAddr { addr, rkey }: RemoteAddr) -> Operation {
    Operation::Write { addr, rkey }
}

fn read(RemoteAddr { addr, rkey }: RemoteAddr) -> Operation {
    Operation::Read { addr, rkey }
}

#[test]
fn rxe_uses_our_window_of_type_2_until_it_is_invalidated() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for zero_based in [false, true] {
        let (mut ours, mut theirs) = connect(&lab, &Options::default());
        let (region, window, mut view) = window(&ours, MwType::Type2);
        if zero_based {
            view = view.zero_based();
        }
        for key in [1, 200] {
            post(&mut ours, window.bind(key, &view), "BIND_MW");
            let bytes = pattern(3000, key.into());
            theirs.write_memory(HERE, &bytes);
            let remote = window.remote(key, &view, 0);
            assert_success(&run(&mut theirs, write(remote), HERE, 3000), "RDMA_WRITE");
            let mut placed = vec![0; 3000];
            region.read(500, &mut placed).unwrap();
            assert!(placed == bytes);
            theirs.write_memory(HERE, &[0; 3000]);
            assert_success(&run(&mut theirs, read(remote), HERE, 3000), "RDMA_READ");
            assert!(theirs.read_memory(HERE, 3000) == bytes);
            // Back: by the peer's SEND, then by ourselves.
            if key == 1 {
                ours.receive(5, &[]);
                let send = Operation::SendInv { key: remote.rkey };
                assert_success(&run(&mut theirs, send, HERE, 0), "SEND");
                assert_eq!(ours.completion().invalidated, Some(remote.rkey));
            } else {
                post(&mut ours, window.invalidate(key), "LOCAL_INV");
            }
        }
        let remote = window.remote(200, &view, 0);
        let refused = run(&mut theirs, write(remote), HERE, 8);
        assert_eq!(refused.status, "REM_ACCESS_ERR");
    }
}

#[test]
fn rxe_may_not_leave_our_window() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for (kind, offset, length) in [
        (MwType::Type1, 0, 3001),
        (MwType::Type2, 3000, 1),
        (MwType::Type2, u64::MAX, 1),
    ] {
        let (mut ours, mut theirs) = connect(&lab, &Options::default());
        let (region, window, view) = window(&ours, kind);
        post(&mut ours, window.bind(9, &view), "BIND_MW");
        theirs.write_memory(HERE, &[1; 3001]);
        let remote = window.remote(9, &view, offset);
        let refused = run(&mut theirs, write(remote), HERE, length);
        assert_eq!(refused.status, "REM_ACCESS_ERR");
        let mut found = vec![1; 4096];
        region.read(0, &mut found).unwrap();
        assert!(found == [0; 4096]);
    }
}

#[test]
fn rxe_uses_our_window_of_type_1_by_its_newest_key() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &Options::default());
    let (region, window, view) = window(&ours, MwType::Type1);
    let mut keys = Vec::new();
    for seed in 0..2 {
        let key = ours.qp.bind_window(3, &window, Some(&view)).unwrap();
        assert_success(&ours.completion(), "BIND_MW");
        keys.push(key);
        let bytes = pattern(3000, seed);
        theirs.write_memory(HERE, &bytes);
        let remote = window.remote(key, &view, 0);
        assert_success(&run(&mut theirs, write(remote), HERE, 3000), "RDMA_WRITE");
        let mut placed = vec![0; 3000];
        region.read(500, &mut placed).unwrap();
        assert!(placed == bytes);
    }
    let refused = run(
        &mut theirs,
        write(window.remote(keys[0], &view, 0)),
        HERE,
        8,
    );
    assert_eq!(refused.status, "REM_ACCESS_ERR");
}

#[test]
fn we_use_a_window_of_type_1_of_rxe() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &Options::default());
    let bytes = pattern(2000, 1);
    ours.write_memory(HERE, &bytes);
    let window = theirs.peer.create_window_of_type_1().unwrap();
    let part = theirs.region.part(8192, 4096);
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let key = theirs
        .peer
        .bind_of_type_1(&theirs.pair, 3, &window, &part, access)
        .unwrap();
    assert_success(&theirs.completion(), "BIND_MW");
    let (addr, rkey) = (theirs.remote(8192).0, key);
    let remote = RemoteAddr { addr, rkey };
    assert_success(&run(&mut ours, write(remote), HERE, 2000), "RDMA_WRITE");
    assert!(theirs.read_memory(8192, 2000) == bytes);
    ours.write_memory(HERE, &[0; 2000]);
    assert_success(&run(&mut ours, read(remote), HERE, 2000), "RDMA_READ");
    assert!(ours.read_memory(HERE, 2000) == bytes);
    // Once unbound, it gives no access.
    theirs.peer.free_window(&window).unwrap();
    let refused = run(&mut ours, write(remote), HERE, 8);
    assert_eq!(refused.status, "REM_ACCESS_ERR");
}
