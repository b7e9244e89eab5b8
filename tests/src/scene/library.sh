# Functions for all scripts. Servers run in the background; `server` has the process ID.

# Waits until a process listens on a TCP port. Fails once the server is gone.
listening() {
    until ss -Hltn "sport = :$1" | grep -q .; do
        kill -0 "$server"
    done
}

# Repeats a client until it succeeds, for servers that do not show from outside whether they listen.
# Fails once the server is gone.
until_served() {
    until "$@"; do
        kill -0 "$server"
    done
}
