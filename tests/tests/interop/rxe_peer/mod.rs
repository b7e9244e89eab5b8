//! Two peers in the guest move data to each other with each RC operation. This shows that rxe does
//! with itself what other tests require of this stack.

mod data;
mod errors;
mod wire;

use std::time::Duration;

use roce_tests::lab::Lab;
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
