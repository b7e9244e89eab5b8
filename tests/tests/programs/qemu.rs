//! QEMU: live migration of a guest over RDMA.

use roce_tests::scene::Scene;

#[test]
fn qemu_migrates_a_guest_whose_memory_stays_the_same() {
    let scene = Scene::of(include_str!("scripts/qemu.sh")).with(
        "MIGRATE",
        concat!(
            include_str!("scripts/machine.py"),
            include_str!("scripts/qemu.py")
        ),
    );
    if let Some(played) = scene.play_or_skip(&["qemu-system-x86_64", "python3"]) {
        played.says(" 0 pages differ").moved(4_000_000);
    }
}
