use super::public_api;
use crate::Tree;
use std::fs;

/// The listing of a crate with one file.
fn listing(source: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("lib.rs");
    fs::write(&root, source).expect("written");
    let tree = Tree::read(&root).unwrap_or_else(|error| panic!("{error}"));
    public_api(&tree)
}

/// The lines that only the first crate has, and those that only the second one has.
fn change(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
    let [mut before, mut after] = [before, after].map(listing);
    let kept = before.clone();
    before.retain(|line| !after.contains(line));
    after.retain(|line| !kept.contains(line));
    (before, after)
}

fn lines(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[test]
fn an_added_method_is_a_line() {
    let found = change(
        "pub struct A; impl A { fn hidden(&self) {} pub(crate) fn inner(&self) {} }",
        "pub struct A; impl A { fn hidden(&self) {} pub const fn get(&self, at: usize) -> Option<&'_ [u8]> {} }",
    );
    let added = "pub const fn A::get(&self, at: usize) -> Option<&'_ [u8]>";
    assert_eq!(found, (vec![], lines(&[added])));
}

#[test]
fn a_removed_variant_is_a_line() {
    let found = change(
        "pub enum E { One, Two(u8, Vec<u8>), Three { a: u8 } }",
        "pub enum E { One }",
    );
    let removed = ["E::Three { a: u8 }", "E::Two(u8, Vec<u8>)"];
    assert_eq!(found, (lines(&removed), vec![]));
}

#[test]
fn a_changed_signature_is_a_line() {
    let found = change(
        "pub fn f<T: Copy>(mut a: T, b: u8) -> u8 where T: Send { 0 }",
        "pub fn f<T: Copy>(\n    a: T,\n    b: u16,\n) -> u8\nwhere\n    T: Send,\n{ 1 }",
    );
    let removed = "pub fn f<T: Copy>(a: T, b: u8) -> u8 where T: Send";
    let added = "pub fn f<T: Copy>(a: T, b: u16) -> u8 where T: Send";
    assert_eq!(found, (lines(&[removed]), lines(&[added])));
}

#[test]
fn other_layout_words_and_bodies_are_no_change() {
    let found = change(
        "/// One.\npub fn f(a: u8) -> u8 { a }\n#[inline] pub fn g() {}",
        "/// Two.\npub fn f(\n    mut a: u8,\n) -> u8 { a += 1; a }\npub fn g() { f(1); }",
    );
    assert_eq!(found, (vec![], vec![]));
}

#[test]
fn what_users_cannot_reach_is_not_listed() {
    let found = listing(
        "mod private {
             pub struct Hidden;
             pub struct Shown { pub a: u8, b: u8 }
             impl Hidden { pub fn f(&self) {} }
             impl Shown { pub fn g(&self) {} }
             impl From<Hidden> for Shown {}
             pub trait Sealed {}
             impl Sealed for Shown {}
         }
         pub use private::Shown;
         pub(crate) use private::Hidden;
         pub(crate) fn f() {}
         #[cfg(test)] pub fn for_tests() {}
         #[cfg(any(test, fuzzing))] pub fn for_fuzz_targets() {}",
    );
    let expected = [
        "pub struct Shown { .. }",
        "pub Shown::a: u8",
        "pub fn Shown::g(&self)",
    ];
    assert_eq!(found, lines(&expected));
}

#[test]
fn an_item_has_one_home_and_its_other_paths_lead_there() {
    let found = listing(
        "pub mod b { pub struct B; pub use super::a::A; pub use std::io::Error as IoError; }
         mod a { pub struct A; pub struct C; }
         pub mod all { pub use crate::b::*; pub use crate::a::C as D; pub use std::fmt::*; }
         pub use all::B;",
    );
    let expected = [
        "pub use b::B as B",
        "pub mod all",
        "pub use std::fmt::* as all::*",
        "pub struct all::A",
        "pub use b::B as all::B",
        "pub struct all::D",
        "pub use std::io::Error as all::IoError",
        "pub mod b",
        "pub use all::A as b::A",
        "pub struct b::B",
        "pub use std::io::Error as b::IoError",
    ];
    assert_eq!(found, lines(&expected));
}

#[test]
fn traits_and_implementations_are_listed() {
    let found = listing(
        "#[derive(Clone, Debug)] #[non_exhaustive] pub struct S<'a, T>(pub &'a mut T, u8);
         impl<'a, T: Send> S<'a, T> { pub const N: usize = 1; }
         impl<T> Iterator for S<'_, T> { type Item = Vec<T>; fn next(&mut self) -> Option<Vec<T>> {} }
         impl<'b, T> IntoIterator for &'b S<'_, T> {}
         pub unsafe trait R: Send { const C: u8; type X: Copy; fn must(&self); fn may(self) -> bool { true } }
         #[repr(u8)] pub enum E { #[deprecated] A = 3 }
         pub type P = *const [u8; 4];",
    );
    let expected = [
        "#[repr(u8)] pub enum E",
        "#[deprecated] E::A = 3",
        "pub type P = *const [u8; 4]",
        "pub unsafe trait R: Send",
        "const R::C: u8",
        "type R::X: Copy",
        "fn R::may(self) -> bool { .. }",
        "fn R::must(&self)",
        "#[non_exhaustive] pub struct S<'a, T> { .. }",
        "impl Clone for S",
        "impl Debug for S",
        "impl<'b, T> IntoIterator for &'b S<'_, T>",
        "impl<T> Iterator for S<'_, T> type Item = Vec<T>;",
        "pub S::0: &'a mut T",
        "pub const S::N: usize in impl<'a, T: Send> S<'a, T>",
    ];
    assert_eq!(found, lines(&expected));
}

#[test]
fn what_macros_generate_is_shown_by_their_arguments() {
    let found = listing(
        "mod m {
             macro_rules! labelled { ($n:ident { $($v:ident),* }) => { pub enum $n { $($v),* } } }
             labelled! { /// Its documentation.
                         Stat { Sent = \"sent\", Lost = \"lost\" } }
             labelled! { Private { A } }
             bitflags! { #[derive(Clone)] pub struct Flags: u32 { const A = 1; const B = 2; } }
             pub struct Header;
             macro_rules! header { ($t:ident, $len:literal) => { impl $t { pub const LEN: usize = $len; } } }
             header!(Header, 4);
             thread_local! { static X: u8 = 1; }
         }
         pub use m::{Flags, Header, Stat};
         #[macro_export] macro_rules! exported { () => {} }",
    );
    let expected = [
        "Flags::bitflags! #[derive(Clone)] pub struct Flags: u32",
        "Flags::bitflags! const A = 1",
        "Flags::bitflags! const B = 2",
        "pub struct Header",
        "Header::header! Header, 4",
        "Stat::labelled! Lost = \"lost\"",
        "Stat::labelled! Sent = \"sent\"",
        "Stat::labelled! Stat",
        "macro exported!",
    ];
    assert_eq!(found, lines(&expected));
}
