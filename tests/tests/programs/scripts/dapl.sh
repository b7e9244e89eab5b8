# Sends, writes and reads, checked by the test program, through the provider that uses the
# connection manager. Its device is an interface, which can not be loopback.
echo 'cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "near 0" ""' >dat.conf
export DAT_OVERRIDE=$PWD/dat.conf
dtest -P cma -b 65536 -B 20 -s & server=$!
until_served dtest -P cma -b 65536 -B 20 -h 10.9.8.1
wait $server
