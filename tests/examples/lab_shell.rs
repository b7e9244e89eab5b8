//! An interactive lab: boots a guest and executes the commands on stdin.
//!
//! ```text
//! g COMMAND   runs a shell command in the guest
//! h COMMAND   runs a shell command outside, in the lab's namespace
//! b COMMAND   starts a shell command in the guest, in the background
//! mtu N       sets the MTU of both ends
//! ```
//!
//! For example, as root:
//! `echo 'g ibv_devinfo' | cargo run -p roce-tests --example lab_shell`
//!
//! With the argument `zero-copy` or `persistent-memory`, the guest has the newer kernel.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use roce_tests::lab::{Flavour, GuestChild, Lab, LabConfig};

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let flavour = match env::args().nth(1).as_deref() {
        None => Flavour::SoftRoce,
        Some("zero-copy") => Flavour::ZeroCopy,
        Some("persistent-memory") => Flavour::PersistentMemory,
        Some(other) => {
            return Err(
                format!("{other}: only zero-copy and persistent-memory are understood").into(),
            );
        }
    };
    let lab = Lab::boot(&LabConfig {
        flavour,
        ..LabConfig::default()
    })?;
    println!("booted in {:.1?}", started.elapsed());
    let mut background = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let started = Instant::now();
        run_line(&lab, &line, &mut background)?;
        println!("--- {line}: {:.2?}", started.elapsed());
    }
    Ok(())
}

fn run_line(lab: &Lab, line: &str, background: &mut Vec<GuestChild>) -> Result<(), Box<dyn Error>> {
    let (verb, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    match verb {
        "g" => {
            let output = lab.guest(["sh", "-c", rest]).output(TIMEOUT)?;
            io::stdout().write_all(&output.stdout)?;
            io::stderr().write_all(&output.stderr)?;
            println!("{:?}", output.status);
        }
        "b" => background.push(lab.guest_spawn(["sh", "-c", rest])?),
        "h" => println!("{}", lab.host_command("sh").args(["-c", rest]).status()?),
        "mtu" => lab.set_mtu(rest.parse()?)?,
        "" | "#" => {}
        _ => println!("not understood: g, h, b COMMAND or mtu N"),
    }
    Ok(())
}
