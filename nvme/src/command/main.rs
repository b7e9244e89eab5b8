//! The `nvme-rdma` command.
use roce_nvme::host::{Host, HostOptions, discover};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: roce_nvme::Address = std::env::args().nth(1).ok_or("address")?.parse()?;
    if address.subsystem.is_none() {
        println!("{:#?}", discover(address.at, &HostOptions::default())?);
        return Ok(());
    }
    let mut host = Host::connect(&address, &HostOptions::default())?;
    println!("{:#?} {:?}", host.controller(), host.namespaces());
    let disk = host.namespaces()[0];
    let queue = &mut host.queues()[0];
    let buffer = queue.allocate(1 << 20)?;
    buffer.write(0, b"hello")?;
    queue.write(&disk, 0, &buffer, 0..4096)?;
    queue.write(&disk, 4096, &buffer, 0..1 << 20)?;
    queue.drain()?;
    queue.read(&disk, 0, &buffer, 65536..65536 * 2)?;
    queue.drain()?;
    let mut hello = [0; 5];
    buffer.read(65536, &mut hello)?;
    println!("{:?}", std::str::from_utf8(&hello));
    queue.flush(&disk)?;
    queue.drain()?;
    println!("{:?}", host.not_durable());
    host.shutdown()?;
    Ok(())
}
