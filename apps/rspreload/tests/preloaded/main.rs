//! Programs with the library preloaded, over a librdmacm whose rsockets are Unix-domain sockets: C
//! programs written for these tests, and unmodified third-party ones.

mod c;
mod programs;
mod run;
