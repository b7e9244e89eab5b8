//! Two peers of the guest move data to each other with every RC operation: what
//! later tests ask of this stack, rxe is shown to do with itself.

use std::net::UdpSocket;
use std::time::Duration;

use roce_tests::lab::{HOST_IP4, Lab};
use roce_tests::peer::{
    Access, Completion, Connect, GidIndex, Operation, Pair, PairOptions, Region, RxePeer, SendWork,
};

const TIMEOUT: Duration = Duration::from_secs(30);
const LENGTH: u32 = 1 << 20;

/// A peer with a queue pair and a region.
struct End {
    peer: RxePeer,
    pair: Pair,
    region: Region,
}

impl End {
    fn new(lab: &Lab, gid: GidIndex) -> Self {
        let mut peer = RxePeer::start(lab, gid).unwrap();
        let access = Access::ALL_REMOTE | Access::MW_BIND;
        let region = peer.register(LENGTH, access).unwrap();
        let pair = peer.create_pair(&PairOptions::default()).unwrap();
        Self { peer, pair, region }
    }

    fn connect(&mut self, other: &Self, change: impl Fn(&mut Connect)) {
        let path_mtu = self.peer.active_mtu();
        let mut connect = Connect::new(other.pair.qpn, 0xabcd, other.peer.gid(), path_mtu);
        change(&mut connect);
        self.peer.connect(&self.pair, &connect).unwrap();
    }

    fn fill(&mut self, seed: u8) -> Vec<u8> {
        let bytes: Vec<u8> = (0..LENGTH).map(|i| (i ^ (i >> 8)) as u8 ^ seed).collect();
        self.peer.write_memory(&self.region, 0, &bytes).unwrap();
        bytes
    }

    fn memory(&mut self) -> Vec<u8> {
        self.peer.read_memory(&self.region, 0, LENGTH).unwrap()
    }

    fn word(&mut self, offset: u32) -> u64 {
        let bytes = self.peer.read_memory(&self.region, offset, 8).unwrap();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }

    fn send(&mut self, operation: Operation, offset: u32, length: u32) -> Completion {
        let sges = if length == 0 {
            vec![]
        } else {
            vec![self.region.part(offset, length)]
        };
        self.peer
            .send(&self.pair, &SendWork::new(1, operation, &sges))
            .unwrap();
        self.poll()
    }

    fn receive(&mut self, wr_id: u64, offset: u32, length: u32) {
        let part = self.region.part(offset, length);
        self.peer.receive(&self.pair, wr_id, &[part]).unwrap();
    }

    fn poll(&mut self) -> Completion {
        self.peer.poll_one(&self.pair, TIMEOUT).unwrap()
    }

    fn state(&mut self) -> String {
        self.peer.query_pair(&self.pair).unwrap().state
    }
}

fn connected(lab: &Lab, gid: GidIndex, change: impl Fn(&mut Connect)) -> (End, End) {
    let (mut one, mut two) = (End::new(lab, gid), End::new(lab, gid));
    one.connect(&two, &change);
    two.connect(&one, &change);
    (one, two)
}

#[track_caller]
fn assert_success(completion: &Completion, opcode: &str) {
    assert!(completion.is_success(), "{completion:?}");
    assert_eq!(completion.opcode.as_deref(), Some(opcode), "{completion:?}");
}

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

/// A way to go wrong: what the target prepares, and what it then is asked for.
struct Wrong {
    prepare: fn(&mut End),
    request: fn(&End) -> Operation,
    /// The initiator's completion status.
    initiator: &'static str,
    /// That of the target's receive, if one is posted.
    target: Option<&'static str>,
}

#[test]
fn errors_end_in_their_status_on_both_sides() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let nothing: fn(&mut End) = |_| {};
    let cases = [
        Wrong {
            prepare: |two| two.receive(1, 0, 100),
            request: |two| write_to(two.region.addr, two.region.rkey ^ 0xff),
            initiator: "REM_ACCESS_ERR",
            target: Some("WR_FLUSH_ERR"),
        },
        Wrong {
            prepare: nothing,
            request: |two| write_to(two.region.addr + u64::from(LENGTH) - 99, two.region.rkey),
            initiator: "REM_ACCESS_ERR",
            target: None,
        },
        Wrong {
            prepare: |two| two.region = two.peer.register(4096, Access::LOCAL_WRITE).unwrap(),
            request: |two| Operation::Read {
                addr: two.region.addr,
                rkey: two.region.rkey,
            },
            initiator: "REM_ACCESS_ERR",
            target: None,
        },
        Wrong {
            prepare: |two| two.receive(1, 0, 99),
            request: |_| Operation::Send,
            // Here rxe goes its own way: the specification has REM_INV_REQ_ERR
            // for the initiator and LOC_LEN_ERR for the target.
            initiator: "REM_OP_ERR",
            target: Some("LOC_QP_OP_ERR"),
        },
        Wrong {
            prepare: nothing,
            request: |_| Operation::Send,
            initiator: "RNR_RETRY_EXC_ERR",
            target: None,
        },
    ];
    for Wrong {
        prepare,
        request,
        initiator,
        target,
    } in cases
    {
        let (mut one, mut two) = connected(&lab, GidIndex::Ip4, |c| c.rnr_retry = 2);
        prepare(&mut two);
        assert_eq!(one.send(request(&two), 0, 100).status, initiator);
        assert_eq!(one.state(), "ERR", "after {initiator}");
        if let Some(target) = target {
            assert_eq!(two.poll().status, target, "beside {initiator}");
        }
        // Nobody is to blame for a receive that was not posted yet.
        let state = if initiator == "RNR_RETRY_EXC_ERR" {
            "RTS"
        } else {
            "ERR"
        };
        assert_eq!(two.state(), state, "after {initiator}");
    }
}

fn write_to(addr: u64, rkey: u32) -> Operation {
    Operation::Write { addr, rkey }
}

#[test]
fn a_peer_that_is_gone_is_given_up() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, two) = connected(&lab, GidIndex::Ip4, |c| c.retry_count = 2);
    let Region { addr, rkey, .. } = two.region;
    two.peer.kill().unwrap();
    let completion = one.send(Operation::Write { addr, rkey }, 0, 100);
    assert_eq!(completion.status, "RETRY_EXC_ERR");
}

#[test]
fn an_error_flushes_what_is_queued() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, _two) = connected(&lab, GidIndex::Ip4, |_| {});
    for wr_id in 0..3 {
        one.receive(wr_id, 0, 100);
    }
    one.peer.fail_pair(&one.pair).unwrap();
    let flushed = one.peer.poll(&one.pair, 3, TIMEOUT).unwrap();
    let ids: Vec<u64> = flushed.iter().map(|completion| completion.wr_id).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert!(
        flushed
            .iter()
            .all(|completion| completion.status == "WR_FLUSH_ERR"),
        "{flushed:?}"
    );
}

#[test]
fn wrong_calls_are_answered_and_the_peer_lives_on() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut end = End::new(&lab, GidIndex::Ip4);
    let wrong = Connect::new(1, 2, HOST_IP4.to_ipv6_mapped(), 1000);
    let error = end.peer.connect(&end.pair, &wrong).unwrap_err().to_string();
    assert!(error.contains("1000"), "{error}");
    let error = end
        .peer
        .write_memory(&end.region, LENGTH, &[1])
        .unwrap_err()
        .to_string();
    assert!(error.contains("a region of 1048576"), "{error}");
    assert_eq!(end.state(), "RESET");
}

#[test]
fn values_stand_on_the_wire_as_they_were_given() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut end = End::new(&lab, GidIndex::Ip4);
    end.peer.write_memory(&end.region, 0, b"payload!").unwrap();
    let mut connect = Connect::new(0x00_1234, 0x00_5678, HOST_IP4.to_ipv6_mapped(), 1024);
    connect.local_psn = 0x00_9abc;
    end.peer.connect(&end.pair, &connect).unwrap();
    let socket = lab
        .enter(|| UdpSocket::bind((HOST_IP4, 4791)).unwrap())
        .unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();

    let sge = [end.region.part(0, 8)];
    let (addr, rkey) = (0x0102_0304_0506_0708, 0x1112_1314);
    let operations = [
        (
            Operation::SendImm { imm: 0x2122_2324 },
            0x05,
            vec![0x21, 0x22, 0x23, 0x24],
        ),
        (
            Operation::SendInv { key: 0x3132_3334 },
            0x17,
            vec![0x31, 0x32, 0x33, 0x34],
        ),
        (
            Operation::Write { addr, rkey },
            0x0a,
            vec![1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 8],
        ),
    ];
    for (operation, ..) in &operations {
        end.peer
            .send(&end.pair, &SendWork::new(1, *operation, &sge))
            .unwrap();
    }
    // Nothing is acknowledged, so that they come again: in order, from the first.
    let mut buffer = [0; 2048];
    let mut expected = operations.iter().zip(0x9abc_u32..).peekable();
    while let Some(((_, opcode, header), psn)) = expected.peek() {
        let length = socket.recv(&mut buffer).unwrap();
        let (bth, rest) = buffer[..length].split_at(12);
        let received = u32::from_be_bytes([0, bth[9], bth[10], bth[11]]);
        if received == *psn {
            assert_eq!(
                (bth[0], &bth[5..8]),
                (*opcode, [0x00, 0x12, 0x34].as_slice())
            );
            assert_eq!(rest[..header.len()], header[..]);
            assert_eq!(&rest[header.len()..length - 12 - 4], b"payload!");
            expected.next();
        }
    }
}
