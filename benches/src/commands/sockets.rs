//! Measures sockets over RDMA beside TCP, with the same programs.

use clap::Parser;
use roce_benches::command::{Comparing, Selecting, progress, step};
use roce_benches::output::output;
use roce_benches::report::{Comparison, Goal};
use roce_benches::roce;
use roce_benches::veth::{ADDRESSES, VethPair};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Sockets over RDMA beside TCP
///
/// Each program runs in two network namespaces that a cable of 9000 bytes joins, or with --one-host
/// in one of them, by turns over this stack and over the kernel's TCP: rdma-core's rstream, which has
/// both in it, and servers with their benchmarks, under `roce run --sockets` and without. Needs root,
/// iproute2, rdmacm-utils, redis-server, redis-tools, memcached, libmemcached-tools, nginx, curl, wrk,
/// nodejs and openjdk-17-jdk-headless; servers that are not installed are left out.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// The number of endless loops beside the programs, for a busy machine
    #[arg(long, default_value_t = 0, value_name = "LOOPS")]
    busy: u32,

    /// Both ends on one host, whose connections then take memory that both share
    #[arg(long, conflicts_with = "busy")]
    one_host: bool,

    #[command(flatten)]
    selecting: Selecting,
}

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The measurements of rstream.
struct Load {
    what: &'static str,
    options: &'static [&'static str],
    unit: &'static str,
    /// The column of the figure in rstream's line.
    column: usize,
}

const STREAMS: [Load; 4] = [
    Load {
        what: "rstream, 64 bytes to and fro: half a round trip",
        options: &["-S", "64", "-I", "20000", "-C", "1"],
        unit: "us",
        column: 7,
    },
    Load {
        what: "rstream, 4 KiB to and fro: half a round trip",
        options: &["-S", "4096", "-I", "10000", "-C", "1"],
        unit: "us",
        column: 7,
    },
    Load {
        what: "rstream, 64 KiB, one way",
        options: &["-S", "65536", "-I", "1", "-C", "20000"],
        unit: "Gb/s",
        column: 6,
    },
    Load {
        what: "rstream, 1 MiB, one way",
        options: &["-S", "1048576", "-I", "1", "-C", "1500"],
        unit: "Gb/s",
        column: 6,
    },
];

/// A server of TCP, and its benchmark. [`HOST`] in a word is the server's address, and [`FOLDER`] an
/// empty folder.
struct Service {
    what: &'static str,
    /// The program that is looked for before a measurement.
    needs: &'static str,
    server: &'static [&'static str],
    /// A client that succeeds once the server listens.
    ping: &'static [&'static str],
    benchmark: &'static [&'static str],
    /// The figure in the benchmark's output: the word after this text, in requests a second.
    before_figure: &'static str,
}

const HOST: &str = "HOST";
const FOLDER: &str = "FOLDER";

const REDIS: &[&str] = &["redis-server", "--save", "", "--protected-mode", "no"];
// The benchmark spins forever if its connection is refused.
const REDIS_PING: &[&str] = &["redis-cli", "-h", HOST, "ping"];
const MEMCACHED: &[&str] = &["memcached", "-u", "root", "-l", HOST, "-U", "0"];
const MEMCACHED_PING: &[&str] = &["memcping", "--servers=HOST"];
const NGINX: &[&str] = &["sh", "-c", NGINX_SCRIPT];
// One process, since a worker would survive the master that is killed.
const NGINX_SCRIPT: &str = r#"cd FOLDER && cat >conf <<CONF && exec nginx -e stderr -c FOLDER/conf
daemon off; master_process off; pid FOLDER/pid;
events { }
http { access_log off; server { listen HOST:8080; location / { return 200 'some text'; } } }
CONF
"#;
const NODE_SCRIPT: &str = "require('http').createServer((request, response) => response.end('some text')).listen(8080, 'HOST')";
const JAVA_SCRIPT: &str = r#"cat >FOLDER/Texts.java <<JAVA && exec java -Dsun.net.httpserver.nodelay=true FOLDER/Texts.java
class Texts {
    public static void main(String[] arguments) throws Exception {
        var server = com.sun.net.httpserver.HttpServer.create(new java.net.InetSocketAddress("HOST", 8080), 0);
        server.setExecutor(java.util.concurrent.Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 9);
            exchange.getResponseBody().write("some text".getBytes());
            exchange.close();
        });
        server.start();
    }
}
JAVA
"#;
const CURL: &[&str] = &["curl", "-s", "http://HOST:8080/"];
const WRK: &[&str] = &[
    "wrk",
    "-t",
    "1",
    "-c",
    "10",
    "-d",
    "3s",
    "http://HOST:8080/",
];

#[rustfmt::skip]
const SERVICES: [Service; 7] = [
    Service {
        what: "Redis, GET of 1 client",
        needs: "redis-server",
        server: REDIS,
        ping: REDIS_PING,
        benchmark: &["redis-benchmark", "-h", HOST, "-t", "get", "--csv", "-n", "20000", "-c", "1"],
        before_figure: "\"GET\",\"",
    },
    Service {
        what: "Redis, GET of 20 clients",
        needs: "redis-server",
        server: REDIS,
        ping: REDIS_PING,
        benchmark: &["redis-benchmark", "-h", HOST, "-t", "get", "--csv", "-n", "100000", "-c", "20"],
        before_figure: "\"GET\",\"",
    },
    Service {
        what: "memcached, memcaslap with 1 client",
        needs: "memcached",
        server: MEMCACHED,
        ping: MEMCACHED_PING,
        benchmark: &["memcaslap", "-s", "HOST:11211", "-T", "1", "-c", "1", "-t", "3s"],
        before_figure: "TPS: ",
    },
    Service {
        what: "memcached, memcaslap with 20 clients",
        needs: "memcached",
        server: MEMCACHED,
        ping: MEMCACHED_PING,
        benchmark: &["memcaslap", "-s", "HOST:11211", "-T", "1", "-c", "20", "-t", "3s"],
        before_figure: "TPS: ",
    },
    Service {
        what: "nginx, wrk with 10 connections",
        needs: "nginx",
        server: NGINX,
        ping: CURL,
        benchmark: WRK,
        before_figure: "Requests/sec:",
    },
    Service {
        what: "Node's HTTP server, wrk with 10 connections",
        needs: "node",
        server: &["node", "-e", NODE_SCRIPT],
        ping: CURL,
        benchmark: WRK,
        before_figure: "Requests/sec:",
    },
    Service {
        what: "OpenJDK's HTTP server, wrk with 10 connections",
        needs: "java",
        server: &["sh", "-c", JAVA_SCRIPT],
        ping: CURL,
        benchmark: WRK,
        before_figure: "Requests/sec:",
    },
];

/// Starts endless loops, which are killed when they are dropped.
fn start_loops(count: u32) -> Result<Vec<Server>, String> {
    let start = |_| {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        serve(command)
    };
    (0..count).map(start).collect()
}

/// The files that were built.
struct Built {
    roce: PathBuf,
    /// Whether all programs run on the first host.
    one_host: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let built = Built::new(args.one_host)?;
    let pair = VethPair::new(9000)?;
    let _loops = start_loops(args.busy)?;
    let wanted = |what: &str| what.contains(&args.selecting.program);
    let mut streams: Vec<_> = STREAMS
        .iter()
        .filter(|load| wanted(load.what))
        .map(|load| (load, row(load.what, load.unit)))
        .collect();
    let (services, lacking): (Vec<_>, Vec<_>) = SERVICES
        .iter()
        .filter(|service| wanted(service.what))
        .partition(|service| testkit::is_installed(service.needs));
    let mut services: Vec<_> = services
        .iter()
        .map(|service| (service, row(service.what, "1000/s")))
        .collect();
    let total = streams.len() + services.len();
    let bar = progress(args.comparing.runs * total as u32 * 2);
    for _ in 0..args.comparing.runs {
        for (load, row) in &mut streams {
            step(&bar, "rstream over RDMA");
            let ours = measure_rstream(&pair, &built, load, false)?;
            step(&bar, "rstream over TCP");
            row.runs
                .push((ours, measure_rstream(&pair, &built, load, true)?));
        }
        for (service, row) in &mut services {
            step(&bar, service.what);
            let ours = service.measure(&pair, &built, Over::Sockets)?;
            step(&bar, service.what);
            row.runs
                .push((ours, service.measure(&pair, &built, Over::Tcp)?));
        }
    }
    bar.finish_and_clear();
    let streams = streams.into_iter().map(|(_, row)| row);
    let services = services.into_iter().map(|(_, row)| row);
    let lacking = lacking.iter().map(|of| {
        let what = format!("{}: not measured, {} is not installed", of.what, of.needs);
        Comparison::unmeasured(what, "TCP")
    });
    let rows: Vec<_> = streams.chain(services).chain(lacking).collect();
    let marker = match args.busy {
        _ if args.one_host => "figures one host",
        0 => "figures",
        _ => "figures busy",
    };
    args.comparing.publish(marker, &rows)
}

fn row(what: &'static str, unit: &'static str) -> Comparison {
    Comparison {
        what: what.into(),
        with: "TCP",
        unit,
        runs: Vec::new(),
        goal: Goal::None,
    }
}

impl Built {
    fn new(one_host: bool) -> Result<Self, String> {
        let roce = roce::build()?;
        for library in ["roce-verbs-shim", "roce-rspreload"] {
            let mut cargo = Command::new("cargo");
            cargo.args([
                "build",
                "--profile",
                roce::PROFILE,
                "--quiet",
                "-p",
                library,
            ]);
            output(cargo)?;
        }
        Ok(Self { roce, one_host })
    }

    /// A program on a host: over TCP as it is, or else under `roce run`.
    fn command(&self, pair: &VethPair, host: usize, words: &[&str], over: Over) -> Command {
        let (program, options): (&Path, &[&str]) = match over {
            Over::Tcp => (words[0].as_ref(), &[]),
            Over::Rdma => (&self.roce, &["run", "--quiet", "--"]),
            Over::Sockets => (
                &self.roce,
                &["run", "--quiet", "--sockets=loopback,only", "--"],
            ),
        };
        let host = if self.one_host { 0 } else { host };
        let mut command = pair.command(host, &program.to_string_lossy());
        let rest = match over {
            Over::Tcp => &words[1..],
            _ => words,
        };
        command.args(options).args(rest);
        command
    }
}

#[derive(Clone, Copy)]
enum Over {
    Tcp,
    /// rsockets that the program itself uses.
    Rdma,
    /// Its TCP sockets on RDMA.
    Sockets,
}

/// A server that is killed when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(mut command: Command) -> Result<Server, String> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Server).map_err(|e| format!("{command:?}: {e}"))
}

/// Runs a client until its server accepts it. Programs say in different ways that it does not.
fn retry_until_connected(client: impl Fn() -> Command) -> Result<String, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match output(client()) {
            Err(_) if Instant::now() < end => {}
            result => return result,
        }
    }
}

fn measure_rstream(pair: &VethPair, built: &Built, load: &Load, tcp: bool) -> Result<f64, String> {
    let mode: &[&str] = if tcp { &["-T", "s"] } else { &[] };
    let over = if tcp { Over::Tcp } else { Over::Rdma };
    let words = [&["rstream"], load.options, mode].concat();
    let _server = serve(built.command(pair, 0, &words, over))?;
    let client = [&words[..], &["-s", ADDRESSES[0]]].concat();
    let text = retry_until_connected(|| built.command(pair, 1, &client, over))?;
    let line = text.lines().last().unwrap_or_default();
    let figure = line.split_whitespace().nth(load.column);
    let figure = figure.and_then(|figure| figure.parse().ok());
    figure.ok_or_else(|| format!("rstream said {text:?}"))
}

impl Service {
    /// Thousands of requests per second.
    fn measure(&self, pair: &VethPair, built: &Built, over: Over) -> Result<f64, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let command = |host, words: &[&str]| {
            let path = folder.path().to_string_lossy();
            let word = |word: &&str| word.replace(HOST, ADDRESSES[0]).replace(FOLDER, &path);
            let words: Vec<String> = words.iter().map(word).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            built.command(pair, host, &words, over)
        };
        let _server = serve(command(0, self.server))?;
        retry_until_connected(|| command(1, self.ping))?;
        let text = output(command(1, self.benchmark))?;
        let figure = text.rsplit_once(self.before_figure).and_then(|(_, rest)| {
            let end = |c: char| !c.is_ascii_digit() && c != '.';
            rest.trim_start().split(end).next()?.parse::<f64>().ok()
        });
        let figure = figure.ok_or_else(|| format!("{:?} said {text:?}", self.benchmark))?;
        Ok(figure / 1000.0)
    }
}
