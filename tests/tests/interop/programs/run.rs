//! A program as a server and as its client: both in the guest, or one outside.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roce_tests::lab::{GUEST_IP4, GUEST_RDMA_DEVICE, GuestChild, HOST_IP4, Lab};

use super::ours::Ours;
use super::stall::{self, describe};
use super::{PORT, TIMEOUT};

/// Further options of perftest because the guest is emulated: the reported frequency of the
/// processor may differ from the measured one (`-F`), and with 16 QPs an answer may take a second
/// (`-u`: the local ACK timeout is 4.096 us x 2^18, one second).
const FOR_AN_EMULATOR: [&str; 3] = ["-F", "-u", "18"];

/// The most repetitions of a run in which the guest has stalled.
const REPETITIONS: usize = 2;

/// Which end is the server. The client is the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Ours,
    Theirs,
}

/// One combination.
pub(crate) struct Run<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) library: &'a Path,
    pub(crate) combination: &'a str,
}

impl Run<'_> {
    /// From rxe to rxe, in the guest: the client's output, or the reason why there is no result.
    pub(super) fn rxe_alone(&self) -> Result<String, String> {
        let mut said = self.rxe_alone_once();
        for _ in 0..REPETITIONS {
            // A refusal is final; after a timeout, another attempt may succeed.
            match &said {
                Err(failure) if failure.contains("has not ended") || clock_is_unfit(failure) => {}
                _ => break,
            }
            said = self.rxe_alone_once();
        }
        said
    }

    fn rxe_alone_once(&self) -> Result<String, String> {
        let server = self.listening_in_guest()?;
        let client = end_of(self.in_guest(Some(GUEST_IP4)), TIMEOUT);
        let server = end_of(server, patience(&client));
        both(server, client).and_then(|[_, client]| self.result(client))
    }

    /// Between us and rxe: the client's output, or the failures of both.
    pub(crate) fn with_us(&self, server: Server) -> Result<String, String> {
        let mut said = self.with_us_once(server);
        for _ in 0..REPETITIONS {
            let Err(failure) = &said else { break };
            if !failure.is_theirs && !clock_is_unfit(&failure.told) {
                break;
            }
            println!("the guest could not go on; once more: {}", failure.told);
            said = self.with_us_once(server);
        }
        said.map_err(|failure| failure.told)
    }

    fn with_us_once(&self, server: Server) -> Result<String, Failure> {
        let capture = self.capture(server);
        let start = |host| Ours::start(self.lab, self.library, &self.arguments(host), &capture);
        let plain = |told| Failure {
            told,
            is_theirs: false,
        };
        let (mut ours, theirs) = match server {
            Server::Ours => {
                let mut ours = start(None);
                ours.wait_until_it_listens();
                (ours, self.in_guest(Some(HOST_IP4)))
            }
            Server::Theirs => {
                let theirs = self.listening_in_guest().map_err(plain)?;
                (start(Some(GUEST_IP4)), theirs)
            }
        };
        let said = ours.finish();
        // While theirs still runs.
        let guest = said
            .as_ref()
            .err()
            .map(|_| describe(self.lab, self.program()));
        let theirs = end_of(theirs, patience(&said));
        drop(ours);
        let ended = match server {
            Server::Ours => both(said, theirs),
            Server::Theirs => both(theirs, said),
        };
        match ended.and_then(|[_, client]| self.result(client)) {
            Ok(client) => {
                // A leftover file is deleted with the lab.
                let _ = std::fs::remove_file(&capture);
                Ok(client)
            }
            Err(told) => {
                let guest = guest.unwrap_or_default();
                Err(Failure {
                    is_theirs: stall::is_theirs(&capture, &guest),
                    told: format!("{told}\n{guest}\n{}", self.keep(&capture)),
                })
            }
        }
    }

    fn program(&self) -> &str {
        self.combination.split(' ').next().unwrap_or_default()
    }

    /// The program and its arguments, except for the device.
    fn arguments(&self, host: Option<Ipv4Addr>) -> Vec<String> {
        let words = self.combination.split(' ').map(str::to_owned);
        let more: &[&str] = match self.combination.starts_with("ib_") {
            true => &FOR_AN_EMULATOR,
            false => &[],
        };
        let more = more.iter().copied().map(str::to_owned);
        let host = host.map(|host| host.to_string());
        words.chain(more).chain(host).collect()
    }

    fn in_guest(&self, host: Option<Ipv4Addr>) -> GuestChild {
        // Its first line is its process ID.
        self.lab
            .guest(["sh", "-c", "echo $$; exec \"$@\"", "sh"])
            .args(&self.arguments(host))
            .args(&["-d".to_owned(), GUEST_RDMA_DEVICE.to_owned()])
            .spawn()
            .expect("it starts")
    }

    /// Starts the server in the guest. Returns it once it listens, or its output if it ended.
    fn listening_in_guest(&self) -> Result<GuestChild, String> {
        let mut server = self.in_guest(None);
        let id = server.read_line(TIMEOUT).expect("its number");
        // 0A is LISTEN.
        let listens = format!(
            "until grep -q ':{PORT:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; \
             do [ -d /proc/{id} ] || exit 1; sleep 0.02; done"
        );
        let looked = self.lab.guest(["sh", "-c", &listens]).output(TIMEOUT);
        match looked.and_then(|output| output.success()) {
            Ok(_) => Ok(server),
            Err(_) => Err(end_of(server, SHORTLY).unwrap_or_else(|failure| failure)),
        }
    }

    /// Checks that the client printed a result.
    fn result(&self, client: String) -> Result<String, String> {
        match prints_a_result(self.combination, &client) {
            true => Ok(client),
            false => Err(format!("{client}\nno result")),
        }
    }

    /// The file with the capture of our packets.
    fn capture(&self, server: Server) -> PathBuf {
        let name = format!("{} server {server:?}.pcapng", self.combination);
        self.lab.directory().join(name.replace(' ', "_"))
    }

    /// Keeps a capture for diagnosis, and returns a message with its path.
    fn keep(&self, capture: &Path) -> String {
        let folder = self.lab.keep_directory("programs").expect("a folder");
        let kept = folder.join(capture.file_name().unwrap_or_default());
        match std::fs::rename(capture, &kept) {
            Ok(()) => format!("our packets: {}", kept.display()),
            Err(error) => format!("no capture: {error}"),
        }
    }
}

/// Why there is no result.
struct Failure {
    told: String,
    /// Whether Soft-RoCE has provably stopped in the middle of a message.
    is_theirs: bool,
}

/// Timeout of a program whose peer has ended.
const SHORTLY: Duration = Duration::from_secs(2);

/// Timeout of the other program after this one has ended.
fn patience(said: &Result<String, String>) -> Duration {
    match said {
        Ok(_) => TIMEOUT,
        Err(_) => SHORTLY,
    }
}

/// The output of a program in the guest, as an error if it failed or has not ended in time.
fn end_of(program: GuestChild, patience: Duration) -> Result<String, String> {
    let output = program
        .wait(patience)
        .map_err(|error| format!("it has not ended: {error}"))?;
    let said = output.stdout_text() + &output.stderr_text();
    match output.success() {
        Ok(_) => Ok(said),
        Err(_) => Err(said),
    }
}

/// The output of both, or the failures of each, with the more specific one last.
fn both(
    server: Result<String, String>,
    client: Result<String, String>,
) -> Result<[String; 2], String> {
    match (server, client) {
        (Ok(server), Ok(client)) => Ok([server, client]),
        (Err(server), Ok(client)) => Err(format!("client, well: {client}\nserver: {server}")),
        (Ok(server), Err(client)) => Err(format!("server, well: {server}\nclient: {client}")),
        (Err(server), Err(client)) => Err(format!("server: {server}\nclient: {client}")),
    }
}

/// Whether perftest failed to measure the frequency of the processor at the end of a run: that of
/// an emulated processor, which waits for a real one, is not steady.
fn clock_is_unfit(failure: &str) -> bool {
    failure.contains("Correlation coefficient") && failure.contains("Can't produce a report")
}

/// Whether a program that succeeded has printed a result.
fn prints_a_result(combination: &str, said: &str) -> bool {
    let words: Vec<&str> = combination.split(' ').collect();
    if words[0].ends_with("pingpong") {
        // The original succeeds even if data were wrong.
        let counted = said.contains(" iters in ") || said.contains("success");
        return counted && !said.contains("invalid data");
    }
    // A line for each size: the size, the number of messages, the speed, and more.
    let is_result = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() > 4 && words.iter().all(|word| word.parse::<f64>().is_ok())
    };
    let results = said.lines().filter(is_result).count();
    match words.contains(&"-a") {
        true => results > 1,
        false => results == 1,
    }
}

#[test]
fn a_result_is_recognized_in_the_output() {
    let line = " 65536      100              49.34              25.46  \t\t   0.000407\n";
    let heading =
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n";
    let one = format!("{heading}{line}");
    assert!(prints_a_result("ib_send_bw -x 1", &one));
    assert!(!prints_a_result("ib_send_bw -x 1", heading));
    assert!(!prints_a_result("ib_send_bw -x 1 -a", &one));
    assert!(prints_a_result(
        "ib_send_bw -x 1 -a",
        &format!("{one}{line}")
    ));
    let rounds = "100 iters in 0.02 seconds = 8242.00 usec/iter\n";
    assert!(prints_a_result("ibv_rc_pingpong -c", rounds));
    let wrong = format!("invalid data in page 0\n{rounds}");
    assert!(!prints_a_result("ibv_rc_pingpong -c", &wrong));
    assert!(!prints_a_result("ibv_rc_pingpong -c", "local address"));
}

#[test]
fn an_unsteady_clock_is_recognized_in_the_output() {
    let unsteady = "Correlation coefficient r^2: 0.023725 < 0.9\nCan't produce a report\n";
    assert!(clock_is_unfit(unsteady));
    assert!(!clock_is_unfit(
        "Failed to exchange data between server and clients"
    ));
}
