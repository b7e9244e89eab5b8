# DiSNI's own examples, and its benchmark of READs, each in two processes of Java.
export CLASSPATH=$DISNI/classes:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar:/usr/share/java/commons-cli.jar
run() {
    name=$1
    shift
    java -Xmx256m --add-exports java.base/sun.nio.ch=ALL-UNNAMED -Djava.library.path="$DISNI" "com.ibm.disni.$name" \
        -a 10.9.9.1 "$@"
}
# A client that connects before its server listens fails.
both() {
    run "$1Server" "${@:2}" >server.log & server=$!
    until grep -q -E 'bound to|loop' server.log; do kill -0 $server; done
    until_served run "$1Client" "${@:2}" | tee client.log
    wait $server
    cat server.log
}
both examples.Read
key=$(sed -n 's/.*information, .*, key \([0-9-]*\)$/\1/p' client.log)
grep -q "from server: This is a RDMA/read on stag $key !" <(tail -n 3 client.log) && echo the text that was read is right
both examples.SendRecv
both benchmarks.Read -s 1000000 -k 16
