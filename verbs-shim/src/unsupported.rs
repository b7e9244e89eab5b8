//! The unsupported functions. Each fails with `EOPNOTSUPP`.

use crate::prelude::*;

/// One Rust function is exported under the names of many.
const LACKING: &str = "a function that this library lacks";

/// For functions that return an error number.
pub(crate) extern "C" fn errno() -> c_int {
    guard::errno(LACKING, || Err(Errno::EOPNOTSUPP))
}

/// For functions that return -1 on failure, and those that return nothing.
pub(crate) extern "C" fn minus_one() -> c_int {
    guard::minus_one(LACKING, || Err(Errno::EOPNOTSUPP))
}

/// As [`minus_one`], for functions that return a length.
pub(crate) extern "C" fn minus_one_wide() -> isize {
    guard::value(LACKING, -1, || Err(Errno::EOPNOTSUPP))
}

/// For functions that return an object, a number that may be 0, or nothing.
pub(crate) extern "C" fn null() -> *mut c_void {
    guard::pointer(LACKING, || Err(Errno::EOPNOTSUPP))
}
