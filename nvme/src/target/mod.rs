//! The target: offers namespaces in files or in memory.
