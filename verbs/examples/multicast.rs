//! Datagrams: one queue pair sends to several, by address or to a multicast group.
//!
//! ```text
//! cargo run --example multicast                              three QPs, over loopback
//! cargo run --example multicast -- receiver 10.0.0.1         on some hosts: waits for a datagram …
//! cargo run --example multicast -- sender 10.0.0.2           … and on another: sends it
//! ```
//!
//! A UD queue pair has no connection. Each send request names its destination: an address handle, a
//! QP number, and a Q_Key, which must be the receiver's. A datagram is at most one packet, and may
//! be lost. A network header of 40 bytes precedes each received datagram, so receive buffers must
//! be 40 bytes larger than the datagram.
//!
//! Every QP that is attached to a group receives the group's datagrams.

use roce_verbs::datagram::AddressOptions;
use roce_verbs::device::Gid;
use roce_verbs::prelude::*;
use roce_verbs::qp::QKey;
use std::net::{IpAddr, Ipv4Addr};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The values that the members of the group have agreed on.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 18, 5, 15);
const KEY: QKey = QKey(0x1234_5678);

/// The size of the network header that precedes a received datagram, in bytes.
const HEADER: usize = 40;
const MESSAGE: &[u8] = b"to all of you";

#[allow(dead_code)] // A test includes this file and calls `run`.
fn main() -> Outcome {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            let loopback = IpAddr::from([127, 0, 0, 1]);
            let members = [Member::join(loopback)?, Member::join(loopback)?];
            Member::open(loopback)?.send()?;
            members.iter().try_for_each(Member::receive)
        }
        ["receiver", address] => Member::join(address.parse()?)?.receive(),
        ["sender", address] => Member::open(address.parse()?)?.send(),
        _ => Err("usage: [receiver ADDRESS | sender ADDRESS]".into()),
    }
}

struct Member {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
    gid_index: u8,
}

impl Member {
    /// A UD queue pair at an address of this host.
    fn open(address: IpAddr) -> Outcome<Self> {
        let context = Device::with_address(address)?.open()?;
        let gid_index = context.gid_index(address)?;
        let pd = context.alloc_pd();
        let cq = context.create_cq(16);
        let options = QpOptions {
            kind: QpKind::Ud,
            ..QpOptions::default()
        };
        let qp = pd.create_qp(&cq, &cq, &options)?;
        let memory = pd.allocate(4096, Access::LOCAL_WRITE)?;
        qp.activate(gid_index, KEY)?;
        Ok(Self {
            pd,
            cq,
            qp,
            memory,
            gid_index,
        })
    }

    /// A queue pair that is attached to the group and has a receive posted.
    fn join(address: IpAddr) -> Outcome<Self> {
        let member = Self::open(address)?;
        let sges = [member.memory.all()?];
        member.qp.post_recv(&RecvRequest {
            wr_id: 1,
            sges: &sges,
        })?;
        member.qp.attach_multicast(Gid::from(IpAddr::V4(GROUP)))?;
        Ok(member)
    }

    fn send(&self) -> Outcome {
        let group = Gid::from(IpAddr::V4(GROUP));
        let handle = self
            .pd
            .create_ah(self.gid_index, group, &AddressOptions::default())?;
        self.memory.write(0, MESSAGE)?;
        let message = self.memory.slice(0, MESSAGE.len())?;
        // Datagrams to a group carry this QP number.
        let all = handle.to(Qpn::MULTICAST, KEY);
        self.qp
            .post_send(&SendRequest::send(message).id(2).to(all))?;
        self.cq.wait_polling()?.ok()?;
        println!("sent {} bytes to {GROUP}", MESSAGE.len());
        Ok(())
    }

    fn receive(&self) -> Outcome {
        let completion = self.cq.wait_polling()?.ok()?;
        let mut bytes = vec![0; completion.byte_len as usize];
        self.memory.read(0, &mut bytes)?;
        let source = completion.source.ok_or("a datagram without a source")?;
        println!("QP {}: a datagram from QP {}", self.qp.qpn(), source.qpn);
        match bytes.get(HEADER..) {
            Some(MESSAGE) => Ok(()),
            other => Err(format!("unexpected datagram: {other:?}").into()),
        }
    }
}
