# Messages of one packet and of many, to several servers, with packets that eRPC drops itself in the last test. Each test is
# tried up to five times, because it allows only 200 ms for some steps, which is too little on a busy machine.
for tests in small_msg large_msg packet_loss; do
    for try in 1 2 3 4 5; do
        if LD_PRELOAD=$NO_HUGE_PAGES${LD_PRELOAD:+:$LD_PRELOAD} "$ERPC/${tests}_test" >"$tests.log" 2>&1; then
            echo "${tests}_test: passed at try $try"
            break
        fi
        tail -5 "$tests.log"
    done
done
