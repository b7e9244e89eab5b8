/// Undoes what a shell does to a command with `&`, and `nohup`: they start it with signals ignored, which the programs
/// that a test starts inherit. A shell can't even trap such a signal. Changes the calling process, not only the next
/// child.
pub fn heed_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        // SAFETY: the default action needs nothing of this process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
