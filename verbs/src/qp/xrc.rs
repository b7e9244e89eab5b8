//! XRC: extended reliable connections (IBTA 1.7, annex A14).

use super::QueuePair;
use crate::context::Context;
use crate::error::QpError;
use nix::errno::Errno;
use parking_lot::Mutex;
use roce_stack::XrcdId;
use std::collections::HashMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// An XRC domain. It ties XRC targets to the shared receive queues that their peers may name. Cheap
/// to clone. The domain is closed when the last clone and all its targets and queues are dropped.
///
/// With XRC, one connection serves all receivers of a process or host. The initiator (a QP of kind
/// [`QpKind::XrcInitiator`](crate::QpKind)) names an SRQ in each request:
/// [`SendRequest::to`](crate::SendRequest::to). The target at the other end has no queues of its
/// own. A message completes to the CQ of its SRQ, and the peer has access to memory of the SRQ's
/// protection domain.
#[derive(Clone, Debug)]
pub struct XrcDomain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    id: XrcdId,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let destroyed = self.context.inner.shared.lock().nic.destroy_xrcd(self.id);
        debug_assert_eq!(destroyed, Ok(()), "its targets and SRQs keep it alive");
    }
}

impl Context {
    /// A new XRC domain.
    pub fn create_xrcd(&self) -> XrcDomain {
        let (context, id) = (self.clone(), self.inner.shared.lock().nic.create_xrcd());
        XrcDomain {
            inner: Arc::new(Inner { context, id }),
        }
    }
}

impl XrcDomain {
    pub(crate) fn id(&self) -> XrcdId {
        self.inner.id
    }

    pub(crate) fn context(&self) -> &Context {
        &self.inner.context
    }

    /// A QP in state RESET that receives for all SRQs of this domain.
    ///
    /// # Errors
    /// As for [`ProtectionDomain::create_qp`](crate::ProtectionDomain::create_qp).
    pub fn create_target(&self) -> Result<QueuePair, QpError> {
        QueuePair::xrc_target(self)
    }
}

/// The XRC domains of an open device that files identify. They last as long as this value. Other
/// processes do not share them, although files exist for that.
#[derive(Debug)]
pub struct XrcFiles {
    context: Context,
    /// By the file's device and inode.
    domains: Mutex<HashMap<(u64, u64), XrcDomain>>,
}

/// How a domain is opened, as `oflags` of `ibv_open_xrcd` says.
#[derive(Clone, Copy, Debug, Default)]
pub struct XrcFileOptions {
    /// Creates the domain if it does not exist (`O_CREAT`).
    pub creates: bool,
    /// Fails if the domain exists (`O_EXCL`).
    pub is_exclusive: bool,
}

impl XrcFiles {
    /// No domains yet.
    pub fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            domains: Mutex::default(),
        }
    }

    /// The domain that a file identifies; a domain of its own without a file.
    ///
    /// # Errors
    /// If the domain exists and must not, or the reverse; if the file can't be examined.
    pub fn open(
        &self,
        file: Option<BorrowedFd<'_>>,
        options: XrcFileOptions,
    ) -> Result<XrcDomain, XrcFileError> {
        let Some(file) = file else {
            return match options.creates {
                true => Ok(self.context.create_xrcd()),
                false => Err(XrcFileError::NoFile),
            };
        };
        let file = nix::sys::stat::fstat(file).map_err(XrcFileError::System)?;
        let mut domains = self.domains.lock();
        match domains.get(&(file.st_dev, file.st_ino)) {
            Some(_) if options.is_exclusive => Err(XrcFileError::Exists),
            Some(domain) => Ok(domain.clone()),
            None if !options.creates => Err(XrcFileError::NotOpen),
            None => {
                let domain = self.context.create_xrcd();
                domains.insert((file.st_dev, file.st_ino), domain.clone());
                Ok(domain)
            }
        }
    }
}

/// Why no XRC domain was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum XrcFileError {
    /// The domain may not be created, and no file identifies an existing one.
    NoFile,
    /// The file has a domain already.
    Exists,
    /// The file has no domain.
    NotOpen,
    /// The file can't be examined.
    System(Errno),
}

impl fmt::Display for XrcFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => write!(
                f,
                "fd is -1 and oflags lacks O_CREAT: a domain without a file is always a new one"
            ),
            Self::Exists => write!(
                f,
                "the file has an XRC domain already, and oflags has O_EXCL"
            ),
            Self::NotOpen => write!(f, "the file has no XRC domain, and oflags lacks O_CREAT"),
            Self::System(error) => write!(f, "fd can't be examined: {error}"),
        }
    }
}

debug_as_display!(XrcFileError);

impl std::error::Error for XrcFileError {}
