//! SPDK's NVMe target and host, built from its sources.

use crate::wheels::placed_or_left_out;
use roce_tests::scene::Scene;

#[test]
fn spdk_writes_and_reads_a_disk_of_its_own() {
    let Some(folder) = placed_or_left_out("spdk") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/spdk.sh")).with("SPDK", folder);
    if let Some(played) = scene.play_or_skip(&[]) {
        // A block that differs ends bdevperf with an error. It says how many requests failed.
        played
            .says("workload: verify, depth: 16, IO size: 65536")
            .says("Attached to NVMeoF Controller at RDMA")
            .moved(10_000_000);
    }
}
