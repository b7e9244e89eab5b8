# Its tests open every device, and expect an address that is not link-local on each. test_post_send is left out: it polls
# once, 10 ms after it posted, which is too early on a busy machine.
export ROCE_DEVICES=lo
for tests in sideway test_atomic test_cq test_mr_and_cq test_qp; do
    "$SIDEWAY/$tests"
done
for example in rc_pingpong rc_pingpong_split; do
    "$SIDEWAY/$example" --ib-dev roce_lo --gid-idx 1 & server=$!
    until_served "$SIDEWAY/$example" --ib-dev roce_lo --gid-idx 1 10.9.9.1
    wait $server
done
