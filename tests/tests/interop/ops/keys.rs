//! SEND with invalidate: a key works until it is invalidated.

use roce_tests::ends::{End, Options, connect, pattern};
use roce_tests::lab::Lab;
use roce_tests::peer::{Access, Operation};
use roce_verbs::Access as OurAccess;

use super::{HERE, assert_success, run};

#[test]
fn our_key_works_until_rxe_invalidates_it() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &Options::default());
    let access = OurAccess::LOCAL_WRITE | OurAccess::REMOTE_WRITE | OurAccess::REMOTE_INVALIDATE;
    let window = ours.pd.allocate(4096, access).unwrap();
    let (bytes, key) = (pattern(2000, 1), window.rkey());
    theirs.write_memory(HERE, &bytes);

    let write = Operation::Write {
        addr: window.remote(0).addr,
        rkey: key,
    };
    assert_success(&run(&mut theirs, write, HERE, 2000), "RDMA_WRITE");
    let mut placed = vec![0; 2000];
    window.read(0, &mut placed).unwrap();
    assert!(placed == bytes);

    // A message of two packets: the last carries the key.
    ours.receive(5, &[(0, 2000)]);
    let send = Operation::SendInv { key };
    assert_success(&run(&mut theirs, send, HERE, 2000), "SEND");
    let received = ours.completion();
    assert_success(&received, "RECV");
    assert_eq!((received.byte_len, received.invalidated), (2000, Some(key)));
    assert!(ours.read_memory(0, 2000) == bytes);

    window.write(0, &[0; 2000]).unwrap();
    let refused = run(&mut theirs, write, HERE, 2000);
    assert_eq!(refused.status, "REM_ACCESS_ERR");
    window.read(0, &mut placed).unwrap();
    assert!(placed == [0; 2000]);
}

#[test]
fn the_key_of_rxe_works_until_we_invalidate_it() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &Options::default());
    let bytes = pattern(2000, 1);
    ours.write_memory(HERE, &bytes);
    // rxe lets peers invalidate memory windows of type 2.
    let window = theirs.peer.create_window().unwrap();
    let part = theirs.region.part(8192, 4096);
    let key = theirs
        .peer
        .bind(&theirs.pair, 3, &window, &part, Access::REMOTE_WRITE)
        .unwrap();
    assert_success(&theirs.completion(), "BIND_MW");

    let addr = theirs.remote(8192).0;
    let write = Operation::Write { addr, rkey: key };
    assert_success(&run(&mut ours, write, HERE, 2000), "RDMA_WRITE");
    assert!(theirs.read_memory(8192, 2000) == bytes);

    theirs.receive(5, &[(0, 2000)]);
    let send = Operation::SendInv { key };
    assert_success(&run(&mut ours, send, HERE, 2000), "SEND");
    let received = theirs.completion();
    assert_success(&received, "RECV");
    assert_eq!(received.byte_len, 2000);
    assert!(theirs.read_memory(0, 2000) == bytes);

    theirs.write_memory(8192, &[0; 2000]);
    let refused = run(&mut ours, write, HERE, 2000);
    assert_eq!(refused.status, "REM_ACCESS_ERR");
    assert!(theirs.read_memory(8192, 2000) == [0; 2000]);
    theirs.peer.free_window(&window).unwrap();
}
