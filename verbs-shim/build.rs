//! Sets the library's soname, and defines its symbols and their versions, which `symbols.txt` lists: one
//! node of the version script for each version, and an `export!` of `exports.rs` for each function.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=symbols.txt");
    let symbols = fs::read_to_string("symbols.txt")?;
    let symbols: Vec<(&str, &str)> = symbols
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').ok_or(line))
        .collect::<Result<_, _>>()
        .map_err(|line| format!("symbols.txt has a symbol without a function: {line}"))?;
    let versions: BTreeSet<&str> = symbols
        .iter()
        .filter_map(|(symbol, _)| symbol.split('@').next_back())
        .collect();
    let nodes: String = versions.iter().map(|v| format!("{v} {{ }};\n")).collect();
    let exports: String = symbols
        .iter()
        .filter(|(_, function)| !function.starts_with("OBJECT"))
        .map(|(symbol, function)| format!("export!({symbol:?}, crate::{function});\n"))
        .collect();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let map = out.join("versions.map");
    fs::write(&map, nodes)?;
    fs::write(out.join("exports.rs"), exports)?;
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
