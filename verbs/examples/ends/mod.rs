//! Runs the examples: both ends in this process over loopback, or one end on each of two hosts. An
//! example supplies the code of its server and its client.

use roce_verbs::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The longest time that an end waits for the other one to disconnect.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs one end or both, as the command line asks.
pub(crate) fn run(
    arguments: &[String],
    server: fn(&Context, &Listener) -> Outcome,
    client: fn(&Context, SocketAddr) -> Outcome,
) -> Outcome {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            let loopback = IpAddr::from([127, 0, 0, 1]);
            let context = Device::with_address(loopback)?.open()?;
            let listener = Listener::bind(&context, (loopback, 0).into())?;
            let address = (loopback, listener.port()).into();
            let server = thread::spawn(move || server(&context, &listener));
            client(&Device::towards(loopback)?.open()?, address)?;
            server.join().expect("the server does not panic")
        }
        ["server", address] => {
            let address: SocketAddr = address.parse()?;
            let context = Device::with_address(address.ip())?.open()?;
            let listener = Listener::bind(&context, address)?;
            println!("server: listening at {address}");
            server(&context, &listener)
        }
        ["client", address] => {
            let address: SocketAddr = address.parse()?;
            client(&Device::towards(address.ip())?.open()?, address)
        }
        _ => Err("usage: [server ADDRESS:PORT | client ADDRESS:PORT]".into()),
    }
}
