//! Compiles the part of the target `c_api` that is written in C, as users' programs are:
//! with the system's `infiniband/verbs.h`.

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

fn main() {
    println!("cargo::rerun-if-changed=c_api");
    cc::Build::new()
        .files(SOURCES.map(|name| format!("c_api/{name}")))
        .opt_level(1)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("c_api");
}
