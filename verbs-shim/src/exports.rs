//! The exported symbols. `symbols.txt` lists them, and build.rs makes an `export!` of each.

#[cfg(not(test))]
use std::arch::global_asm;

#[cfg(all(target_arch = "x86_64", not(test)))]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}

#[cfg(all(target_arch = "aarch64", not(test)))]
macro_rules! jump {
    () => {
        "b {function}"
    };
}

/// Rust does not support symbol versions, so each symbol is an assembler label in the form that
/// linkers recognise: `name@@VERSION` for the default version, `name@VERSION` for another one.
#[cfg(not(test))]
macro_rules! export {
    ($symbol:literal, $function:path) => {
        global_asm!(
            concat!(".globl \"", $symbol, "\""),
            concat!(".type \"", $symbol, "\", @function"),
            concat!("\"", $symbol, "\":"),
            jump!(),
            concat!(".size \"", $symbol, "\", . - \"", $symbol, "\""),
            function = sym $function,
        );
    };
}

/// The unit tests are linked without symbol versions, and export nothing.
#[cfg(test)]
macro_rules! export {
    ($symbol:literal, $function:path) => {
        const _: *const () = $function as *const ();
    };
}

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// Exports a variable of one byte that other code writes, under each of these symbols.
#[cfg(not(test))]
macro_rules! export_byte {
    ($($symbol:literal)*) => {
        global_asm!(
            ".pushsection \".bss.exports\", \"aw\", @nobits",
            $(
                concat!(".globl \"", $symbol, "\""),
                concat!(".type \"", $symbol, "\", @object"),
                concat!(".size \"", $symbol, "\", 1"),
                concat!("\"", $symbol, "\":"),
            )*
            ".zero 1",
            ".popsection",
        );
    };
}

// A flag that programs and drivers set. It allows objects of a removed device to be destroyed, which
// this library always does.
#[cfg(not(test))]
export_byte! {
    "verbs_allow_disassociate_destroy@@IBVERBS_PRIVATE_34"
    "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_33"
    "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_65"
}
