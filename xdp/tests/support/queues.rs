//! Queues at the ends of a veth pair, and frames for them.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use roce_wire::{FrameRepr, Link, NetworkHeader, UDP_PORT, UdpHeader};
use roce_xdp::program::{AttachMode, Attached, Program, RedirectConfig};
use roce_xdp::queue::{Frame, QueueConfig};
use roce_xdp::socket::{self, SocketConfig, SocketQueue};
use roce_xdp::umem::Owner;

use super::{bytes, wait_for};
use testkit::veth::End;

/// The queues of one end, and the program that redirects frames to them.
pub(crate) struct Queues {
    pub(crate) queues: Vec<SocketQueue>,
    pub(crate) attached: Attached,
    pub(crate) program: Program,
}

pub(crate) fn config(end: &End, mtu: usize, count: u32) -> SocketConfig {
    SocketConfig {
        queues: (0..count).collect(),
        memory: QueueConfig {
            rx_chunks: 256,
            tx_frames: 64,
            max_frame_bytes: mtu + 14,
            tx_metadata: false,
        },
        ..SocketConfig::new(end.interface, end.index(), mtu)
    }
}

pub(crate) fn open(end: &End, mtu: usize, count: u32, mode: AttachMode) -> Queues {
    open_with(end, &config(end, mtu, count), mode)
}

pub(crate) fn open_with(end: &End, config: &SocketConfig, mode: AttachMode) -> Queues {
    let count = config.queues.len() as u32;
    end.enter(|| {
        let queues = socket::open(config).expect("AF_XDP");
        let program = Program::load(count, &RedirectConfig::default()).expect("BPF");
        for address in [end.ip4.into(), end.ip6.into()] {
            program.add_address(address).expect("room");
        }
        for queue in &queues {
            let socket = queue.kernel();
            program
                .set_socket(socket.queue(), socket.as_fd())
                .expect("a socket");
        }
        let attached = program
            .attach(end.interface, end.index(), mode)
            .expect("no other program");
        Queues {
            queues,
            attached,
            program,
        }
    })
}

/// A frame from one end to the other, with `len` bytes where the transport packet is.
pub(crate) fn frame(from: &End, to: &End, ipv6: bool, number: usize, len: usize) -> Vec<u8> {
    let network = if ipv6 {
        NetworkHeader::V6 {
            src: from.ip6.octets(),
            dst: to.ip6.octets(),
            traffic_class: 2,
            flow_label: 0,
            hop_limit: 64,
        }
    } else {
        NetworkHeader::V4 {
            src: from.ip4.octets(),
            dst: to.ip4.octets(),
            tos: 2,
            ttl: 64,
            id: number as u16,
            flags_fragment: 0x4000,
            options: &[],
        }
    };
    let repr = FrameRepr {
        link: Some(Link {
            dst: to.mac,
            src: from.mac,
            vlans: [None; 2],
        }),
        network,
        udp: Some(UdpHeader {
            src_port: 0xc000,
            dst_port: UDP_PORT,
            checksum: 0,
        }),
    };
    let transport = bytes(number, len);
    let mut frame = vec![0; repr.buffer_len(len)];
    let written = repr.emit(&mut frame, &transport);
    frame.truncate(written);
    frame
}

pub(crate) fn send(queue: &mut SocketQueue, frame: &[u8]) {
    wait_for("room for a frame", || {
        if let Ok(room) = queue.reserve(frame.len()) {
            room.copy_from_slice(frame);
            return Some(());
        }
        queue.flush().expect("a queue that works");
        None
    });
    queue.commit().expect("a queue that works");
}

/// Appends the frames that have arrived so far to `into`, each with its pieces joined.
pub(crate) fn receive(queue: &mut SocketQueue, into: &mut VecDeque<Vec<u8>>) {
    let mut sink = |frame: Frame<'_>| {
        let mut copy = vec![0; frame.len()];
        frame.copy_to(&mut copy);
        into.push_back(copy);
    };
    queue.receive(64, &mut sink).expect("a queue that works");
}

/// Waits until all frames are sent, and checks that no chunk is lost.
pub(crate) fn assert_all_sent_and_no_chunk_lost(queue: &mut SocketQueue, config: &QueueConfig) {
    wait_for("all is sent", || {
        queue.flush().expect("a queue that works");
        (queue.unsent() == 0).then_some(())
    });
    let chunks = queue.chunks();
    let [fill, free] = [Owner::Fill, Owner::Free].map(|owner| chunks.of(owner));
    assert_eq!(fill + free, config.chunks(), "{chunks:?}");
    // A few free chunks may not be in the fill ring yet.
    assert!(fill + 32 >= config.rx_chunks, "{chunks:?}");
    let counters = queue.counters();
    assert_eq!(
        (counters.dropped_in_all(), counters.tx_bad_completions),
        (0, 0)
    );
    let kernel = queue.kernel().statistics().expect("statistics");
    assert_eq!(
        (
            kernel.rx_dropped,
            kernel.rx_invalid_descs,
            kernel.tx_invalid_descs
        ),
        (0, 0, 0)
    );
}
