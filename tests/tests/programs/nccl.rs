//! NCCL's InfiniBand transport between two processes, as far as it works without a GPU.

use crate::wheels::wheel_or_skip;
use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::Scene;

#[test]
fn nccl_moves_messages_by_its_own_transport() {
    let Some(nccl) = wheel_or_skip("nvidia/nccl/lib/libnccl.so.2") else {
        return;
    };
    let source = "tests/tests/programs/scripts/nccl.c";
    let Some(program) = compiled_by_or_skip("cc", source, &["-ldl"]) else {
        return;
    };
    // NCCL treats devices of mlx5's driver specially, which this one is not, whatever its name.
    for (device, names) in [("roce_lo", ""), ("mlx5_0", "lo=mlx5_0")] {
        let scene = Scene::of(include_str!("scripts/nccl.sh"))
            .with("NCCL", &nccl)
            .with("PROGRAM", program.as_path())
            .with("DEVICE", device)
            .with("ROCE_DEVICE_NAMES", names);
        if let Some(played) = scene.play_or_skip(&[]) {
            // The largest message is of 4 MiB.
            played.says("moved 6 messages").moved(5 << 20);
        }
    }
    let _ = std::fs::remove_file(program);
}
