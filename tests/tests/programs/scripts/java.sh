# A server and a client of the JDK, in two processes: bodies of several sizes are sent, and compared with what
# comes back. Java runs a single source file without a compiler.
printf '%s' "$PROGRAM" >Echo.java
java -Xmx256m Echo.java serve & server=$!
listening 8082
java -Xmx256m Echo.java ask
kill $server
