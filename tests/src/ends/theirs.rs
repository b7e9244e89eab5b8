//! The kernel's Soft-RoCE as an end.

use roce_verbs::device::Gid;
use roce_verbs::{Endpoint, Psn, Qpn};

use super::{COMPLETION_TIMEOUT, End, Options};
use crate::lab::Lab;
use crate::peer::{
    Completion, Connect, Operation, Pair, PairOptions, Region, RxePeer, SendWork, Sge,
};

/// The PSN of rxe's first request: shortly before the PSNs wrap.
const FIRST_PSN: u32 = 0xff_fff0;

/// Soft-RoCE, in the guest.
#[derive(Debug)]
pub struct Theirs {
    /// The process in the guest.
    pub peer: RxePeer,
    /// The queue pair, with a completion queue of its own.
    pub pair: Pair,
    /// The region.
    pub region: Region,
}

impl Theirs {
    /// Opens the guest's device.
    pub fn open(lab: &Lab, options: &Options) -> Self {
        let mut peer = RxePeer::start(lab, options.gid).expect("the peer starts");
        let region = peer
            .register(options.length, options.their_region)
            .expect("the peer registers memory");
        let limits = PairOptions {
            depth: 256,
            sges: 4,
        };
        let pair = peer.create_pair(&limits).expect("the peer makes a pair");
        Self { peer, pair, region }
    }

    /// The address of this end, for the other end.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            gid: Gid(self.peer.gid().octets()),
            qpn: Qpn::from_bits(self.pair.qpn),
            psn: Psn::new(FIRST_PSN),
        }
    }

    /// Connects the queue pair.
    pub fn connect(&mut self, options: &Options, remote: &Endpoint) {
        let path_mtu = options.path_mtu.unwrap_or(self.peer.active_mtu());
        let connect = Connect {
            local_psn: FIRST_PSN,
            timeout: options.timeout,
            retry_count: options.retry_count,
            rnr_retry: options.rnr_retry,
            min_rnr_timer: options.min_rnr_timer,
            max_rd_atomic: options.max_rd_atomic,
            max_dest_rd_atomic: options.max_rd_atomic,
            ..Connect::new(
                remote.qpn.get(),
                remote.psn.get(),
                remote.gid.0.into(),
                path_mtu,
            )
        };
        self.peer
            .connect(&self.pair, &connect)
            .expect("the peer's pair connects");
    }

    fn sges(&self, parts: &[(u32, u32)]) -> Vec<Sge> {
        let part = |&(offset, length): &(u32, u32)| self.region.part(offset, length);
        parts.iter().map(part).collect()
    }
}

impl End for Theirs {
    fn name(&self) -> &'static str {
        "rxe"
    }

    fn write_memory(&mut self, offset: u32, bytes: &[u8]) {
        self.peer
            .write_memory(&self.region, offset, bytes)
            .expect("the peer writes its memory");
    }

    fn read_memory(&mut self, offset: u32, length: u32) -> Vec<u8> {
        self.peer
            .read_memory(&self.region, offset, length)
            .expect("the peer reads its memory")
    }

    fn remote(&self, offset: u32) -> (u64, u32) {
        (self.region.addr + u64::from(offset), self.region.rkey)
    }

    fn post(&mut self, wr_id: u64, operation: Operation, parts: &[(u32, u32)]) {
        let work = SendWork::new(wr_id, operation, &self.sges(parts));
        self.peer
            .send(&self.pair, &work)
            .expect("the peer posts the request");
    }

    fn receive(&mut self, wr_id: u64, parts: &[(u32, u32)]) {
        let sges = self.sges(parts);
        self.peer
            .receive(&self.pair, wr_id, &sges)
            .expect("the peer posts the receive");
    }

    fn completions(&mut self, count: usize) -> Vec<Completion> {
        let completions = self
            .peer
            .poll(&self.pair, count, COMPLETION_TIMEOUT)
            .expect("the peer polls");
        let came = completions.len();
        assert!(
            came == count,
            "{came} of {count} completions of rxe in {COMPLETION_TIMEOUT:?}: {completions:?}"
        );
        completions
    }

    fn state(&mut self) -> String {
        let state = self.peer.query_pair(&self.pair);
        state.expect("the peer tells its pair's state").state
    }
}
