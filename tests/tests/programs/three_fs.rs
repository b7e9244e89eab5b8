//! 3FS: the calls of its RDMA layer, made by a program of ours.

use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::Scene;

#[test]
fn the_calls_of_3fs_move_data() {
    let source = "tests/tests/programs/scripts/three_fs.c";
    let Some(program) = compiled_by_or_skip("cc", source, &["-libverbs"]) else {
        return;
    };
    let scene = Scene::of("\"$PROGRAM\" roce_lo").with("PROGRAM", program.as_path());
    if let Some(played) = scene.play_or_skip(&[]) {
        played.says("client: all bytes are right");
        played.says("server: all bytes are right").moved(16 << 20);
    }
    let _ = std::fs::remove_file(program);
}
