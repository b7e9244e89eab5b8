//! Ceph's messenger over RDMA, between monitor, OSD and clients.

use crate::all_or_left_out;
use roce_tests::scene::Scene;

/// Ceph with `settings` in its configuration. Its default makes connections by messages over TCP.
fn keeps_objects(settings: &str) {
    if !all_or_left_out() {
        return;
    }
    let scene = Scene::of(include_str!("scripts/ceph.sh")).with("SETTINGS", settings);
    let programs = ["ceph", "ceph-mon", "ceph-osd", "rados"];
    if let Some(played) = scene.within(300).play_or_skip(&programs) {
        played
            .says("the object is the same")
            .says("the benchmark is verified")
            .moved(20_000_000);
    }
}

#[test]
fn ceph_keeps_objects() {
    keeps_objects("");
}

#[test]
fn ceph_connects_by_librdmacm() {
    keeps_objects("ms_async_rdma_cm = true\nms_async_rdma_type = iwarp");
}
