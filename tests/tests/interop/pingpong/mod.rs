//! `roce pingpong` and Debian's unmodified ibv_rc_pingpong, on rxe in the guest,
//! play 1,000 rounds in both roles, and check the data. UC and UD run fewer rounds.

pub(crate) mod stall;

use std::io::{BufRead, BufReader, Read};
use std::mem;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use roce_tests::decode::assert_decode_agrees;
use roce_tests::lab::{GUEST_IP4, GuestOutput, HOST_INTERFACE, HOST_IP4, Lab, LabError};
use roce_tests::peer::GidIndex;
use roce_tests::programs;

/// Timeout of a run.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Timeout of our side without a sign of life.
const PATIENCE_SECONDS: &str = "30";

const SIZES: [usize; 3] = [1, 4096, 1 << 20];

const ROUNDS: usize = 1000;

/// The most repetitions of a run in which Soft-RoCE has stalled.
const REPETITIONS: usize = 2;

/// Rounds of a run whose packets are captured.
const CAPTURED_ROUNDS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

/// The transport service, by its name in options and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Rc,
    Uc,
    Ud,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Uc => "uc",
            Self::Ud => "ud",
        }
    }

    /// The program in the guest.
    fn program(self) -> String {
        format!("ibv_{}_pingpong", self.name())
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Game {
    service: Service,
    gid: GidIndex,
    path_mtu: u32,
    size: usize,
    rounds: usize,
    our_role: Role,
}

impl Game {
    /// The arguments that both programs get: among them `-c`, which checks data.
    fn arguments(&self) -> Vec<String> {
        let &Game {
            service,
            gid,
            path_mtu,
            size,
            rounds,
            ..
        } = self;
        let gid = gid as u8;
        let mut options = format!("-c -n {rounds} -g {gid} -s {size}");
        if service != Service::Ud {
            options += &format!(" -m {path_mtu}");
        }
        if size > 1 << 16 {
            // Polling would occupy the processors that emulate the guest.
            options += " -e";
        }
        options.split(' ').map(str::to_owned).collect()
    }

    /// Runs it, and compares the output of ours and theirs.
    #[track_caller]
    fn play(&self, lab: &Lab) {
        let start = Instant::now();
        let mut said = self.play_once(lab);
        for _ in 0..REPETITIONS {
            let Err(failure) = &said else { break };
            if !stall::is_theirs(failure, self.size.div_ceil(self.path_mtu as usize)) {
                break;
            }
            println!("Soft-RoCE has stopped in the middle of a message; once more: {failure}");
            said = self.play_once(lab);
        }
        println!("{:5.1} s: {self:?}", start.elapsed().as_secs_f64());
        let (ours, theirs) = said.unwrap_or_else(|failure| panic!("{failure}"));
        self.assert_agree(&ours, &theirs);
    }

    /// The output of ours and theirs, or the failure of each.
    fn play_once(&self, lab: &Lab) -> Result<(String, String), String> {
        match self.our_role {
            Role::Client => self.against_their_server(lab),
            Role::Server => self.against_their_client(lab),
        }
    }

    fn against_their_server(&self, lab: &Lab) -> Result<(String, String), String> {
        let theirs = lab
            .guest([self.service.program()])
            .args(&self.arguments())
            .spawn()
            .expect("it starts");
        // It prints its address before it listens. 18515 is 0x4853; 0A is LISTEN.
        let listens = "until grep -q ':4853 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; \
                       do sleep 0.02; done";
        lab.guest(["sh", "-c", listens])
            .output(TIMEOUT)
            .and_then(|output| output.success())
            .expect("it listens");
        let ours = Ours::start(lab, self, Some(GUEST_IP4.to_string())).finish();
        // While theirs still runs.
        let guest = ours
            .as_ref()
            .err()
            .map(|_| stall::describe(lab, &self.service.program()));
        let theirs = theirs.wait(patience(&ours));
        both(ours, theirs, guest)
    }

    fn against_their_client(&self, lab: &Lab) -> Result<(String, String), String> {
        let mut ours = Ours::start(lab, self, None);
        ours.wait_for_address();
        let theirs = lab
            .guest([self.service.program()])
            .args(&self.arguments())
            .arg(HOST_IP4.to_string())
            .spawn()
            .expect("it starts");
        let ours = ours.finish();
        let guest = ours
            .as_ref()
            .err()
            .map(|_| stall::describe(lab, &self.service.program()));
        let theirs = theirs.wait(patience(&ours));
        both(ours, theirs, guest)
    }

    /// The output of both agrees: each other's address, and the amount of data.
    fn assert_agree(&self, ours: &str, theirs: &str) {
        for (one, other) in [(ours, theirs), (theirs, ours)] {
            // ibv_ud_pingpong prints a colon in one and a comma in the other.
            let local = after(one, "local address:").replace(": GID", ", GID");
            assert_eq!(local, after(other, "remote address:"));
        }
        let bytes = format!("{} bytes in", self.size * self.rounds * 2);
        let rounds = format!("{} iters in", self.rounds);
        for said in [ours, theirs] {
            after(said, &bytes);
            after(said, &rounds);
            // The original succeeds even if data were wrong.
            assert!(!said.contains("invalid data"), "{said}");
        }
    }
}

/// `roce pingpong` outside.
struct Ours {
    child: Child,
    output: BufReader<ChildStdout>,
    said: String,
}

impl Ours {
    fn start(lab: &Lab, game: &Game, host: Option<String>) -> Self {
        let mut child = lab
            .host_command(programs::roce())
            .args(["pingpong", "-d", &format!("roce_{HOST_INTERFACE}")])
            .args(["--timeout", PATIENCE_SECONDS])
            .args(["--type", game.service.name()])
            .args(game.arguments())
            .args(host)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("roce starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            output,
            said: String::new(),
        }
    }

    /// Reads its first line. As the server, it listens from then on.
    fn wait_for_address(&mut self) {
        self.output.read_line(&mut self.said).expect("a line");
        assert!(self.said.contains("local address"), "{}", self.said);
    }

    /// Its output, as an error if it failed. It ends by itself, whatever the peer does.
    fn finish(mut self) -> Result<String, String> {
        self.output.read_to_string(&mut self.said).expect("text");
        let mut complaint = String::new();
        let stderr = self.child.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut complaint).expect("text");
        let status = self.child.wait().expect("ended");
        match status.success() {
            true => Ok(mem::take(&mut self.said)),
            false => Err(format!("{status}: {}{complaint}", self.said)),
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // Both calls do nothing if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Timeout of the peer after ours has ended.
fn patience(ours: &Result<String, String>) -> Duration {
    match ours {
        Ok(_) => TIMEOUT,
        // Its output so far is enough.
        Err(_) => Duration::from_secs(1),
    }
}

/// The output of both, if both succeeded; otherwise the failure of each, and the state of the guest
/// when ours failed.
fn both(
    ours: Result<String, String>,
    theirs: Result<GuestOutput, LabError>,
    guest: Option<String>,
) -> Result<(String, String), String> {
    match (ours, theirs.and_then(|output| output.success())) {
        (Ok(ours), Ok(theirs)) => Ok((ours, theirs.stdout_text())),
        (ours, theirs) => Err(format!(
            "ours: {}\ntheirs: {theirs:?}\n{}",
            ours.unwrap_or_else(|failure| failure),
            guest.unwrap_or_default()
        )),
    }
}

/// The text after `label` in its line.
#[track_caller]
fn after<'a>(said: &'a str, label: &str) -> &'a str {
    said.lines()
        .find_map(|line| line.trim_start().strip_prefix(label))
        .unwrap_or_else(|| panic!("no line {label:?} in {said:?}"))
        .trim_start()
}

/// Each size in both roles: all rounds, then a few that are captured, whose decoding is compared
/// with tshark.
fn play_all(link_mtu: u32, path_mtu: u32, gid: GidIndex) {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_mtu(link_mtu).expect("an MTU");
    let play = |size, our_role, rounds| {
        let game = Game {
            service: Service::Rc,
            gid,
            path_mtu,
            size,
            rounds,
            our_role,
        };
        game.play(&lab);
    };
    let all = SIZES.map(|size| [(size, Role::Client), (size, Role::Server)]);
    for &(size, our_role) in all.as_flattened() {
        play(size, our_role, ROUNDS);
    }
    let capture = lab.capture_start().expect("captures");
    for &(size, our_role) in all.as_flattened() {
        play(size, our_role, CAPTURED_ROUNDS);
    }
    let files = capture.stop().expect("captured");
    // The minimum: the packets of each message, and an acknowledgement.
    let least: usize = SIZES
        .map(|size| size.div_ceil(path_mtu as usize) + 1)
        .iter()
        .sum();
    for file in [&files.outside, &files.guest] {
        let packets = assert_decode_agrees(file);
        let expected = least * 4 * CAPTURED_ROUNDS;
        assert!(
            packets >= expected,
            "{}: {packets} packets, at least {expected} were sent",
            file.display()
        );
    }
}

#[test]
fn ip4_at_link_mtu_1500() {
    play_all(1500, 1024, GidIndex::Ip4);
}

#[test]
fn link_local_at_link_mtu_1500() {
    play_all(1500, 1024, GidIndex::LinkLocal6);
}

#[test]
fn ip4_at_link_mtu_9000() {
    play_all(9000, 4096, GidIndex::Ip4);
}

#[test]
fn link_local_at_link_mtu_9000() {
    play_all(9000, 4096, GidIndex::LinkLocal6);
}

/// Rounds of the unreliable services: a run ends with the first lost packet, so long runs show no
/// more than short ones.
const UNRELIABLE_ROUNDS: usize = 100;

/// UC and UD in both roles: a message of one byte and the longest of one packet, and
/// with UC one of several packets. The decoding of the packets is compared with tshark.
#[test]
fn unreliable_services_at_link_mtu_1500() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_mtu(1500).expect("an MTU");
    let games = [(Service::Uc, [1, 4096]), (Service::Ud, [1, 1024])];
    let capture = lab.capture_start().expect("captures");
    for (service, sizes) in games {
        for size in sizes {
            for our_role in [Role::Client, Role::Server] {
                let game = Game {
                    service,
                    gid: GidIndex::Ip4,
                    path_mtu: 1024,
                    size,
                    rounds: UNRELIABLE_ROUNDS,
                    our_role,
                };
                game.play(&lab);
            }
        }
    }
    let files = capture.stop().expect("captured");
    // Messages of 1, 4, 1 and 1 packets, both ways, in both roles.
    let least = (1 + 4 + 1 + 1) * 2 * 2 * UNRELIABLE_ROUNDS;
    for file in [&files.outside, &files.guest] {
        assert!(assert_decode_agrees(file) >= least);
    }
}
