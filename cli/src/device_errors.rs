//! Conversions of the errors of a device.

/// Makes `?` work on the errors of `roce_verbs`, whose text is complete:
/// `device_errors!(error: MyError => MyError::new(error.to_string()))`.
macro_rules! device_errors {
    ($error:ident: $into:ty => $convert:expr) => {
        $crate::device_errors::device_errors!(
            $error: $into => $convert;
            roce_verbs::device::OpenError,
            roce_verbs::qp::ConnectError,
            roce_verbs::qp::QpError,
            roce_verbs::memory::RegionError,
            roce_verbs::memory::BufferRangeError,
            roce_verbs::work::PostError,
            roce_verbs::completion::CqOverrun
        );
    };
    ($error:ident: $into:ty => $convert:expr; $from:ty) => {
        impl From<$from> for $into {
            fn from($error: $from) -> Self {
                $convert
            }
        }
    };
    ($error:ident: $into:ty => $convert:expr; $first:ty, $($rest:ty),+) => {
        $crate::device_errors::device_errors!($error: $into => $convert; $first);
        $crate::device_errors::device_errors!($error: $into => $convert; $($rest),+);
    };
}

pub(crate) use device_errors;
