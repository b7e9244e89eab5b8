//! Makes many connections: in sequence, and from clients that replace killed ones. Fails if one is refused.

use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use roce_benches::command::{print, say};
use roce_verbs::cm::{Connecting, Connection, Establishing, Listener};
use roce_verbs::{ConnectOptions, Context, Device, ProtectionDomain, QpOptions, QueuePair};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Connections between two processes over loopback: first of one client in sequence, then of clients
/// that are killed one after the other
///
/// Fails if a connection is refused.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Sequential connections of the first client
    #[arg(long, default_value_t = 100_000)]
    sequential: u32,

    /// Number of clients to kill
    #[arg(long, default_value_t = 20)]
    kills: u32,

    /// Connections of each killed client
    #[arg(long, default_value_t = 1500)]
    each: u32,

    /// The role of this process, set by the process that starts it
    #[arg(long, hide = true)]
    role: Option<Role>,

    /// The server's address
    #[arg(long, hide = true)]
    server: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Role {
    Serve,
    Hold,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    play(args).map_err(|error| error.to_string())
}

fn play(args: &Args) -> Outcome {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    match (args.role, args.server) {
        (Some(Role::Serve), _) => serve(),
        (Some(Role::Hold), Some(server)) => hold(server, args.each),
        _ => compare(args),
    }
}

/// Starts a server, and then the clients.
fn compare(args: &Args) -> Outcome {
    let mut server = Process::start(&["--role", "serve"])?;
    let at: SocketAddr = server.line()?.parse()?;
    let began = Instant::now();
    let client = End::open()?;
    for n in 0..args.sequential {
        let connection = client
            .connect(at)
            .map_err(|e| format!("connection {n}: {e}"))?;
        if !connection.disconnect(TIMEOUT) {
            return Err(format!("connection {n}: the server does not end it").into());
        }
    }
    print(format_args!(
        "{} connections, one after the other: {:.1?}",
        args.sequential,
        began.elapsed()
    ))?;
    drop(client);
    let each = args.each.to_string();
    let hold = [
        "--role",
        "hold",
        "--server",
        &at.to_string(),
        "--each",
        &each,
    ];
    for n in 0..args.kills {
        let began = Instant::now();
        let mut client = Process::start(&hold)?;
        let line = client.line().map_err(|e| format!("client {n}: {e}"))?;
        print(format_args!(
            "client {n}: {line} in {:.1?}, now killed",
            began.elapsed()
        ))?;
    }
    Ok(())
}

/// A process that is killed when this is dropped.
struct Process {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(words: &[&str]) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("connections").args(words);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Self { child, lines })
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err(format!("it ended: {}", self.child.wait()?).into()),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An open device.
struct End {
    context: Context,
    pd: ProtectionDomain,
}

impl End {
    fn open() -> Outcome<Self> {
        let device = Device::with_address(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let context = device.open()?;
        let pd = context.alloc_pd();
        Ok(Self { context, pd })
    }

    fn qp(&self) -> Outcome<QueuePair> {
        let cq = self.context.create_cq(1);
        Ok(self.pd.create_qp(&cq, &cq, &QpOptions::default())?)
    }

    fn connect(&self, server: SocketAddr) -> Outcome<Connection> {
        let options = ConnectOptions::default();
        Ok(Connection::connect(self.qp()?, server, &options, b"")?)
    }
}

/// Makes connections, says so, and waits to be killed.
fn hold(server: SocketAddr, connections: u32) -> Outcome {
    let end = End::open()?;
    let mut held = Vec::new();
    for n in 0..connections {
        let connection = end.connect(server);
        held.push(connection.map_err(|e| format!("connection {n}: {e}"))?);
    }
    print(format_args!("{} connections", held.len()))?;
    loop {
        std::thread::park();
    }
}

/// Accepts everything, and drops what the peers have ended.
fn serve() -> Outcome {
    let end = End::open()?;
    let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let listener = Listener::bind(&end.context, local)?;
    print(SocketAddr::new(local.ip(), listener.port()))?;
    let mut pending: Vec<Connecting> = Vec::new();
    let mut open: Vec<Connection> = Vec::new();
    let mut accepted = 0_u32;
    loop {
        let incoming = listener.accept_within(Duration::from_millis(100));
        let is_idle = incoming.is_none();
        if let Some(incoming) = incoming {
            let options = ConnectOptions::default();
            pending.push(incoming.start_accept(end.qp()?, &options, b"")?);
            accepted = accepted.wrapping_add(1);
        }
        for connecting in std::mem::take(&mut pending) {
            match connecting.check() {
                Ok(Establishing::Pending(still)) => pending.push(still),
                Ok(Establishing::Established(connection)) => open.push(connection),
                // A client that was killed.
                Err(error) => say(format_args!("server: {error}")),
            }
        }
        if is_idle || accepted.is_multiple_of(100) {
            open.retain(|connection| !connection.wait_for_end(Duration::ZERO));
        }
    }
}
