//! The `roce` command, as a program of this package: cargo builds a package's own programs before
//! its tests run, so no test has to call cargo.

use std::process::ExitCode;

fn main() -> ExitCode {
    roce_cli::main()
}
