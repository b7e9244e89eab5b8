//! The server: carries out the client's requests, one client at a time.

use super::args::{MAX_SIZE, PerfArgs};
use super::control::{Control, Hello, Kind, PeerQp, Phase, Reply, Request, VERSION};
use super::datapath::DatapathReport;
use super::end::{End, PEER_TIMEOUT};
use super::network::Network;
use super::op::Op;
use super::report::{self, Served};
use super::{bandwidth, latency, pattern};
use crate::error::Error;
use roce_trust::output::{self, say};
use roce_verbs::Device;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;

/// The largest buffer that a client may request, in bytes.
const MAX_BUFFER: usize = 4 * MAX_SIZE;

/// The most ends of a client: with lanes, and with sockets only.
const MAX_ENDS: usize = 2;

/// Serves clients, either one or without end.
pub(super) fn run(args: &PerfArgs) -> Result<(), Error> {
    let at = listen_at(args.address.as_deref().unwrap_or_default(), args.port)?;
    let address = at.ip();
    let listener = TcpListener::bind(at).map_err(|e| {
        Error::new(format_args!(
            "listening on TCP port {} of {address}: {e}",
            args.port
        ))
    })?;
    let port = listener
        .local_addr()
        .map_or(args.port, |local| local.port());
    // A server goes on without a reader.
    output::print_line(format_args!("listening on {address} port {port}"))?;
    loop {
        let (stream, client) = listener
            .accept()
            .map_err(|e| Error::new(format_args!("accepting a client: {e}")))?;
        match serve(args, address, stream) {
            // A script that starts a server for one client reads only the first line.
            Ok(_) if args.once && !args.json => {}
            Ok(ends) => {
                for (datapath, network) in ends {
                    let client = client.to_string();
                    let served = Served {
                        client,
                        datapath,
                        network,
                    };
                    report::print_served(args, &served)?;
                }
            }
            Err(error) if args.once => return Err(error),
            Err(error) => say("roce perf", format_args!("client {client}: {error}")),
        }
        if args.once {
            return Ok(());
        }
    }
}

/// The address to serve at. A link-local one needs its interface, which is either named after a `%`
/// or that of the device with the address.
fn listen_at(text: &str, port: u16) -> Result<SocketAddr, Error> {
    let wrong = |why: &str| {
        Error::usage(format_args!(
            "{text:?} {why}: --server serves at an address of this machine, such as 10.0.0.1, \
             2001:db8::1 or fe80::1%eth0"
        ))
    };
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong("is no IP address"))?;
    let mut at = SocketAddr::new(address, port);
    match (&mut at, zone) {
        (SocketAddr::V4(_), Some(_)) => {
            return Err(wrong(
                "names an interface, which IPv4 addresses do not have",
            ));
        }
        (SocketAddr::V6(at), Some(zone)) => {
            let mut interfaces = roce_verbs::device::interfaces()?.into_iter();
            let named = interfaces.find(|i| i.name == zone || zone.parse() == Ok(i.index));
            let named = named.ok_or_else(|| wrong("names an interface that is not there"))?;
            if !named.addresses.contains(&address) {
                return Err(wrong("is no address of that interface"));
            }
            at.set_scope_id(named.index);
        }
        (SocketAddr::V6(at), None) if at.ip().is_unicast_link_local() => {
            at.set_scope_id(Device::with_address(address)?.interface().index);
        }
        _ => {}
    }
    Ok(at)
}

/// Serves one client to the end. Returns for each of its ends how the packets were carried, and what
/// happened to them.
fn serve(
    args: &PerfArgs,
    address: IpAddr,
    stream: TcpStream,
) -> Result<Vec<(DatapathReport, Network)>, Error> {
    let mut control = Control::new(stream, 6 * PEER_TIMEOUT)?;
    let mut ends = vec![open(args, address, control.expect()?, &mut control)?];
    while let Some(request) = control.receive::<Request>()? {
        match request {
            Request::Open(_) if ends.len() == MAX_ENDS => {
                return Err(Error::new("the client opens more ends than there are ways"));
            }
            Request::Open(hello) => ends.push(open(args, address, hello, &mut control)?),
            Request::Prepare(phase, qp) => {
                let Some((end, peer)) = ends.get_mut(phase.end) else {
                    return Err(Error::new("the client names an end that it has not opened"));
                };
                serve_phase(end, phase, peer, qp, &mut control)?;
            }
            Request::Finish { .. } => {
                return Err(Error::new("the client ended a phase that it had not begun"));
            }
        }
    }
    let reports = ends.iter().map(|(end, _)| {
        let network = Network::of(&end.context)?;
        Ok((DatapathReport::of(&end.context), network))
    });
    reports.collect()
}

/// Opens an end for the client's `peer`, and answers with it.
fn open(
    args: &PerfArgs,
    address: IpAddr,
    peer: Hello,
    control: &mut Control,
) -> Result<(End, Hello), Error> {
    if peer.version != VERSION {
        let what = format!("client has version {}, server {VERSION}", peer.version);
        control.send(&Reply::Failed { what: what.clone() })?;
        return Err(Error::new(what));
    }
    if peer.buffer_len > MAX_BUFFER || !(1..=1024).contains(&peer.depth) {
        return Err(Error::new(format_args!(
            "the client wants a buffer of {} bytes and {} messages outstanding",
            peer.buffer_len, peer.depth
        )));
    }
    let end = End::open(
        args,
        address,
        peer.buffer_len,
        peer.depth,
        peer.sockets_only,
    )?;
    control.send(&end.hello()?)?;
    Ok((end, peer))
}

fn serve_phase(
    end: &mut End,
    phase: Phase,
    peer: &Hello,
    qp: PeerQp,
    control: &mut Control,
) -> Result<(), Error> {
    let own = end.replace_qp()?;
    end.connect(peer, qp)?;
    let done = run_phase(end, phase, peer, own, control);
    if let Err(error) = &done {
        control.send(&Reply::Failed {
            what: error.to_string(),
        })?;
    }
    done
}

/// Whether the messages of the phase fit in the buffer.
fn fits(end: &End, phase: &Phase) -> bool {
    let needed = pattern::stride(phase.size).checked_mul(phase.slots.max(2));
    phase.size > 0 && needed.is_some_and(|needed| needed <= end.region.len())
}

fn run_phase(
    end: &End,
    phase: Phase,
    peer: &Hello,
    own: PeerQp,
    control: &mut Control,
) -> Result<(), Error> {
    let signals = (1..=end.depth).contains(&(phase.signal_every as usize));
    if !fits(end, &phase) || phase.slots > end.depth || !signals {
        return Err(Error::new(format_args!(
            "{phase:?} does not fit in the buffer or the queues"
        )));
    }
    match phase.op {
        Op::Read if phase.kind == Kind::Bandwidth => {
            pattern::write(&end.region, phase.seed, phase.slots, phase.size)?;
        }
        _ => pattern::clear(&end.region, phase.slots, phase.size)?,
    }
    if phase.op == Op::Send {
        let receives = match phase.kind {
            Kind::Latency => 1,
            Kind::Bandwidth => 2 * phase.slots,
        };
        (0..receives).try_for_each(|i| end.post_recv(i % phase.slots, phase.size))?;
    }
    control.send(&Reply::Ready(own))?;
    match (phase.kind, phase.op) {
        (Kind::Bandwidth, Op::Send) => bandwidth::serve_sends(end, phase)?,
        (Kind::Latency, Op::Send | Op::Write) => latency::serve(end, phase, peer.remote())?,
        _ => {}
    }
    // The client may still wait for answers, which this thread gives no more.
    end.context.hand_over();
    let Request::Finish { messages } = control.expect()? else {
        return Err(Error::new(
            "the client began a phase before it had finished the previous one",
        ));
    };
    let reply = match verify(end, &phase, messages) {
        Ok(bytes) => Reply::Right { bytes },
        Err(what) => Reply::Wrong { what },
    };
    control.send(&reply)
}

/// Compares the received data with the sent data.
fn verify(end: &End, phase: &Phase, messages: u64) -> Result<u64, String> {
    if phase.kind == Kind::Latency {
        return Ok(0);
    }
    let slots = phase
        .slots
        .min(usize::try_from(messages).unwrap_or(usize::MAX));
    match phase.op {
        Op::Send | Op::Write => pattern::verify(&end.region, phase.seed, slots, phase.size),
        Op::Read => Ok(0),
        Op::Cas | Op::Fadd => {
            let cell = end.region.atomic_u64(0).map_err(|e| e.to_string())?;
            let found = cell.load(Ordering::Acquire);
            if found == messages {
                Ok(8 * messages)
            } else {
                Err(format!("the counter is {found} after {messages} atomics"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_name_their_interface() {
        let at = |text| listen_at(text, 5).map_err(|error| error.exit_code());
        assert_eq!(at("127.0.0.1"), Ok(([127, 0, 0, 1], 5).into()));
        for wrong in [
            "",
            "localhost",
            "127.0.0.1%lo",
            "::1%nosuch",
            "fe80::1%lo",
            "%lo",
            "::1%",
        ] {
            assert_eq!(at(wrong), Err(2), "{wrong}");
        }
        let lo = roce_verbs::device::interfaces()
            .expect("listed")
            .into_iter()
            .find(|i| i.name == "lo");
        // Not every machine has IPv6.
        if lo.is_some_and(|lo| lo.addresses.contains(&std::net::Ipv6Addr::LOCALHOST.into())) {
            assert_eq!(
                at("::1%lo").map(|at| at.to_string()),
                Ok("[::1%1]:5".to_owned())
            );
        }
    }
}
