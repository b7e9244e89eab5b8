//! `nvme-rdma read` and `nvme-rdma write`.

use super::args::DiskArgs;
use super::disk::{Disk, with_losses};
use super::pump::Pieces;
use super::{Outcome, say};
use crate::host::{Host, IoQueue};
use clap::Args;
use indicatif::ProgressBar;
use roce_trust::output;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Copy bytes of a namespace to a file
#[derive(Args, Debug)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    disk: DiskArgs,

    /// The first byte, for example 1M
    #[arg(long, default_value = "0", value_parser = super::size::parse, value_name = "BYTES")]
    offset: u64,

    /// How many bytes [default: to the end of the namespace]
    #[arg(long, value_parser = super::size::parse, value_name = "BYTES")]
    length: Option<u64>,

    /// The file [default: stdout]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Copy a file to a namespace
#[derive(Args, Debug)]
#[command(after_help = "\
If the target is lost before it has answered, the error lists the bytes that are not known to be
durable: those that the target has not answered, and those that no flush has followed.")]
pub(super) struct WriteArgs {
    #[command(flatten)]
    disk: DiskArgs,

    /// The first byte, for example 1M
    #[arg(long, default_value = "0", value_parser = super::size::parse, value_name = "BYTES")]
    offset: u64,

    /// The file [default: stdin]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Do not flush at the end: the controller may then lose the bytes at a power cut
    #[arg(long)]
    no_flush: bool,
}

pub(super) fn read(args: &ReadArgs) -> Outcome {
    let (mut host, disk) = args.disk.connect()?;
    let rest = disk.namespace.len().saturating_sub(args.offset);
    let len = args.length.unwrap_or(rest);
    disk.check(args.offset, len)?;
    let sink = Sink::open(args)?;
    let next = AtomicU64::new(args.offset);
    let end = args.offset + len;
    let progress = say::progress(Some(len));
    let queues = if sink.in_order() { 1 } else { usize::MAX };
    on_queues(&mut host, queues, |queue, stop| {
        let claim = || match stop.load(Ordering::Relaxed) || sink.reader_has_gone() {
            true => None,
            false => claim(&next, end, disk.block),
        };
        read_from(queue, &disk, claim, &sink, &progress)
    })?;
    Ok(host.shutdown()?)
}

/// The next piece of at most `block` bytes before `end`.
fn claim(next: &AtomicU64, end: u64, block: usize) -> Option<(u64, usize)> {
    let take = |at: u64| (at < end).then(|| at + (end - at).min(block as u64));
    let at = next
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .ok()?;
    Some((at, (end - at).min(block as u64) as usize))
}

fn read_from(
    queue: &mut IoQueue,
    disk: &Disk,
    claim: impl Fn() -> Option<(u64, usize)>,
    sink: &Sink,
    progress: &ProgressBar,
) -> Outcome {
    let mut pieces = Pieces::new(queue, disk)?;
    let mut bytes = vec![0; disk.block];
    let mut posted = VecDeque::new();
    loop {
        while pieces.has_room()
            && let Some((offset, len)) = claim()
        {
            let range = pieces.next(len);
            let tag = queue.read(&disk.namespace, offset, &pieces.buffer, range)?;
            pieces.take(tag, offset, len);
            posted.push_back(tag);
        }
        let Some(oldest) = posted.front().copied() else {
            return Ok(());
        };
        let done = match sink.in_order() {
            true => queue.wait_for(oldest)?,
            false => queue.wait()?,
        };
        posted.retain(|tag| *tag != done.tag);
        done.ok()?;
        if let Some(finished) = pieces.finish(&done) {
            let bytes = &mut bytes[..finished.len];
            pieces.buffer.read(finished.range().start, bytes)?;
            sink.put(finished.offset, bytes)?;
            progress.inc(bytes.len() as u64);
        }
    }
}

/// Where the bytes of a namespace go.
enum Sink {
    /// A file, in whichever order they come. Its first byte is the namespace's at this offset.
    File(File, u64),
    /// Something that has no places: one piece behind the other.
    Stream(Mutex<Box<dyn Write + Send>>),
    /// Standard output: as a stream, and whether its reader has gone.
    Stdout(AtomicBool),
}

impl Sink {
    fn open(args: &ReadArgs) -> Outcome<Self> {
        let Some(path) = &args.to else {
            return Ok(Self::Stdout(AtomicBool::new(false)));
        };
        let failed = |e: io::Error| format!("cannot write {}: {e}", path.display());
        let file = roce_trust::files::create(path).map_err(failed)?;
        match file.metadata().map_err(failed)?.is_file() {
            true => Ok(Self::File(file, args.offset)),
            false => Ok(Self::Stream(Mutex::new(Box::new(file)))),
        }
    }

    /// Whether the pieces must come in order.
    fn in_order(&self) -> bool {
        matches!(self, Self::Stream(_) | Self::Stdout(_))
    }

    /// Whether nobody wants the rest, as with `| head`.
    fn reader_has_gone(&self) -> bool {
        matches!(self, Self::Stdout(gone) if gone.load(Ordering::Relaxed))
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file, first) => file.write_all_at(bytes, offset - first),
            Self::Stream(out) => {
                let mut out = out.lock().expect("no holder panics");
                out.write_all(bytes)?;
                out.flush()
            }
            Self::Stdout(gone) => {
                let mut out = io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                let is_there = output::unless_reader_has_gone(written.map_err(output::named))?;
                gone.fetch_or(!is_there, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

pub(super) fn write(args: &WriteArgs) -> Outcome {
    let (mut host, disk) = args.disk.connect()?;
    let (source, len) = open(args)?;
    if let Some(len) = len {
        disk.check(args.offset, len)?;
    }
    let source = Source::new(source, args.offset);
    let progress = say::progress(len);
    let written = on_queues(&mut host, usize::MAX, |queue, stop| {
        write_from(queue, &disk, &source, stop, &progress)
    });
    let flushed = written.and_then(|()| match (args.no_flush, host.queues().first_mut()) {
        (false, Some(queue)) => {
            queue.flush(&disk.namespace)?;
            Ok(queue.drain()?)
        }
        _ => Ok(()),
    });
    flushed.map_err(|error| with_losses(&host, error))?;
    Ok(host.shutdown()?)
}

/// The input, and its length if it is a file.
fn open(args: &WriteArgs) -> Outcome<(Box<dyn Read + Send>, Option<u64>)> {
    let Some(path) = &args.from else {
        return Ok((Box::new(io::stdin()), None));
    };
    let failed = |e: io::Error| format!("cannot read {}: {e}", path.display());
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let len = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), len))
}

/// The input, from which several threads take pieces.
struct Source {
    state: Mutex<(Box<dyn Read + Send>, u64)>,
}

impl Source {
    fn new(input: Box<dyn Read + Send>, offset: u64) -> Self {
        Self {
            state: Mutex::new((input, offset)),
        }
    }

    /// Fills `bytes` as far as the input reaches. Returns where they belong, and how many they are.
    fn next(&self, bytes: &mut [u8]) -> io::Result<(u64, usize)> {
        let mut state = self.state.lock().expect("no holder panics");
        let mut len = 0;
        while len < bytes.len() {
            match state.0.read(&mut bytes[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let offset = state.1;
        state.1 += len as u64;
        Ok((offset, len))
    }
}

fn write_from(
    queue: &mut IoQueue,
    disk: &Disk,
    source: &Source,
    stop: &AtomicBool,
    progress: &ProgressBar,
) -> Outcome {
    let mut pieces = Pieces::new(queue, disk)?;
    let mut bytes = vec![0; disk.block];
    loop {
        while pieces.has_room() && !stop.load(Ordering::Relaxed) {
            let (offset, len) = source.next(&mut bytes)?;
            if len == 0 {
                break;
            }
            disk.check(offset, len as u64)?;
            let range = pieces.next(len);
            pieces.buffer.write(range.start, &bytes[..len])?;
            let tag = queue.write(&disk.namespace, offset, &pieces.buffer, range)?;
            pieces.take(tag, offset, len);
        }
        if !pieces.any() {
            return Ok(());
        }
        let done = queue.wait()?;
        done.ok()?;
        if let Some(finished) = pieces.finish(&done) {
            progress.inc(finished.len as u64);
        }
    }
}

/// Runs `work` for the first `most` queues, in a thread for each, and tells the others to stop when
/// one fails. Returns the first error.
fn on_queues(
    host: &mut Host,
    most: usize,
    work: impl Fn(&mut IoQueue, &AtomicBool) -> Outcome + Sync,
) -> Outcome {
    let stop = AtomicBool::new(false);
    let errors = std::thread::scope(|scope| {
        let queues = host.queues().iter_mut().take(most);
        let threads: Vec<_> = queues
            .map(|queue| {
                let (work, stop) = (&work, &stop);
                scope.spawn(move || {
                    // As text, since an error of `Outcome` stays in its thread.
                    let result = work(queue, stop).map_err(|error| error.to_string());
                    stop.fetch_or(result.is_err(), Ordering::Relaxed);
                    result
                })
            })
            .collect();
        let results = threads
            .into_iter()
            .map(|t| t.join().expect("no thread panics"));
        results.filter_map(Result::err).collect::<Vec<_>>()
    });
    match errors.into_iter().next() {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}
