//! Captures made in the test, and what is printed of them.
