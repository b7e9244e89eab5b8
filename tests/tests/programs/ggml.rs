//! ggml's RPC backend, which is that of llama.cpp, built from its sources.

use crate::wheels::placed_or_left_out;
use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::Scene;

#[test]
fn ggml_computes_on_a_server() {
    let Some(folder) = placed_or_left_out("ggml") else {
        return;
    };
    let (include, lib) = (folder.join("include"), folder.join("lib"));
    let include = format!("-I{}", include.display());
    let search = format!("-L{}", lib.display());
    let run_path = format!("-Wl,-rpath,{}", lib.display());
    let source = "tests/tests/programs/scripts/ggml.c";
    let libraries = ["-lggml-rpc", "-lggml-cpu", "-lggml-base"];
    let mut options = vec![include.as_str(), &search, &run_path];
    options.extend(libraries);
    let Some(program) = compiled_by_or_skip("cc", source, &options) else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/ggml.sh")).with("PROGRAM", program.as_path());
    if let Some(played) = scene.play_or_skip(&[]) {
        played
            .says("RDMA activated")
            .says("a product of 131072 numbers is the same");
        // Two matrices, and their product.
        played.moved(4 * (1024 * (512 + 256) + 512 * 256));
    }
    let _ = std::fs::remove_file(program);
}
