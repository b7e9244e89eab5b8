//! Keeps the library where it is: programs have pointers into it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libroce_preload.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
