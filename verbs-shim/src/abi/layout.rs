//! C structures and constants, together with their C names.

/// The memory layout of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name in C.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Name and offset of each field, in bytes.
    pub fields: &'static [(&'static str, usize)],
}

/// A constant.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its name in C.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
}

/// The release of rdma-core whose header introduced an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Release 44 or an older one.
    V44,
    /// Release 56 or an older one.
    V56,
    /// Release 65 or an older one.
    V65,
}

/// Defines structures of C: `"name in C" => Name { fields as in C }`. A field with another name in
/// Rust is followed by its C name: `field as "name"`.
macro_rules! c_structs {
    ($($(#[$meta:meta])* $c:literal => $name:ident {
        $($field:ident $(as $c_field:literal)? : $ty:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub(crate) struct $name { $(pub(crate) $field: $ty,)* }
        )*

        pub(super) const LAYOUTS: &[$crate::abi::Layout] = &[$($crate::abi::Layout {
            name: $c,
            size: size_of::<$name>(),
            fields: &[$((
                $crate::abi::layout::c_name!($field $($c_field)?),
                std::mem::offset_of!($name, $field),
            ),)*],
        },)*];
    };
}

macro_rules! c_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $c_field:literal) => {
        $c_field
    };
}

/// Defines constants of C, whose names there have the prefix `IBV_` or the given one.
macro_rules! c_constants {
    ($list:ident: $($name:ident = $value:expr,)*) => {
        $crate::abi::layout::c_constants! { "IBV_" $list: $($name = $value,)* }
    };
    ($prefix:literal $list:ident: $($name:ident = $value:expr,)*) => {
        $(pub(crate) const $name: u32 = $value;)*

        pub(super) const $list: &[$crate::abi::Constant] = &[$($crate::abi::Constant {
            name: concat!($prefix, stringify!($name)),
            value: $name as u64,
        },)*];
    };
}

pub(super) use {c_constants, c_name, c_structs};
