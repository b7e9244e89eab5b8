# Datagrams in all ways of waiting, over IPv4 and IPv6, in one packet and longer than one. The cable
# has an MTU of 9000, and loopback one of 65,536, so a packet carries any datagram there.
bound() {
    until ss -Hlun "sport = :$1" | grep -q .; do
        kill -0 "$server"
    done
}
client() {
    echo "== $*"
    udpong "$@" -C 100
}
port=7200
for waiting in a b n; do
    port=$((port + 1))
    udpong -b 10.9.9.1 -p "$port" -T "$waiting" & server=$!
    bound "$port"
    client -s 10.9.9.1 -p "$port" -T "$waiting" -S 2000
    client -s 10.9.9.1 -p "$port" -T "$waiting" -T e -S 512
    kill "$server"
done
udpong -b ::1 -T a & server=$!
bound 7174
client -s ::1 -T b -S 2000
client -s ::1 -T a -T e -S 16
kill "$server"
udpong -b 0.0.0.0 -p 8000 -T a & server=$!
bound 8000
for address in 127.0.0.1 10.9.9.2 10.9.8.1; do
    client -s $address -p 8000 -T e -S 1024
done
kill "$server"
