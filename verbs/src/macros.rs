//! Implementations that several types repeat.

/// `Debug` writes the message, too: programs that use `unwrap`, or return an error from `main`, print
/// that.
macro_rules! debug_as_display {
    ($error:ident) => {
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// Converts the errors that variants wrap.
macro_rules! from_causes {
    ($error:ident: $($variant:ident($cause:ty)),* $(,)?) => {$(
        impl From<$cause> for $error {
            fn from(error: $cause) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

/// `Debug` with these fields only.
macro_rules! debug_fields {
    ($name:ident $($field:ident)*) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
