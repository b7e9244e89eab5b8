# What scripts have in common. Servers run in the background, and their number is in `server`.

# Waits until somebody listens at a TCP port. Fails once the server is gone.
listening() {
    until ss -Hltn "sport = :$1" | grep -q .; do
        kill -0 "$server"
    done
}

# Repeats a client until it succeeds, for servers of which nobody outside sees whether they
# listen. Fails once the server is gone.
until_served() {
    until "$@"; do
        kill -0 "$server"
    done
}
