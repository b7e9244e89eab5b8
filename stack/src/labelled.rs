//! Enums of names: each variant has a label, and a list holds all of them.

/// Defines an enum with `ALL`, which contains every variant, and `label`.
///
/// A table over such an enum in another crate cannot match it exhaustively, because the enum is
/// `non_exhaustive`. A test of the table iterates over `ALL` instead.
macro_rules! labelled {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in a fixed order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in tables and metrics.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

pub(crate) use labelled;
