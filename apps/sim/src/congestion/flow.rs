//! Flows: WRITEs from one host to another, each flow on a QP of its own.

use super::error::RunError;
use super::scenario::FlowPlan;
use crate::connect::{ConnectSpec, connect};
use crate::fabric::{Fabric, HostId};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Instant, Memory, PdId, QpInit, QpKind, QueueLimits,
    RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};
use roce_wire::{PathMtu, Qpn};
use std::sync::Arc;

/// Length of a request, in bytes.
pub(super) const REQUEST_BYTES: u32 = 64 << 10;

/// The number of requests that a flow keeps posted. Together they fill the window of the QP.
const QUEUE_DEPTH: usize = 16;

/// Payload bytes of a packet. The testbed of the DCQCN paper had 1500 bytes on the link.
pub(super) const MTU: PathMtu = PathMtu::Mtu1024;

/// The address of registered memory, the same in each run.
const IOVA: u64 = 0x10_0000;

/// The memory of a host, and the CQ for all its completions.
#[derive(Debug)]
pub(super) struct HostObjects {
    host: HostId,
    pd: PdId,
    key: u32,
    pub(super) cq: Arc<CompletionQueue>,
}

impl HostObjects {
    pub(super) fn new(fabric: &mut Fabric, host: HostId, flows: usize) -> Result<Self, RunError> {
        let nic = fabric.nic(host);
        let pd = nic.alloc_pd();
        let buffer = Buffer::new(REQUEST_BYTES as usize).map_err(RunError::new)?;
        let memory = Memory::buffer(Arc::new(buffer));
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let key = nic
            .register_memory(pd, memory, Some(IOVA), access)
            .map_err(RunError::new)?;
        let cq = Arc::new(CompletionQueue::new(CqId(0), (flows + 1) * 2 * QUEUE_DEPTH));
        Ok(Self { host, pd, key, cq })
    }

    fn create_qp(&self, fabric: &mut Fabric) -> Result<Qpn, RunError> {
        let limits = QueueLimits {
            depth: QUEUE_DEPTH,
            max_sge: 1,
        };
        let made = fabric.nic(self.host).create_qp(QpInit {
            kind: QpKind::Rc,
            pd: self.pd,
            send_cq: Arc::clone(&self.cq),
            recv_cq: Arc::clone(&self.cq),
            send: limits,
            recv: limits,
            max_inline: 0,
            signal_all: false,
        });
        made.map_err(RunError::new)
    }
}

/// A flow and its progress.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) plan: FlowPlan,
    qpns: Option<[Qpn; 2]>,
    posted: u64,
    /// Payload of its completed requests, in bytes.
    pub(super) done: u64,
    pub(super) finished: Option<Instant>,
}

impl Flow {
    pub(super) fn new(plan: FlowPlan) -> Self {
        Self {
            plan,
            qpns: None,
            posted: 0,
            done: 0,
            finished: None,
        }
    }

    /// Connects the flow and starts it.
    pub(super) fn start(
        &mut self,
        number: usize,
        fabric: &mut Fabric,
        host_objects: &[HostObjects],
    ) -> Result<(), RunError> {
        let [from, to] = [&host_objects[self.plan.from], &host_objects[self.plan.to]];
        let qpns = [from.create_qp(fabric)?, to.create_qp(fabric)?];
        let spec = ConnectSpec {
            path_mtu: MTU,
            timeout: 14,
            ..ConnectSpec::default()
        };
        let ends = [(from.host, qpns[0]), (to.host, qpns[1])];
        connect(fabric, ends, &spec).map_err(RunError::new)?;
        self.qpns = Some(qpns);
        for _ in 0..QUEUE_DEPTH {
            self.post(number, fabric, host_objects)?;
        }
        fabric.drive(from.host);
        Ok(())
    }

    /// Stops the flow, although requests may be in flight.
    pub(super) fn stop(&mut self, fabric: &mut Fabric, host_objects: &[HostObjects]) {
        if let Some([from, to]) = self.qpns.take() {
            for (host, qpn) in [(self.plan.from, from), (self.plan.to, to)] {
                fabric.nic(host_objects[host].host).destroy_qp(qpn);
                fabric.drive(host_objects[host].host);
            }
        }
    }

    /// Handles a completed request, and posts the next one.
    pub(super) fn completed(
        &mut self,
        number: usize,
        (status, bytes): (WcStatus, u64),
        fabric: &mut Fabric,
        host_objects: &[HostObjects],
    ) -> Result<(), RunError> {
        if status != WcStatus::Success {
            return Err(RunError::new(format!("flow {number}: {status:?}")));
        }
        self.done += bytes;
        if self.plan.bytes.is_some_and(|all| self.done >= all) {
            self.finished = Some(fabric.now());
            self.stop(fabric, host_objects);
            return Ok(());
        }
        self.post(number, fabric, host_objects)
    }

    fn post(
        &mut self,
        number: usize,
        fabric: &mut Fabric,
        host_objects: &[HostObjects],
    ) -> Result<(), RunError> {
        let remaining = self.plan.bytes.map(|all| all - self.posted);
        let length = remaining.map_or(u64::from(REQUEST_BYTES), |remaining| {
            remaining.min(REQUEST_BYTES.into())
        });
        let Some([qpn, _]) = self.qpns.filter(|_| length > 0) else {
            return Ok(());
        };
        let [from, to] = [&host_objects[self.plan.from], &host_objects[self.plan.to]];
        let sge = Sge {
            addr: IOVA,
            length: length as u32,
            lkey: from.key,
        };
        let wr = SendRequest::new(
            (number as u64) << 32 | length,
            SendOp::Write(RemoteAddr {
                addr: IOVA,
                rkey: to.key,
            }),
            sge,
        );
        let now = fabric.now();
        fabric
            .nic(from.host)
            .post_send(now, qpn, &wr)
            .map_err(RunError::new)?;
        self.posted += length;
        Ok(())
    }
}

/// The number of the flow that a request belongs to, and the length of the request in bytes.
pub(super) fn decode_wr_id(wr_id: u64) -> (usize, u64) {
    ((wr_id >> 32) as usize, wr_id & 0xffff_ffff)
}
