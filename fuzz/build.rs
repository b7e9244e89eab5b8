//! Compiles the C part of the target `c_api` with the system's `infiniband/verbs.h`, as users'
//! programs are compiled.

use std::path::PathBuf;
use std::{env, error};

const SOURCES: [&str; 9] = [
    "beside.c",
    "build.c",
    "memory.c",
    "modify.c",
    "objects.c",
    "post.c",
    "query.c",
    "queues.c",
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
    // Only this target needs the library under test.
    let library = PathBuf::from(env::var("OUT_DIR")?).join("libc_api.a");
    println!("cargo::rustc-link-arg-bin=c_api={}", library.display());
    Ok(())
}
