# Runs one scene: two hosts, each a network namespace, with a link or a router between them, and a program
# on each. It runs as root of namespaces of its own, even for an ordinary user.
#
# The client's host is this namespace, with the interface v0 and the addresses 10.9.0.1 and 10.8.0.1.
# The server's has v1, 10.9.0.2 and 10.8.0.2. Programs exchange QP numbers over 10.8.0.0/24, and their QPs
# use 10.9.0.0/24, so that a scene can break the one without the other. With ROUTED=1, the addresses
# are 10.9.0.1 and 10.9.1.2, and a third namespace routes between r0 and r1.
set -e
export PATH="$OUT/bin:$PATH"
mkdir "$OUT/bin"
# What users type as `roce`. No scene takes as long as the limit.
cat > "$OUT/bin/roce" <<'END'
#!/bin/sh
command=$1
shift
exec timeout --foreground -s INT -k 2 "${PATIENCE:-80}" "$ROCE" $command $OPTIONS --library "$LIBRARY" "$@"
END
chmod 755 "$OUT/bin/roce"

# Makes a host that lives until this shell opens its pipe and closes it. Its name is $1.
holders=
host() {
    mkfifo "$OUT/hold.$1"
    setpriv --pdeathsig KILL unshare --net sh -c \
        'echo $$ > "$OUT/new.$0" && mv "$OUT/new.$0" "$OUT/host.$0"; exec cat "$OUT/hold.$0"' "$1" &
    holders="$holders $!"
    until [ -e "$OUT/host.$1" ]; do kill -0 $!; done
}
inside() { echo "nsenter --net=/proc/$(cat "$OUT/host.$1")/ns/net"; }
# The kernel may take a second to notice that a link works.
is_up() { until ip link show "$1" | grep -q 'state UP'; do :; done; }

# A link between an interface of this host and one of another, without addresses that appear later and
# shift the indices of GIDs.
link() {
    far_pid=$(cat "$OUT/host.$3")
    $1 ip link add "$2" mtu 9000 type veth peer name "$4" mtu 9000 netns "$far_pid"
    $1 ip link set "$2" addrgenmode none
    $(inside "$3") ip link set "$4" addrgenmode none
}

ip link set lo up
host far
far=$(inside far)
$far ip link set lo up
if [ -n "$ROUTED" ]; then
    host router
    router=$(inside router)
    link '' v0 router r0
    # Written to the router's namespace, where the second link begins.
    link "$router" r1 far v1
    ip address add 10.9.0.1/24 dev v0
    $far ip address add 10.9.1.2/24 dev v1
    $router ip address add 10.9.0.254/24 dev r0
    $router ip address add 10.9.1.254/24 dev r1
    $router sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
    $router ip link set lo up
    $router ip link set r0 up
    $router ip link set r1 up
else
    link '' v0 far v1
    ip address add 10.9.0.1/24 dev v0
    ip address add 10.8.0.1/24 dev v0
    ip address add fd09::1/64 dev v0 nodad
    $far ip address add 10.9.0.2/24 dev v1
    $far ip address add 10.8.0.2/24 dev v1
    $far ip address add fd09::2/64 dev v1 nodad
fi
$far ip link set v1 up
ip link set v0 up
is_up v0
until $far ip link show v1 | grep -q 'state UP'; do :; done
if [ -n "$ROUTED" ]; then
    ip route add default via 10.9.0.254
    $far ip route add default via 10.9.1.254
fi

# A firewall's rule, at a host, for the packets that come in, go out or are forwarded.
rule() {
    at=$1 hook=$2
    shift 2
    $at nft add table ip t
    $at nft add chain ip t "$hook" "{ type filter hook $hook priority 0; }"
    $at nft add rule ip t "$hook" "$@"
}
# Until the server listens at a TCP port.
listens() {
    port=$(printf ':%04X ' "$1")
    until $far cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -q "$port"; do kill -0 $server; done
}
# Until the server's device receives packets.
opened() { until $far grep -q ':12B7 ' /proc/net/udp; do kill -0 $server; done; }
received() { $far awk '/v1:/ { print $3 }' /proc/net/dev; }
# Runs a command once the QPs exchange packets, and the server has acknowledged some of the client's.
when_busy() {
    {
        until [ "$(received)" -gt 1000 ] && counted acks_received ""; do kill -0 $server; done
        until eval "$@"; do kill -0 $server; done
    } > "$OUT/when" 2>&1 &
}
# What a shell starts is timeout, which starts roce, which starts the program.
program() { pgrep -P "$(pgrep -P "${1:-$server}")" 2> /dev/null; }
# Users give up when a command succeeds: $1. They press Ctrl-C at both ends, or do what $2 says. A program
# that ends because its peer did may end before `roce why` has looked at it: then, $2 ends only one.
give_up() {
    {
        until [ -s "$OUT/client.pid" ]; do kill -0 $$; done
        client=$(cat "$OUT/client.pid")
        until eval "$1"; do kill -0 "$client"; done
        eval "${2:-kill -INT $server $client}"
    } > "$OUT/when" 2>&1 &
}
# Whether a device of the server has counted something. Its name is $1. With $2 empty, of the client.
counted() { ${2-$far} "$ROCE" top --once --json --interval 0.1 | grep -Eq "\"$1\":[1-9]|\"reason\":\"$1\""; }
# Whether the client has reported something, and its program has said $1.
reported() { grep -q "  code  " "$OUT/client.err" && grep -q "$1" "$OUT/client.err"; }

cd "$OUT"
# Without a server, what waits for one waits for this shell.
server=$$
eval "$BEFORE"
if [ -n "$SERVER" ]; then
    setpriv --pdeathsig KILL $far sh -c "exec env $SERVER" > "$OUT/server.out" 2> "$OUT/server.err" &
    server=$!
    eval "$READY"
fi
eval "$BREAKS"
eval "$GIVES_UP"
sh -c "echo \$\$ > client.pid; exec env $CLIENT" > "$OUT/client.out" 2> "$OUT/client.err" || echo $? > "$OUT/client.code"
eval "$ENDS" 2> /dev/null || true
[ -z "$SERVER" ] || wait $server || echo $? > "$OUT/server.code"
for each in "$OUT"/hold.*; do
    exec 3> "$each"
    exec 3>&-
done
wait $holders
