//! The client: measures each operation with each size.

use super::args::PerfArgs;
use super::bandwidth::{self, Measured, StopAfter};
use super::control::{Control, Hello, Kind, Phase, Reply, Request, VERSION};
use super::datapath::{DatapathReport, Way};
use super::end::{End, PEER_TIMEOUT};
use super::latency::{self, Latencies};
use super::network::Network;
use super::op::Op;
use super::pattern;
use super::report::{self, Parameters, Report, Row};
use crate::error::Error;
use crate::progress::bar;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// Before anything is timed, each pair of operation and size moves its buffers this many times,
/// each time with its own pattern, and compares all bytes.
const CHECK_ROUNDS: u64 = 3;

/// The size of the buffer, in bytes, unless two of the largest messages need more. Large messages
/// have fewer outstanding.
const BUFFER: usize = 16 << 20;

/// The round trips whose latency is measured unless the user asks for another number.
const ROUND_TRIPS: u32 = 2000;

/// The round trips that are measured to estimate how many fit in [`LATENCY_TIME`].
const FIRST_ROUND_TRIPS: u32 = 50;

/// The time for the latency measurement of one operation and size by all ways, unless the user asks
/// for a number of round trips.
const LATENCY_TIME: Duration = Duration::from_millis(200);

/// Measures against the server at `host`. Prints the rows of the table as they are measured. `bind` is the
/// local address if both ends are on this machine. Returns a report for each way of packets.
pub(super) fn run(
    args: &PerfArgs,
    host: &str,
    port: u16,
    bind: Option<IpAddr>,
) -> Result<Vec<Report>, Error> {
    let server = resolve(host, port)?;
    if server.ip().is_loopback() && is_loopback_down() {
        let what = format!(
            "the loopback interface, which has {}, is down: `ip link set lo up` (as root) brings it up",
            server.ip()
        );
        return Err(Error::new(what));
    }
    let stream = TcpStream::connect_timeout(&server, PEER_TIMEOUT)
        .map_err(|error| no_answer(server, &error))?;
    let local = match args.bind.or(bind) {
        Some(address) => address,
        None => route_to(server)?,
    };
    let mut client = Client::connect(args, local, stream)?;
    // Packets to other machines take sockets, so their figures are of interest, too.
    if bind.is_some() && args.over.is_none() && client.ends[0].end.why_no_lane.is_none() {
        client.open(args, true)?;
    }
    client.measure_all(args)
}

fn is_loopback_down() -> bool {
    // Without a list, the attempt to connect shows what is wrong.
    let links = roce_trust::netlink::links().unwrap_or_default();
    let mut loopbacks = links.iter().filter(|link| link.has(libc::IFF_LOOPBACK));
    loopbacks.clone().next().is_some() && !loopbacks.any(|link| link.has(libc::IFF_UP))
}

/// Advice about a server that does not answer.
fn no_answer(server: SocketAddr, error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let host = server.ip();
    let advice = match error.kind() {
        ConnectionRefused => format!("Start `roce perf --server {host}` there"),
        HostUnreachable | NetworkUnreachable => {
            format!(
                "Is the host up, and the address right? `ip route get {host}` shows the way there"
            )
        }
        _ => format!(
            "Is the host up, does `roce perf --server {host}` run there, and do firewalls let TCP \
             port {} through?",
            server.port()
        ),
    };
    Error::new(format_args!("no answer from {server}: {error}. {advice}"))
}

/// The first address of a name.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let found = (host, port).to_socket_addrs().map_err(|e| {
        Error::new(format_args!(
            "{host:?} is neither an address nor a known name: {e}"
        ))
    })?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Error::new(format_args!("{host:?} has no address")))
}

/// The local address that packets to `server` are sent from.
fn route_to(server: SocketAddr) -> Result<IpAddr, Error> {
    let any: SocketAddr = if server.is_ipv4() {
        (std::net::Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let probe = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        socket.local_addr()
    };
    let local = probe().map_err(|e| Error::new(format_args!("no route to {server}: {e}")))?;
    Ok(local.ip())
}

struct Client {
    control: Control,
    ends: Vec<Connected>,
    local: IpAddr,
    first_seed: u64,
    seed: u64,
    in_step: bool,
}

/// An end, and the server's for it.
struct Connected {
    end: End,
    peer: Hello,
    rows: Vec<Row>,
    preemptions: u64,
}

impl Client {
    fn connect(args: &PerfArgs, local: IpAddr, stream: TcpStream) -> Result<Self, Error> {
        let seed = match args.seed {
            Some(seed) => seed,
            None => draw_seed()?,
        };
        let mut client = Self {
            control: Control::new(stream, 3 * PEER_TIMEOUT)?,
            ends: Vec::new(),
            local,
            first_seed: seed,
            seed,
            in_step: args.in_step,
        };
        client.open(args, args.over == Some(Way::Sockets))?;
        match &client.ends[0].end.why_no_lane {
            Some(why) if args.over == Some(Way::Lane) => {
                Err(Error::usage(format_args!("--over lane: {why}")))
            }
            _ => Ok(client),
        }
    }

    /// Opens an end, and the server's for it.
    fn open(&mut self, args: &PerfArgs, sockets_only: bool) -> Result<(), Error> {
        let largest = args.sizes().into_iter().max().unwrap_or(8).max(8);
        let buffer_len = (2 * pattern::stride(largest)).max(BUFFER);
        let end = End::open(args, self.local, buffer_len, args.depth, sockets_only)?;
        match self.ends.is_empty() {
            true => self.control.send(&end.hello()?)?,
            false => self.control.send(&Request::Open(end.hello()?))?,
        }
        let peer: Hello = self.control.expect()?;
        if peer.version != VERSION {
            return Err(Error::new(format_args!(
                "the server has version {}, this is {VERSION}",
                peer.version
            )));
        }
        if let Some(asked) = args.mtu
            && peer.path_mtu < asked
        {
            return Err(Error::usage(format_args!(
                "--mtu is {asked}, but the server's link, or its own --mtu, allows {}: use --mtu {} \
                 or less, or raise the MTU of its interface",
                peer.path_mtu, peer.path_mtu
            )));
        }
        self.ends.push(Connected {
            end,
            peer,
            rows: Vec::new(),
            preemptions: 0,
        });
        Ok(())
    }

    fn measure_all(&mut self, args: &PerfArgs) -> Result<Vec<Report>, Error> {
        let mut cases = Vec::new();
        for op in args.ops() {
            let sizes = if op.is_atomic() {
                vec![8]
            } else {
                args.sizes()
            };
            cases.extend(sizes.into_iter().map(|size| (op, size)));
        }
        let steps = cases.len() * self.ends.len();
        let progress = bar(steps as u64, "{msg:<20} {wide_bar} {pos}/{len}");
        let Connected { end, peer, .. } = &self.ends[0];
        let parameters = Parameters {
            local: self.local.to_string(),
            remote: roce_verbs::device::Gid(peer.gid).ip().to_string(),
            path_mtu: end.negotiated_mtu(peer)?.bytes(),
            depth: args.depth,
        };
        let mut is_first = true;
        for (op, size) in cases {
            for end in 0..self.ends.len() {
                progress.set_message(format!("{} {size}", op.label()));
                let row = self.measure(args, op, size, end)?;
                let contexts = self.ends.iter().map(|connected| &connected.end.context);
                let heading = std::mem::take(&mut is_first)
                    .then(|| contexts.map(DatapathReport::of).collect::<Vec<_>>());
                progress.suspend(|| report::show_row(args, &parameters, heading, &row))?;
                self.ends[end].rows.push(row);
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        let reports = std::mem::take(&mut self.ends).into_iter().map(|connected| {
            let context = &connected.end.context;
            Ok(Report {
                parameters: parameters.clone(),
                datapath: DatapathReport::of(context),
                seed: self.first_seed,
                rows: connected.rows,
                preemptions: connected.preemptions,
                network: Network::of(context)?,
            })
        });
        reports.collect()
    }

    /// Measures one line of the table, with the end of this number.
    fn measure(&mut self, args: &PerfArgs, op: Op, size: usize, end: usize) -> Result<Row, Error> {
        let Connected { end: of, .. } = &self.ends[end];
        let before = DatapathReport::of(&of.context);
        let preempted = preemptions();
        let slots = args
            .depth
            .min(of.region.len() / pattern::stride(size))
            .max(1);
        let phase = Phase {
            kind: Kind::Bandwidth,
            op,
            size,
            slots,
            iterations: 0,
            watch_memory: args.watch_memory,
            signal_every: args.signal_every,
            seed: 0,
            end,
        };
        let mut verified = 0;
        for _ in 0..CHECK_ROUNDS {
            let phase = Phase {
                seed: self.next_seed(),
                ..phase
            };
            verified += self.bandwidth(phase, StopAfter::Messages(slots as u64))?.1;
        }
        let timed = Phase {
            seed: self.next_seed(),
            ..phase
        };
        let duration = args.duration_of_each(self.ways());
        let (measured, bytes) = self.bandwidth(timed, StopAfter::Elapsed(duration))?;
        verified += bytes;

        let latencies = self.latency(args, phase)?;
        let connected = &mut self.ends[end];
        connected.preemptions += preemptions().saturating_sub(preempted);
        let way = DatapathReport::of(&connected.end.context).way_since(&before);
        Ok(Row::new(op, size, way, measured, &latencies, verified))
    }

    /// The number of ways that are measured.
    fn ways(&self) -> u32 {
        self.ends.len().max(1) as u32
    }

    /// Measures latency: first a few round trips, to estimate how many more fit in the time. On a
    /// busy machine, one round trip can take many time slices.
    fn latency(&mut self, args: &PerfArgs, phase: Phase) -> Result<Latencies, Error> {
        let wanted = args.iterations.unwrap_or(ROUND_TRIPS);
        let mut batch = args.iterations.unwrap_or(FIRST_ROUND_TRIPS);
        let start = Instant::now();
        let (mut all, mut done) = (None, 0);
        loop {
            let latency = Phase {
                kind: Kind::Latency,
                slots: 1,
                iterations: batch,
                seed: self.next_seed(),
                ..phase
            };
            // Clear the buffer, so that stale bytes do not pass for the first reply.
            let region = &self.ends[phase.end].end.region;
            pattern::clear(region, latency.slots, latency.size)?;
            self.prepare(latency)?;
            let Connected { end, peer, .. } = &self.ends[phase.end];
            let some = latency::client(end, latency, peer.remote())?;
            self.finish(latency, u64::from(latency.iterations))?;
            let taken = match all.take() {
                None => some,
                Some(earlier) => some + earlier,
            };
            done += batch;
            let each = start.elapsed() / done;
            let left = (LATENCY_TIME / self.ways()).saturating_sub(start.elapsed());
            let fit = left.as_nanos() / each.as_nanos().max(1);
            batch = u32::try_from(fit).unwrap_or(u32::MAX).min(wanted - done);
            if batch == 0 {
                return Ok(taken);
            }
            all = Some(taken);
        }
    }

    /// Runs a bandwidth phase. Returns the result and the number of bytes compared.
    fn bandwidth(&mut self, phase: Phase, stop_after: StopAfter) -> Result<(Measured, u64), Error> {
        let region = &self.ends[phase.end].end.region;
        match phase.op {
            Op::Send | Op::Write => pattern::write(region, phase.seed, phase.slots, phase.size)?,
            _ => pattern::clear(region, phase.slots, phase.size)?,
        }
        self.prepare(phase)?;
        let in_step = self.in_step && matches!(stop_after, StopAfter::Elapsed(_));
        if in_step {
            wait_for_others("ready")?;
        }
        let Connected { end, peer, .. } = &self.ends[phase.end];
        let measured = bandwidth::client(end, phase, peer.remote(), stop_after)?;
        if in_step {
            wait_for_others("measured")?;
        }
        let there = self.finish(phase, measured.messages)?;
        if phase.op != Op::Read {
            return Ok((measured, there));
        }
        let slots = phase
            .slots
            .min(usize::try_from(measured.messages).unwrap_or(usize::MAX));
        let region = &self.ends[phase.end].end.region;
        let here = pattern::verify(region, phase.seed, slots, phase.size);
        let here = here.map_err(|what| phase.mismatch(what))?;
        Ok((measured, here))
    }

    /// Prepares both sides for a phase.
    fn prepare(&mut self, phase: Phase) -> Result<(), Error> {
        let Connected { end, peer, .. } = &mut self.ends[phase.end];
        let own = end.replace_qp()?;
        end.context.hand_over();
        self.control.send(&Request::Prepare(phase, own))?;
        match self.control.expect()? {
            Reply::Ready(qp) => end.connect(peer, qp),
            other => Err(unexpected(&phase, other)),
        }
    }

    /// Ends a phase. Returns the number of bytes that the server compared.
    fn finish(&mut self, phase: Phase, messages: u64) -> Result<u64, Error> {
        // The server may still wait for acknowledgements, which this thread sends no more.
        self.ends[phase.end].end.context.hand_over();
        self.control.send(&Request::Finish { messages })?;
        match self.control.expect()? {
            Reply::Right { bytes } => Ok(bytes),
            other => Err(unexpected(&phase, other)),
        }
    }

    /// A seed for the next phase.
    fn next_seed(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        self.seed
    }
}

/// How often other threads have taken the processor from this one.
fn preemptions() -> u64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD);
    usage.map_or(0, |usage| {
        u64::try_from(usage.involuntary_context_switches()).unwrap_or(0)
    })
}

/// Reports the step reached, and waits for a line on stdin.
fn wait_for_others(at: &str) -> Result<(), Error> {
    // Whoever starts the next step reads it.
    let _ = writeln!(std::io::stderr(), "{at}");
    match std::io::stdin().lines().next() {
        Some(Ok(_)) => Ok(()),
        _ => Err(Error::usage(
            "stdin ended before the line that starts the next step",
        )),
    }
}

fn draw_seed() -> Result<u64, Error> {
    getrandom::u64().map_err(|e| Error::new(format_args!("drawing a random seed: {e}")))
}

fn unexpected(phase: &Phase, reply: Reply) -> Error {
    match reply {
        Reply::Wrong { what } => phase.mismatch(what),
        Reply::Failed { what } => Error::new(format_args!("the server: {what}")),
        other => Error::new(format_args!("the server answers out of turn: {other:?}")),
    }
}
