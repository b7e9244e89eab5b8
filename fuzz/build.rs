//! Compiles the C part of the targets `c_api`, `c_cm` and `c_rsocket` with the system's
//! `infiniband/verbs.h`, `rdma/rdma_cma.h` and `rdma/rsocket.h`, as users' programs are compiled.

use std::path::PathBuf;
use std::{env, error};

const SOURCES: [&str; 11] = [
    "beside.c",
    "build.c",
    "cm.c",
    "memory.c",
    "modify.c",
    "objects.c",
    "post.c",
    "query.c",
    "queues.c",
    "rsocket.c",
    "run.c",
];

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=c_api");
    cc::Build::new()
        .files(SOURCES.map(|name| format!("c_api/{name}")))
        .opt_level(1)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .cargo_metadata(false)
        .compile("c_api");
    // Only these targets need the library under test.
    let library = PathBuf::from(env::var("OUT_DIR")?).join("libc_api.a");
    for target in ["c_api", "c_cm", "c_rsocket"] {
        println!("cargo::rustc-link-arg-bin={target}={}", library.display());
    }
    Ok(())
}
