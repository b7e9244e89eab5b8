//! Names that belong to this user's processes, even if other users have taken the same names.
//!
//! Any user can take the name of any abstract Unix socket. So a name alone proves nothing, and
//! another user can keep a name from this one. The kernel says which user owns a socket
//! ([`UnixSockets`]), and a process that finds a name in the hands of another user takes a *variant*
//! of it: the name with the first number that is free. A process that looks for
//! the name also looks for its variants, and ignores what other users have.
//!
//! If the kernel does not say who owns a socket, every name counts as this user's, and there are no
//! variants.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use roce_trust::{NamedSocket, OwnUser, UnixSockets};
use socket2::Socket;

use super::names;

/// Separates a name from the number of its variant.
const SEPARATOR: char = '~';

/// How often to try again if other processes keep taking the variant that was free.
const MAX_ATTEMPTS: u32 = 100;

/// Finds out who has which name, in the network namespace of the thread that created it.
#[derive(Debug)]
pub(super) struct OwnedNames {
    /// `None` if the kernel has no list of Unix sockets.
    kernel: Option<UnixSockets>,
}

impl OwnedNames {
    pub(super) fn new() -> Self {
        Self {
            kernel: UnixSockets::open().ok(),
        }
    }

    /// The sockets of all users with such names; `None` if the kernel does not list them.
    fn list_all(&self, prefix: &str) -> Option<Vec<NamedSocket>> {
        self.kernel.as_ref()?.list(prefix).ok()
    }

    /// The names with this prefix that processes of this user have now. `None` if the kernel does
    /// not list them.
    pub(super) fn list(&self, prefix: &str) -> Option<Vec<String>> {
        let (all, user) = (self.list_all(prefix)?, OwnUser::now());
        let own = all.into_iter().filter(|socket| is_owned_by(user, socket));
        Some(own.map(|socket| socket.name).collect())
    }

    /// Binds the socket to the name, or to a variant if another user has the name.
    ///
    /// # Errors
    /// `AddrInUse` if a process of this user has the name or a variant. If the other user gives up
    /// a name while two processes try, both may get this error. The socket may be bound then: close
    /// it.
    pub(super) fn bind(&self, socket: &Socket, name: &str) -> io::Result<()> {
        let in_use = || Err(ErrorKind::AddrInUse.into());
        let user = OwnUser::now();
        let is_own = |socket: &NamedSocket| is_owned_by(user, socket);
        let mut attempts = 0;
        let bound = loop {
            let Some(mut taken) = self.list_all(name) else {
                return names::bind(socket, name);
            };
            taken.retain(|socket| base(&socket.name) == name);
            if attempts == MAX_ATTEMPTS || taken.iter().any(is_own) {
                return in_use();
            }
            let taken: HashSet<String> = taken.into_iter().map(|socket| socket.name).collect();
            let Some(free) = spellings(name).find(|name| !taken.contains(name)) else {
                return in_use();
            };
            match names::bind(socket, &free) {
                Ok(()) => break free,
                // Another process has taken it meanwhile.
                Err(error) if error.kind() == ErrorKind::AddrInUse => attempts += 1,
                Err(error) => return Err(error),
            }
        };
        // If the other user has just given up a name, another process may have taken that one. Each
        // process takes its own name before it looks for others, so at least one sees the other.
        let is_other = |taken: &String| base(taken) == name && *taken != bound;
        let after = self.list(name).unwrap_or_default();
        match after.iter().any(is_other) {
            true => in_use(),
            false => Ok(()),
        }
    }

    /// Takes the name, or a variant, without listening at it.
    pub(super) fn hold(&self, name: &str) -> io::Result<OwnedFd> {
        let socket = names::unbound()?;
        self.bind(&socket, name)?;
        Ok(socket.into())
    }

    /// Takes the name, or a variant, so that other processes can connect to it.
    pub(super) fn listen(&self, name: &str) -> io::Result<UnixListener> {
        const BACKLOG: i32 = 128;
        let socket = names::unbound()?;
        self.bind(&socket, name)?;
        socket.listen(BACKLOG)?;
        Ok(OwnedFd::from(socket).into())
    }

    /// The variants that processes of this user have now.
    pub(super) fn variants(&self) -> Variants {
        let mut names = self.list(names::PREFIX).unwrap_or_default();
        names.retain(|name| name.contains(SEPARATOR));
        Variants(names)
    }
}

/// Variants of names that processes of this user have.
#[derive(Clone, Debug, Default)]
pub(super) struct Variants(Vec<String>);

impl Variants {
    /// The variant of the name that is taken, if one is.
    pub(super) fn of(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|variant| base(variant) == name)
            .map(String::as_str)
    }

    /// Connects to the process that listens at a variant of the name; without a variant, at the
    /// name itself, where it may be a process of another user.
    ///
    /// # Errors
    /// See [`names::connect`].
    pub(super) fn connect(&self, name: &str) -> io::Result<UnixStream> {
        names::connect(self.of(name).unwrap_or(name))
    }
}

/// Takes a name to which this process has the only right, or a variant if another user has it. Does
/// not listen.
pub(super) fn hold_exclusive(name: &str) -> io::Result<OwnedFd> {
    match names::hold(name) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => OwnedNames::new().hold(name),
        result => result,
    }
}

fn is_owned_by(user: OwnUser, socket: &NamedSocket) -> bool {
    socket.uid.is_none_or(|uid| user.is(uid))
}

/// The name of which this is a variant, or the name itself.
pub(super) fn base(name: &str) -> &str {
    name.split_once(SEPARATOR).map_or(name, |(base, _)| base)
}

/// The name and its variants.
fn spellings(name: &str) -> impl Iterator<Item = String> {
    let variants = (1_u32..).map(move |number| format!("{name}{SEPARATOR}{number}"));
    std::iter::once(name.to_owned()).chain(variants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_and_is_free_again() {
        let name = format!("{}/owned/{}", names::PREFIX, std::process::id());
        let owned = OwnedNames::new();
        let first = owned.hold(&name).expect("free");
        let second = owned.hold(&name).expect_err("taken");
        assert_eq!(second.kind(), ErrorKind::AddrInUse);
        drop(first);
        owned.listen(&name).expect("free again");
    }

    #[test]
    fn a_variant_counts_as_the_name() {
        let name = format!("{}/variant/{}", names::PREFIX, std::process::id());
        let owned = OwnedNames::new();
        assert_eq!(owned.variants().of(&name), None);
        let taken = names::hold(&format!("{name}{SEPARATOR}7")).expect("free");
        let error = owned.hold(&name).expect_err("a variant is taken");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let found = owned.variants();
        assert_eq!(found.of(&name).map(base), Some(&*name));
        drop(taken);
        owned.hold(&name).expect("free again");
    }
}
