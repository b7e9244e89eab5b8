//! Equal paths between leaves.
