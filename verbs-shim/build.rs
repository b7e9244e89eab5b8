//! Sets the library's soname, and defines the symbol versions: one node of the version script for
//! each version in `symbols.txt`. `exports` assigns a version to each symbol.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=symbols.txt");
    let symbols = fs::read_to_string("symbols.txt")?;
    let versions: BTreeSet<&str> = symbols
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(' ').next()?.split('@').next_back())
        .filter(|version| !version.is_empty())
        .collect();
    let nodes: String = versions.iter().map(|v| format!("{v} {{ }};\n")).collect();
    let map = PathBuf::from(env::var("OUT_DIR")?).join("versions.map");
    fs::write(&map, nodes)?;
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
    // The library's own threads and its fork handler run its code, so `dlclose` must not unmap it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // `-Wl` would split a path at a comma.
    println!("cargo::rustc-cdylib-link-arg=-Xlinker");
    println!(
        "cargo::rustc-cdylib-link-arg=--version-script={}",
        map.display()
    );
    Ok(())
}
