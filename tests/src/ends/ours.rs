//! This stack as an end.

use std::net::IpAddr;

use roce_verbs::completion::WcOpcode;
use roce_verbs::qp::{PathMtu, QpState, RnrTimer};
use roce_verbs::{
    CompletionQueue, ConnectOptions, Context, Device, Endpoint, MemoryRegion, ProtectionDomain,
    QpOptions, QueuePair, RecvRequest, RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};

use super::{COMPLETION_TIMEOUT, End, Options};
use crate::lab::{HOST_IP4, HOST_LL6, Lab};
use crate::peer::{Completion, GidIndex, Operation};

/// Depth of each queue, in requests.
const DEPTH: usize = 256;
/// Elements of a scatter/gather list.
const SGES: usize = 8;

/// This stack, in the lab's namespace. The QP is the first field, so it is dropped first.
#[derive(Debug)]
pub struct Ours {
    /// The queue pair.
    pub qp: QueuePair,
    /// Its completion queue, for both of its queues.
    pub cq: CompletionQueue,
    /// The region.
    pub region: MemoryRegion,
    /// The protection domain of both.
    pub pd: ProtectionDomain,
    /// The device.
    pub context: Context,
    endpoint: Endpoint,
    gid_index: u8,
}

impl Ours {
    /// Opens the lab's interface.
    pub(super) fn open(lab: &Lab, options: &Options) -> Self {
        let address = match options.gid {
            GidIndex::Ip4 => IpAddr::from(HOST_IP4),
            GidIndex::LinkLocal6 => IpAddr::from(HOST_LL6),
        };
        // The stack sees the interfaces and addresses of the calling thread's namespace.
        let opened = lab.enter(|| {
            let device = Device::with_address(address).expect("the lab's interface is a device");
            let context = device.open().expect("the device opens");
            let gids = context.gids();
            let gid = gids.iter().find(|entry| entry.gid.ip() == address);
            let gid_index = gid.expect("the address has a GID").index;
            let pd = context.alloc_pd();
            let cq = context.create_cq(2 * DEPTH);
            let limits = QpOptions {
                send_depth: DEPTH,
                recv_depth: DEPTH,
                max_send_sge: SGES,
                max_recv_sge: SGES,
                ..QpOptions::default()
            };
            let qp = pd.create_qp(&cq, &cq, &limits).expect("a QP");
            let region = pd
                .allocate(options.length as usize, options.our_region)
                .expect("memory is registered");
            let endpoint = qp.endpoint(gid_index).expect("the GID is there");
            Self {
                qp,
                cq,
                region,
                pd,
                context,
                endpoint,
                gid_index,
            }
        });
        opened.expect("the lab's namespace is there")
    }

    /// The address of this end, for the other end.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Connects the queue pair.
    pub(super) fn connect(&mut self, lab: &Lab, options: &Options, remote: &Endpoint) {
        let path_mtu = options.path_mtu.map(|bytes| {
            PathMtu::from_bytes(bytes as usize).expect("a path MTU that the specification has")
        });
        let connect = ConnectOptions {
            path_mtu,
            max_rd_atomic: options.max_rd_atomic,
            max_dest_rd_atomic: options.max_rd_atomic,
            min_rnr_timer: RnrTimer::from_code(options.min_rnr_timer).expect("a code of 5 bits"),
            timeout: options.timeout,
            retry_cnt: options.retry_count,
            rnr_retry: options.rnr_retry,
            ..ConnectOptions::default()
        };
        let connected = lab.enter(|| self.qp.connect(self.gid_index, remote, &connect));
        connected
            .expect("the lab's namespace is there")
            .expect("the queue pair connects");
    }

    fn sges(&self, parts: &[(u32, u32)]) -> Vec<Sge> {
        parts
            .iter()
            .map(|&(offset, length)| {
                self.region
                    .slice(offset as usize, length as usize)
                    .expect("the part lies in the region")
            })
            .collect()
    }
}

impl End for Ours {
    fn name(&self) -> &'static str {
        "this stack"
    }

    fn write_memory(&mut self, offset: u32, bytes: &[u8]) {
        self.region
            .write(offset as usize, bytes)
            .expect("the bytes lie in the region");
    }

    fn read_memory(&mut self, offset: u32, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        self.region
            .read(offset as usize, &mut bytes)
            .expect("the bytes lie in the region");
        bytes
    }

    fn remote(&self, offset: u32) -> (u64, u32) {
        let remote = self.region.remote(offset.into());
        (remote.addr, remote.rkey)
    }

    fn post(&mut self, wr_id: u64, operation: Operation, parts: &[(u32, u32)]) {
        let sges = self.sges(parts);
        self.qp
            .post_send(&SendRequest::new(wr_id, send_op(operation), &sges))
            .expect("the request is posted");
    }

    fn receive(&mut self, wr_id: u64, parts: &[(u32, u32)]) {
        let sges = self.sges(parts);
        self.qp
            .post_recv(&RecvRequest { wr_id, sges: &sges })
            .expect("the receive is posted");
    }

    fn completions(&mut self, count: usize) -> Vec<Completion> {
        let next = |_| {
            let polled = self
                .cq
                .poll_for(COMPLETION_TIMEOUT)
                .expect("the queue has room");
            completion(&polled.unwrap_or_else(|| {
                let counters: Vec<_> = self.context.counters().iter().filter(|c| c.1 > 0).collect();
                panic!("no completion of this stack in {COMPLETION_TIMEOUT:?}: {counters:?}")
            }))
        };
        (0..count).map(next).collect()
    }

    fn state(&mut self) -> String {
        let name = match self.qp.query().0 {
            QpState::Reset => "RESET",
            QpState::Init => "INIT",
            QpState::Rtr => "RTR",
            QpState::Rts => "RTS",
            QpState::Sqd => "SQD",
            QpState::Sqe => "SQE",
            QpState::Err => "ERR",
        };
        name.to_owned()
    }
}

fn send_op(operation: Operation) -> SendOp {
    let at = |addr, rkey| RemoteAddr { addr, rkey };
    match operation {
        Operation::Send => SendOp::Send,
        Operation::SendImm { imm } => SendOp::SendImm(imm),
        Operation::SendInv { key } => SendOp::SendInvalidate(key),
        Operation::Write { addr, rkey } => SendOp::Write(at(addr, rkey)),
        Operation::WriteImm { addr, rkey, imm } => SendOp::WriteImm(at(addr, rkey), imm),
        Operation::Read { addr, rkey } => SendOp::Read(at(addr, rkey)),
        Operation::CompareSwap {
            addr,
            rkey,
            compare,
            swap,
        } => SendOp::CompareSwap {
            remote: at(addr, rkey),
            compare,
            swap,
        },
        Operation::FetchAdd { addr, rkey, add } => SendOp::FetchAdd {
            remote: at(addr, rkey),
            add,
        },
        Operation::LocalInv { key } => SendOp::LocalInv(key),
    }
}

/// The completion, with the names of verbs.
fn completion(ours: &roce_verbs::Completion) -> Completion {
    let status = match ours.status {
        WcStatus::Success => "SUCCESS",
        WcStatus::LocalLengthError => "LOC_LEN_ERR",
        WcStatus::LocalQpOperationError => "LOC_QP_OP_ERR",
        WcStatus::LocalProtectionError => "LOC_PROT_ERR",
        WcStatus::LocalAccessError => "LOC_ACCESS_ERR",
        WcStatus::WorkRequestFlushed => "WR_FLUSH_ERR",
        WcStatus::MemoryWindowBindError => "MW_BIND_ERR",
        WcStatus::BadResponse => "BAD_RESP_ERR",
        WcStatus::RemoteInvalidRequest => "REM_INV_REQ_ERR",
        WcStatus::RemoteAccessError => "REM_ACCESS_ERR",
        WcStatus::RemoteOperationError => "REM_OP_ERR",
        WcStatus::RetryExceeded => "RETRY_EXC_ERR",
        WcStatus::RnrRetryExceeded => "RNR_RETRY_EXC_ERR",
        other => panic!("{other:?} has no name in verbs.h here"),
    };
    let opcode = match ours.opcode {
        WcOpcode::Send => "SEND",
        WcOpcode::RdmaWrite => "RDMA_WRITE",
        WcOpcode::RdmaRead => "RDMA_READ",
        WcOpcode::CompareSwap => "COMP_SWAP",
        WcOpcode::FetchAdd => "FETCH_ADD",
        WcOpcode::Flush => "FLUSH",
        WcOpcode::AtomicWrite => "ATOMIC_WRITE",
        WcOpcode::BindMw => "BIND_MW",
        WcOpcode::LocalInv => "LOCAL_INV",
        WcOpcode::Recv => "RECV",
        WcOpcode::RecvRdmaWithImm => "RECV_RDMA_WITH_IMM",
        other => panic!("{other:?} has no name in verbs.h here"),
    };
    Completion {
        wr_id: ours.wr_id,
        status: status.to_owned(),
        opcode: (ours.status == WcStatus::Success).then(|| opcode.to_owned()),
        byte_len: ours.byte_len,
        imm: ours.imm,
        invalidated: ours.invalidated_rkey,
        vendor_err: 0,
    }
}
