//! Options of sockets.

use super::{OrErrno, route};
use crate::prelude::*;
use roce_rsockets as rs;
use roce_rsockets::{Number, Time};
use std::time::Duration;

/// `SOL_RDMA`, and its options.
const SOL_RDMA: c_int = 0x10000;
const RDMA_SQSIZE: c_int = 0;
const RDMA_RQSIZE: c_int = 1;
const RDMA_INLINE: c_int = 2;
const RDMA_IOMAPSIZE: c_int = 3;
const RDMA_ROUTE: c_int = 4;

enum Kind {
    Number(Number),
    Time(Time),
    /// SO_ERROR.
    Error,
    /// A fact about the socket.
    Fact(fn(c_int) -> Result<c_int, Errno>),
    /// An option that TCP needs and RDMA does not: any number is right, and this is the one that is read.
    Ignored(c_int),
    /// RDMA_ROUTE.
    Route,
}

fn kind(level: c_int, option: c_int) -> Result<Kind, Errno> {
    Ok(match (level, option) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => Kind::Number(Number::ReuseAddress),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Kind::Number(Number::KeepAlive),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => Kind::Number(Number::OobInline),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => Kind::Number(Number::ReceiveBuffer),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => Kind::Number(Number::SendBuffer),
        (libc::SOL_SOCKET, libc::SO_LINGER) => Kind::Time(Time::Linger),
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Kind::Time(Time::Receive),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Kind::Time(Time::Send),
        (libc::SOL_SOCKET, libc::SO_ERROR) => Kind::Error,
        (libc::SOL_SOCKET, libc::SO_TYPE) => Kind::Fact(|_| Ok(libc::SOCK_STREAM)),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Kind::Fact(|_| Ok(libc::IPPROTO_TCP)),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Kind::Fact(|fd| {
            let local = rs::local_name(fd).or_errno()?;
            Ok(if local.is_ipv4() {
                libc::AF_INET
            } else {
                libc::AF_INET6
            })
        }),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
            Kind::Fact(|fd| rs::is_listening(fd).or_errno().map(c_int::from))
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Kind::Number(Number::NoDelay),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => Kind::Number(Number::KeepIdle),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => Kind::Ignored(1),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => Kind::Ignored(2048),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Kind::Number(Number::V6Only),
        (SOL_RDMA, RDMA_SQSIZE) => Kind::Number(Number::SendQueue),
        (SOL_RDMA, RDMA_RQSIZE) => Kind::Number(Number::ReceiveQueue),
        (SOL_RDMA, RDMA_INLINE) => Kind::Number(Number::Inline),
        (SOL_RDMA, RDMA_IOMAPSIZE) => Kind::Number(Number::Mappings),
        (SOL_RDMA, RDMA_ROUTE) => Kind::Route,
        _ => {
            return Err(with_reason(Errno::ENOPROTOOPT, || {
                format!("rsockets have no option {option} at level {level}")
            }));
        }
    })
}

pub(crate) extern "C" fn set(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: In<u8>,
    len: u32,
) -> c_int {
    guard::minus_one("rsetsockopt", || {
        if !rs::is_socket(fd) {
            return Err(Errno::EBADF);
        }
        if rs::is_datagram(fd) && level != SOL_RDMA {
            return set_on_udp(fd, level, option, value, len);
        }
        match kind(level, option)? {
            Kind::Number(number) => rs::set_number(fd, number, read(value, len)?).or_errno(),
            Kind::Time(Time::Linger) => {
                let linger: libc::linger = read(value, len)?;
                let seconds = u64::try_from(linger.l_linger).unwrap_or(0);
                let time = (linger.l_onoff != 0).then(|| Duration::from_secs(seconds));
                rs::set_time(fd, Time::Linger, time).or_errno()
            }
            Kind::Time(time) => rs::set_time(fd, time, read_time(value, len)?).or_errno(),
            Kind::Ignored(_) => read::<c_int>(value, len).map(drop),
            Kind::Route => rs::set_route(fd, route::read(value, len)?).or_errno(),
            Kind::Error | Kind::Fact(_) => Err(Errno::ENOPROTOOPT),
        }
    })
}

/// Sets an option of a datagram socket: on its UDP socket, and where it concerns this library.
fn set_on_udp(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: In<u8>,
    len: u32,
) -> Result<(), Errno> {
    // SAFETY: the descriptor is that of a UDP socket, and the program passes `len` bytes.
    let set = unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), len) };
    Errno::result(set)?;
    match kind(level, option) {
        Ok(Kind::Number(number @ (Number::ReceiveBuffer | Number::SendBuffer))) => {
            rs::set_number(fd, number, read(value, len)?).or_errno()
        }
        Ok(Kind::Time(time @ (Time::Receive | Time::Send))) => {
            rs::set_time(fd, time, read_time(value, len)?).or_errno()
        }
        _ => Ok(()),
    }
}

/// Reads an option of a datagram socket.
fn get_of_udp(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: Out<u8>,
    len: Out<u32>,
) -> Result<(), Errno> {
    if (level, option) == (libc::SOL_SOCKET, libc::SO_ERROR)
        && let Some(error) = rs::take_error(fd).or_errno()?
    {
        return write(&(error as c_int), value, len);
    }
    let (value, len) = (value.input().as_ptr().cast_mut(), len.get()?);
    // SAFETY: the descriptor is that of a UDP socket, and the program passes `len` bytes.
    let got = unsafe { libc::getsockopt(fd, level, option, value.cast(), len) };
    Errno::result(got).map(drop)
}

pub(crate) extern "C" fn get(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: Out<u8>,
    len: Out<u32>,
) -> c_int {
    guard::minus_one("rgetsockopt", || {
        if !rs::is_socket(fd) {
            return Err(Errno::EBADF);
        }
        if rs::is_datagram(fd) && level != SOL_RDMA {
            return get_of_udp(fd, level, option, value, len);
        }
        match kind(level, option)? {
            Kind::Number(number) => write(&rs::number(fd, number).or_errno()?, value, len),
            Kind::Fact(fact) => write(&fact(fd)?, value, len),
            Kind::Ignored(number) => write(&number, value, len),
            Kind::Error => {
                let error = rs::take_error(fd).or_errno()?;
                write(&error.map_or(0, |errno| errno as c_int), value, len)
            }
            Kind::Time(Time::Linger) => {
                let time = rs::time(fd, Time::Linger).or_errno()?;
                let linger = libc::linger {
                    l_onoff: c_int::from(time.is_some()),
                    l_linger: time.map_or(0, |time| time.as_secs() as c_int),
                };
                write(&linger, value, len)
            }
            Kind::Time(time) => {
                let time = rs::time(fd, time).or_errno()?.unwrap_or_default();
                let time = libc::timeval {
                    tv_sec: time.as_secs() as libc::time_t,
                    tv_usec: time.subsec_micros().into(),
                };
                write(&time, value, len)
            }
            Kind::Route => match rs::route(fd).or_errno()? {
                Some((path, mtu)) => route::write(&path, mtu, value, len),
                None => len.put(0),
            },
        }
    })
}

/// `rfcntl`. The third argument of the C function is variable: a number, or nothing.
pub(crate) extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    guard::value("rfcntl", -1, || match command {
        libc::F_GETFL => {
            let nonblocking = rs::is_nonblocking(fd).or_errno()?;
            let flag = if nonblocking { libc::O_NONBLOCK } else { 0 };
            Ok(libc::O_RDWR | flag)
        }
        libc::F_SETFL => {
            rs::set_nonblocking(fd, argument & libc::O_NONBLOCK != 0).or_errno()?;
            Ok(0)
        }
        libc::F_GETFD | libc::F_SETFD if rs::is_socket(fd) => {
            // SAFETY: the descriptor is an rsocket's own, and these commands only read or set its
            // flags.
            Errno::result(unsafe { libc::fcntl(fd, command, argument) })
        }
        _ if !rs::is_socket(fd) => Err(Errno::EBADF),
        _ => Err(with_reason(Errno::EOPNOTSUPP, || {
            format!("rfcntl has no command {command}")
        })),
    })
}

/// A value that the program passes.
fn read<T: Copy>(value: In<u8>, len: u32) -> Result<T, Errno> {
    if (len as usize) < size_of::<T>() {
        return Err(with_reason(Errno::EINVAL, || {
            format!(
                "a value of {len} bytes, but the option has {}",
                size_of::<T>()
            )
        }));
    }
    value.field(0).read()
}

/// A `struct timeval`; `None` means no limit.
fn read_time(value: In<u8>, len: u32) -> Result<Option<Duration>, Errno> {
    let time: libc::timeval = read(value, len)?;
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::EDOM)?;
    let micros = u64::try_from(time.tv_usec)
        .ok()
        .filter(|us| *us < 1_000_000);
    let micros = micros.ok_or(Errno::EDOM)?;
    let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Ok((!time.is_zero()).then_some(time))
}

/// Writes a value as far as there is room, as `getsockopt` does.
fn write<T: Copy>(value: &T, to: Out<u8>, len: Out<u32>) -> Result<(), Errno> {
    let room = *len.get()? as usize;
    let written = room.min(size_of::<T>());
    to.field(0).put_prefix(value, written)?;
    len.put(written as u32)
}
