//! The `nvme-rdma` command, as a program of this package: see `roce-under-test`.

use std::process::ExitCode;

fn main() -> ExitCode {
    roce_nvme::command::main()
}
