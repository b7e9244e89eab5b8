//! Tests queues over veth pairs: the frames on the wire, and the kernel's behaviour when sockets,
//! programs and interfaces come and go. These tests need root.

mod support;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use roce_wire::UDP_PORT;
use roce_xdp::offer;
use roce_xdp::program::{AttachMode, Mode, Program, RedirectConfig};
use roce_xdp::queue::{QueueConfig, QueueError};
use roce_xdp::socket::{self, BusyPoll, SocketConfig, SocketQueue, ZeroCopy};
use roce_xdp::umem::CHUNK_BYTES;
use socket2::SockRef;
use support::queues::{
    assert_all_sent_and_no_chunk_lost, config, frame, open, open_with, receive, send,
};
use support::{TIMEOUT, bytes, wait_for};
use testkit::namespaces_or_skip;
use testkit::veth::Pair;

/// Lengths around the chunk boundaries of received and of sent frames.
const LENS: [usize; 12] = [
    4, 64, 1040, 3797, 3798, 3799, 4050, 4054, 4055, 4112, 7700, 8900,
];

/// Sends frames of all lengths from `near` to `far`, and checks that all arrive unchanged.
fn all_lengths(pair: &Pair, near: &mut SocketQueue, far: &mut SocketQueue) {
    let mut sent = VecDeque::new();
    let mut received = VecDeque::new();
    for round in 0..40 {
        for (number, len) in LENS.into_iter().enumerate() {
            let frame = frame(
                &pair.near,
                &pair.far,
                round % 2 == 1,
                round * 100 + number,
                len,
            );
            send(near, &frame);
            sent.push_back(frame);
        }
        near.flush().expect("a queue that works");
        wait_for("as many frames as sent", || {
            receive(far, &mut received);
            (received.len() >= sent.len()).then_some(())
        });
        for (got, want) in received.drain(..).zip(sent.drain(..)) {
            assert!(
                got == want,
                "{} bytes came, not the {} that were sent",
                got.len(),
                want.len()
            );
        }
    }
    assert!(far.counters().rx_in_pieces > 0);
}

fn frames_cross(mode: AttachMode, expected: Mode) {
    let mtu = 9000;
    let Some(pair) = Pair::new_or_skip(mtu, 1) else {
        return;
    };
    let mut near = open(&pair.near, mtu, 1, mode);
    let mut far = open(&pair.far, mtu, 1, mode);
    assert_eq!(
        (near.attached.mode(), far.attached.mode()),
        (expected, expected)
    );
    assert!(!near.queues[0].kernel().is_zero_copy(), "veth has none");
    let (near, far) = (&mut near.queues[0], &mut far.queues[0]);
    all_lengths(&pair, near, far);
    let memory = config(&pair.near, mtu, 1).memory;
    let send_buffer = SockRef::from(near.kernel()).send_buffer_size();
    let for_all = memory.tx_chunks() as usize * CHUNK_BYTES;
    assert!(send_buffer.expect("an option of every socket") >= for_all);
    assert_all_sent_and_no_chunk_lost(near, &memory);
    assert_all_sent_and_no_chunk_lost(far, &memory);
}

#[test]
fn frames_cross_in_native_mode() {
    frames_cross(AttachMode::Auto, Mode::Native);
}

#[test]
fn frames_cross_in_generic_mode() {
    frames_cross(AttachMode::Generic, Mode::Generic);
}

#[test]
fn frames_cross_with_preferred_busy_polling() {
    let Some(pair) = Pair::new_or_skip(9000, 1) else {
        return;
    };
    let busy_poll = Some(BusyPoll {
        time: Duration::from_micros(20),
        budget: 64,
    });
    let open = |end| {
        let config = SocketConfig {
            busy_poll,
            ..config(end, 9000, 1)
        };
        open_with(end, &config, AttachMode::Auto)
    };
    let (mut near, mut far) = (open(&pair.near), open(&pair.far));
    let (near, far) = (&mut near.queues[0], &mut far.queues[0]);
    all_lengths(&pair, near, far);
    far.receive(1, &mut |_| {}).expect("a queue that works");
    assert!(
        far.counters().rx_wakeups > 0,
        "nothing arrives unless it is asked for"
    );
}

/// Whether the kernel has an option for the number of pieces that one call sends
/// (`XDP_MAX_TX_SKB_BUDGET`). Tested by setting it to the ring's size.
fn supports_send_budget(queue: &SocketQueue, ring: u32) -> bool {
    const MAX_TX_SKB_BUDGET: libc::c_int = 9;
    let (fd, len) = (queue.kernel().as_fd(), size_of::<u32>() as libc::socklen_t);
    let value = std::ptr::from_ref(&ring).cast();
    // SAFETY: the pointer is to a value of the given size that lives through the call.
    unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, MAX_TX_SKB_BUDGET, value, len) == 0 }
}

#[test]
fn one_call_sends_a_full_ring_if_the_kernel_supports_it() {
    let mtu = 9000;
    let Some(pair) = Pair::new_or_skip(mtu, 1) else {
        return;
    };
    let mut near = open(&pair.near, mtu, 1, AttachMode::Auto);
    let near = &mut near.queues[0];
    let memory = config(&pair.near, mtu, 1).memory;
    // Each frame has two pieces.
    let frame = frame(&pair.near, &pair.far, false, 0, 4112);
    for _ in 0..memory.tx_frames {
        send(near, &frame);
    }
    let sent = near.flush().expect("a queue that works");
    let calls = near.counters().tx_wakeups;
    // Other drivers may not report how many frames they took.
    if supports_send_budget(near, memory.tx_chunks().next_power_of_two()) {
        let pieces = 2 * memory.tx_frames;
        assert_eq!((sent, calls), (true, 1), "for {pieces} pieces");
    }
    wait_for("the kernel to have sent all", || {
        near.flush().expect("a queue that works");
        (near.unsent() == 0).then_some(())
    });
}

/// Sends frames through two queues at the same time. Their memory is registered once, or once for
/// each queue.
fn two_queues(share_memory: bool) {
    let mtu = 4300;
    let Some(pair) = Pair::new_or_skip(mtu, 2) else {
        return;
    };
    let open = |end| {
        let config = SocketConfig {
            share_memory,
            ..config(end, mtu, 2)
        };
        open_with(end, &config, AttachMode::Auto)
    };
    let (mut near, mut far) = (open(&pair.near), open(&pair.far));
    let shares = |queue: &SocketQueue| queue.kernel().shares_memory();
    for queues in [&near.queues, &far.queues] {
        assert_eq!(
            [shares(&queues[0]), shares(&queues[1])],
            [false, share_memory]
        );
    }
    let memory = config(&pair.near, mtu, 2).memory;
    for number in 0..200 {
        for queue in 0..2 {
            // A frame sent by a queue of a veth arrives at the queue with the same number of its
            // peer.
            let frame = frame(&pair.near, &pair.far, queue == 1, number, 4112);
            send(&mut near.queues[queue], &frame);
            near.queues[queue].flush().expect("a queue that works");
            let mut received = VecDeque::new();
            wait_for("the frame", || {
                receive(&mut far.queues[queue], &mut received);
                (!received.is_empty()).then_some(())
            });
            assert!(received == [frame]);
        }
    }
    for queue in near.queues.iter_mut().chain(&mut far.queues) {
        assert_all_sent_and_no_chunk_lost(queue, &memory);
    }
    for (number, queue) in far.queues.iter().enumerate() {
        assert_eq!(
            (queue.counters().rx_frames, queue.kernel().queue()),
            (200, number as u32)
        );
    }
}

#[test]
fn two_queues_share_their_memory() {
    two_queues(true);
}

#[test]
fn two_queues_register_their_own_memory() {
    two_queues(false);
}

#[test]
fn traffic_for_the_kernel_is_not_disturbed() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let far = open(&pair.far, 1500, 1, AttachMode::Auto);
    let _near = open(&pair.near, 1500, 1, AttachMode::Auto);
    let (there, here) = (&pair.far, &pair.near);
    for peer in ["10.91.0.2", "fd91::2"] {
        let listen = || TcpListener::bind((peer, UDP_PORT)).expect("a free port");
        let listener = there.enter(listen);
        let connect =
            || TcpStream::connect_timeout(&listener.local_addr().expect("bound"), TIMEOUT);
        let mut client = here
            .enter(connect)
            .expect("ARP, neighbour discovery and TCP pass");
        let (mut server, _) = listener.accept().expect("a connection");
        server.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let sent = bytes(2, 100_000);
        client.write_all(&sent).expect("a connection");
        let mut got = vec![0; sent.len()];
        server.read_exact(&mut got).expect("what was sent");
        assert!(got == sent);
    }
    // Send UDP to another port, and a large fragmented datagram to port 4791.
    for (port, len) in [(4792, 1000), (UDP_PORT, 5000)] {
        let bind = || UdpSocket::bind(("10.91.0.2", port)).expect("a free port");
        let server = there.enter(bind);
        server.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let client = here.enter(|| UdpSocket::bind("10.91.0.1:0").expect("a free port"));
        let sent = bytes(1, len);
        client.send_to(&sent, ("10.91.0.2", port)).expect("a route");
        let mut got = vec![0; 8000];
        let len = server.recv(&mut got).expect("the datagram");
        assert!(got[..len] == sent);
    }
    assert_eq!(far.queues[0].counters().rx_frames, 0);
}

#[test]
fn frames_are_redirected_while_the_program_has_the_address() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut far = open(&pair.far, 1500, 1, AttachMode::Auto);
    let mut near = open(&pair.near, 1500, 1, AttachMode::Auto);
    far.program
        .remove_address(pair.far.ip4.into())
        .expect("it was there");
    let (to_kernel, to_us) = (false, true);
    let mut received = VecDeque::new();
    for ipv6 in [to_kernel, to_us] {
        send(
            &mut near.queues[0],
            &frame(&pair.near, &pair.far, ipv6, 1, 100),
        );
        near.queues[0].flush().expect("a queue that works");
    }
    wait_for("the second frame", || {
        receive(&mut far.queues[0], &mut received);
        (!received.is_empty()).then_some(())
    });
    assert_eq!(received[0][12..14], [0x86, 0xdd], "not the first");
}

#[test]
fn the_error_names_a_program_that_is_attached() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    for (there, mode) in [
        (AttachMode::Auto, "native"),
        (AttachMode::Generic, "generic"),
    ] {
        let first = open(&pair.far, 1500, 1, there);
        let second = Program::load(1, &RedirectConfig::default()).expect("BPF");
        for wanted in [AttachMode::Auto, AttachMode::Native, AttachMode::Generic] {
            let attach = || second.attach(pair.far.interface, pair.far.index(), wanted);
            let error = pair.far.enter(attach).expect_err("there is one");
            let text = error.to_string();
            for word in ["far", "roce_redirect", "program ", mode, "xdp off"] {
                assert!(text.contains(word), "{word} is not in: {text}");
            }
        }
        drop(first);
        let attach = || second.attach(pair.far.interface, pair.far.index(), AttachMode::Auto);
        pair.far.enter(attach).expect("it went with its owner");
    }
}

#[test]
fn a_queue_can_be_opened_again_at_once() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    for _ in 0..3 {
        let config = config(&pair.near, 1500, 1);
        let queues = pair.near.enter(|| socket::open(&config));
        assert_eq!(queues.expect("the queue is free").len(), 1);
    }
}

#[test]
fn errors_of_open_say_why() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let fails = |change: &dyn Fn(&mut SocketConfig), words: &[&str]| {
        let mut config = config(&pair.near, 1500, 1);
        config.bind_timeout = std::time::Duration::ZERO;
        change(&mut config);
        let open = || {
            socket::open(&config)
                .map(drop)
                .expect_err("it can't work")
                .to_string()
        };
        let text = pair.near.enter(open);
        for word in words {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
    };
    fails(
        &|config| config.zero_copy = ZeroCopy::Require,
        &["queue 0 of near", "binding"],
    );
    fails(&|config| config.queues = vec![7], &["queue 7 of near"]);
    let held = open(&pair.near, 1500, 1, AttachMode::Auto);
    fails(&|_| {}, &["queue 0 of near", "another AF_XDP socket"]);
    drop(held);
}

/// Shows why two processes can't both use `lo`: the interface has one queue, and the kernel gives a
/// queue to several sockets only if they share memory.
#[test]
fn the_loopback_interface_has_one_queue_for_one_socket() {
    let Some([namespace]) = namespaces_or_skip() else {
        return;
    };
    namespace.ip("link set lo up").expect("iproute2");
    // The first interface of every namespace.
    const LO: u32 = 1;
    let config = |queue, bind_timeout| SocketConfig {
        queues: vec![queue],
        memory: QueueConfig {
            rx_chunks: 8,
            tx_frames: 8,
            max_frame_bytes: 1514,
            tx_metadata: false,
        },
        bind_timeout,
        ..SocketConfig::new("lo", LO, 1500)
    };
    let open = |queue, bind_timeout| {
        let opened = socket::open(&config(queue, bind_timeout));
        opened.map_err(|error| (error.source.raw_os_error(), error.to_string()))
    };
    namespace.enter(|| {
        assert_eq!(offer::of_interface(LO).expect("it is there").queues, 1);
        let first = open(0, Duration::ZERO).expect("nobody has it");
        let (code, said) = open(0, Duration::ZERO).expect_err("the first has it");
        assert_eq!(code, Some(libc::EBUSY), "{said}");
        assert!(said.contains("another AF_XDP socket holds the queue"));
        let (code, said) = open(1, Duration::ZERO).expect_err("there is none");
        assert_eq!(code, Some(libc::EINVAL), "{said}");
        drop(first);
        open(0, TIMEOUT).expect("it is free again");
    });
}

#[test]
fn a_link_that_is_down_is_no_error_but_a_removed_one_is() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open(&pair.near, 1500, 1, AttachMode::Auto);
    let queue = &mut near.queues[0];
    pair.near.run("ip link set near down");
    send(queue, &frame(&pair.near, &pair.far, false, 1, 100));
    queue.flush().expect("it may come up again");
    queue.receive(1, &mut |_| {}).expect("it may come up again");
    pair.near.run("ip link delete near");
    let error = wait_for("the interface is gone", || {
        send(queue, &frame(&pair.near, &pair.far, false, 1, 100));
        queue.flush().err()
    });
    assert!(matches!(error, QueueError::Wake { .. }), "{error}");
}
