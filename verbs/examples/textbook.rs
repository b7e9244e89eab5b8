//! The textbook program: two processes each connect a reliable queue pair and move data with SEND,
//! RDMA WRITE and RDMA READ.
//!
//! ```text
//! textbook DEVICE GID_INDEX            the server; prints "listening" when it is ready
//! textbook DEVICE GID_INDEX HOST       the client
//! ```
//!
//! `verbs-shim/examples/textbook.c` is the same program in C. Either program can be either end: they
//! exchange their addresses over TCP, as one line of hexadecimal numbers. Then
//!
//! ```text
//! client                                          server
//! SEND "hello"                        ────────►   receives it
//! RDMA WRITE of a pattern             ────────►   (its program does nothing)
//! RDMA READ of the same memory        ◄────────   (its program does nothing)
//! compares, SEND "done"               ────────►   looks at the pattern in its memory
//! ```

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};

use roce_verbs::device::Gid;
use roce_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Device, Endpoint, MemoryRegion, Psn,
    QpOptions, Qpn, QueuePair, RecvRequest, RemoteAddr, SendOp, SendRequest, WcStatus,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

const BYTES: usize = 64 * 1024;
const HALF: usize = BYTES / 2;
const PORT: u16 = 18516;

/// One end of the connection.
struct End {
    memory: MemoryRegion,
    cq: CompletionQueue,
    qp: QueuePair,
    gid_index: u8,
    /// The second half of the other end's memory.
    theirs: RemoteAddr,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (device, gid_index, host) = match &arguments[..] {
        [device, gid_index] => (device, gid_index, None),
        [device, gid_index, host] => (device, gid_index, Some(host)),
        _ => return Err("usage: textbook DEVICE GID_INDEX [HOST]".into()),
    };
    let mut end = End::open(device, gid_index.parse()?)?;
    match host {
        None => {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))?;
            println!("listening");
            end.run_server(listener.accept()?.0)?;
        }
        Some(host) => end.run_client(TcpStream::connect((host.as_str(), PORT))?)?,
    }
    println!("ok");
    Ok(())
}

impl End {
    fn open(device: &str, gid_index: u8) -> Outcome<Self> {
        let context = Device::named(device)?.open()?;
        let pd = context.alloc_pd();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let memory = pd.allocate(BYTES, access)?;
        let cq = context.create_cq(16);
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
        qp.to_init(access - Access::LOCAL_WRITE)?;
        Ok(Self {
            memory,
            cq,
            qp,
            gid_index,
            theirs: RemoteAddr { addr: 0, rkey: 0 },
        })
    }

    /// Sends our address to the other end, receives its address, and connects the two QPs.
    fn connect(&mut self, mut peer: &TcpStream) -> Outcome<()> {
        let mine = self.qp.endpoint(self.gid_index)?;
        let memory = self.memory.remote(0);
        let gid = mine.gid.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let (qpn, psn) = (mine.qpn.get(), mine.psn.get());
        let RemoteAddr { addr, rkey } = memory;
        writeln!(peer, "{qpn:06x} {psn:06x} {rkey:08x} {addr:016x} {gid}")?;

        // Unbuffered: what follows the line must stay in the socket.
        let mut line = String::new();
        BufReader::with_capacity(1, peer).read_line(&mut line)?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[qpn, psn, rkey, addr, gid] = &fields[..] else {
            return Err(format!("the other end sent {line:?} instead of an address").into());
        };
        let number = |text| u32::from_str_radix(text, 16);
        let theirs = Endpoint {
            gid: Gid(u128::from_str_radix(gid, 16)?.to_be_bytes()),
            qpn: Qpn::from_bits(number(qpn)?),
            psn: Psn::new(number(psn)?),
        };
        self.theirs = RemoteAddr {
            addr: u64::from_str_radix(addr, 16)? + HALF as u64,
            rkey: number(rkey)?,
        };
        let options = ConnectOptions {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
            ..ConnectOptions::default()
        };
        self.qp.to_rtr(self.gid_index, &theirs, &options)?;
        self.qp.to_rts(&options)?;
        Ok(())
    }

    fn run_server(&mut self, mut client: TcpStream) -> Outcome<()> {
        self.receive()?;
        self.connect(&client)?;
        // The client may send from here on.
        client.write_all(b"\n")?;
        self.expect("hello")?;
        self.receive()?;
        // Tells the client that another receive is posted.
        client.write_all(b"\n")?;
        self.expect("done")?;
        self.check(HALF)
    }

    fn run_client(&mut self, mut server: TcpStream) -> Outcome<()> {
        self.connect(&server)?;
        server.read_exact(&mut [0])?;
        self.memory.write(0, b"hello")?;
        self.perform(SendOp::Send, 0, 5)?;
        self.memory.write(0, &pattern())?;
        self.perform(SendOp::Write(self.theirs), 0, HALF)?;
        self.perform(SendOp::Read(self.theirs), HALF, HALF)?;
        self.check(HALF)?;
        server.read_exact(&mut [0])?;
        self.memory.write(0, b"done")?;
        self.perform(SendOp::Send, 0, 4)
    }

    fn receive(&self) -> Outcome<()> {
        let sges = [self.memory.slice(0, HALF)?];
        let request = RecvRequest {
            wr_id: 1,
            sges: &sges,
        };
        Ok(self.qp.post_recv(&request)?)
    }

    /// Performs one operation on `len` bytes of our memory, and waits for its completion.
    fn perform(&self, op: SendOp, at: usize, len: usize) -> Outcome<()> {
        let sges = [self.memory.slice(at, len)?];
        self.qp.post_send(&SendRequest::new(2, op, &sges))?;
        self.complete()?;
        Ok(())
    }

    fn complete(&self) -> Outcome<Completion> {
        let completion = self.cq.wait_polling()?;
        match completion.status {
            WcStatus::Success => Ok(completion),
            status => Err(status.explain().into()),
        }
    }

    fn expect(&self, message: &str) -> Outcome<()> {
        let completion = self.complete()?;
        let mut received = vec![0; completion.byte_len as usize];
        self.memory.read(0, &mut received)?;
        match received == message.as_bytes() {
            true => Ok(()),
            false => Err(format!("{message:?} was expected").into()),
        }
    }

    fn check(&self, at: usize) -> Outcome<()> {
        let mut found = vec![0; HALF];
        self.memory.read(at, &mut found)?;
        match found == pattern() {
            true => Ok(()),
            false => Err("the data differ".into()),
        }
    }
}

fn pattern() -> Vec<u8> {
    (0..HALF).map(|i| (i * 7 + i / 251) as u8).collect()
}
