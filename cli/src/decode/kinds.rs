//! Enums whose variants have names.

/// Defines an enum. Each variant has a name in JSON, and one in text.
macro_rules! named_kinds {
    ($(#[$attribute:meta])* $kind:ident: $($variant:ident $json:literal $title:literal;)*) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::decode) enum $kind {
            $($variant),*
        }

        #[allow(dead_code, reason = "not every enum needs all")]
        impl $kind {
            /// Every kind.
            pub(in crate::decode) const ALL: [$kind; [$($json),*].len()] = [$($kind::$variant),*];

            /// The names of all kinds, in JSON and in text.
            pub(in crate::decode) const NAMES: [(&'static str, &'static str); [$($json),*].len()] =
                [$(($json, $title)),*];

            /// Its name in JSON.
            pub(in crate::decode) fn name(self) -> &'static str {
                Self::NAMES[self as usize].0
            }

            /// Its name in text.
            pub(in crate::decode) fn title(self) -> &'static str {
                Self::NAMES[self as usize].1
            }
        }
    };
}

pub(in crate::decode) use named_kinds;
