//! Each operation, and the destination of its bytes.

use roce_tests::lab::Lab;
use roce_tests::peer::{Access, GidIndex, Operation, SendWork};

use super::{LENGTH, assert_success, connected};

#[test]
fn sends_arrive_with_immediate_data_or_without() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, mut two) = connected(&lab, GidIndex::Ip4, |_| {});
    let sent = one.fill(1);
    for (round, length) in [0, 1, 1024, 1025, LENGTH].into_iter().enumerate() {
        two.fill(2);
        two.receive(7, 0, LENGTH);
        let imm = 0x0102_0304 + round as u32;
        let operation = if round % 2 == 0 {
            Operation::SendImm { imm }
        } else {
            Operation::Send
        };
        assert_success(&one.send(operation, 0, length), "SEND");
        let received = two.poll();
        assert_success(&received, "RECV");
        assert_eq!((received.wr_id, received.byte_len), (7, length));
        assert_eq!(received.imm, (round % 2 == 0).then_some(imm));
        assert!(two.memory()[..length as usize] == sent[..length as usize]);
    }
}

#[test]
fn writes_and_reads_place_what_they_should_where_they_should() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_mtu(9000).unwrap();
    let (mut one, mut two) = connected(&lab, GidIndex::LinkLocal6, |_| {});
    assert_eq!(one.peer.active_mtu(), 4096);
    let (sent, kept) = (one.fill(1), two.fill(2));
    let (addr, rkey) = (two.region.addr + 1000, two.region.rkey);

    assert_success(
        &one.send(Operation::Write { addr, rkey }, 5, 70_000),
        "RDMA_WRITE",
    );
    let memory = two.memory();
    assert!(memory[..1000] == kept[..1000]);
    assert!(memory[1000..71_000] == sent[5..70_005]);
    assert!(memory[71_000..] == kept[71_000..]);

    two.receive(9, 0, 4);
    let imm = 0xfeed_beef;
    let write = Operation::WriteImm { addr, rkey, imm };
    assert_success(&one.send(write, 100, 5000), "RDMA_WRITE");
    let received = two.poll();
    assert_success(&received, "RECV_RDMA_WITH_IMM");
    assert_eq!(
        (received.wr_id, received.imm, received.byte_len),
        (9, Some(imm), 5000)
    );
    assert!(two.memory()[1000..6000] == sent[100..5100]);

    let addr = two.region.addr;
    assert_success(
        &one.send(Operation::Read { addr, rkey }, 3, 100_000),
        "RDMA_READ",
    );
    assert!(one.memory()[3..100_003] == two.memory()[..100_000]);
}

#[test]
fn atomics_return_the_old_value_and_leave_the_new() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, mut two) = connected(&lab, GidIndex::Ip4, |_| {});
    let old = 0x0102_0304_0506_0708_u64;
    two.peer
        .write_memory(&two.region, 16, &old.to_ne_bytes())
        .unwrap();
    let (addr, rkey) = (two.region.addr + 16, two.region.rkey);

    let add = 0x10;
    assert_success(
        &one.send(Operation::FetchAdd { addr, rkey, add }, 0, 8),
        "FETCH_ADD",
    );
    assert_eq!((one.word(0), two.word(16)), (old, old + 0x10));

    for (compare, after) in [(old, old + 0x10), (old + 0x10, 42)] {
        let operation = Operation::CompareSwap {
            addr,
            rkey,
            compare,
            swap: 42,
        };
        assert_success(&one.send(operation, 8, 8), "COMP_SWAP");
        assert_eq!((one.word(8), two.word(16)), (old + 0x10, after));
    }
}

#[test]
fn a_window_is_written_until_a_send_invalidates_it() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, mut two) = connected(&lab, GidIndex::Ip4, |_| {});
    let sent = one.fill(1);
    let window = two.peer.create_window().unwrap();
    let part = two.region.part(4096, 4096);
    let key = two
        .peer
        .bind(&two.pair, 3, &window, &part, Access::REMOTE_WRITE)
        .unwrap();
    assert_success(&two.poll(), "BIND_MW");

    let write = Operation::Write {
        addr: two.region.addr + 4096,
        rkey: key,
    };
    assert_success(&one.send(write, 0, 100), "RDMA_WRITE");
    assert!(two.memory()[4096..4196] == sent[..100]);

    two.receive(5, 0, 100);
    assert_success(&one.send(Operation::SendInv { key }, 0, 100), "SEND");
    let received = two.poll();
    assert_success(&received, "RECV");
    assert_eq!(received.byte_len, 100);

    assert_eq!(one.send(write, 0, 100).status, "REM_ACCESS_ERR");
    two.peer.free_window(&window).unwrap();
}

#[test]
fn scattered_memory_is_gathered() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, mut two) = connected(&lab, GidIndex::Ip4, |_| {});
    let sent = one.fill(1);
    let to = [
        two.region.part(100, 1000),
        two.region.part(0, 10),
        two.region.part(5000, 2000),
    ];
    two.peer.receive(&two.pair, 1, &to).unwrap();
    let from = [one.region.part(7, 3), one.region.part(9000, 2500)];
    one.peer
        .send(&one.pair, &SendWork::new(1, Operation::Send, &from))
        .unwrap();
    assert_success(&one.poll(), "SEND");
    assert_eq!(two.poll().byte_len, 2503);
    let (memory, expected) = (two.memory(), [&sent[7..10], &sent[9000..11_500]].concat());
    let received = [&memory[100..1100], &memory[..10], &memory[5000..6493]].concat();
    assert!(received == expected);
}
