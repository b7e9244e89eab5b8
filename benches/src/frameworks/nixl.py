"""WRITEs of NIXL over UCX, one after the other, each until it is complete."""

import ctypes
import os
import sys
import time

from nixl_cu12._api import nixl_agent, nixl_agent_config

BYTES = 1 << 20
role = sys.argv[1]

agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
memory = ctypes.create_string_buffer(BYTES)
address = ctypes.addressof(memory)
assert agent.register_memory([(address, BYTES, 0, "")], "DRAM")


def seconds_of_a_write(peer, remote, size, count):
    here = agent.get_xfer_descs([(address, size, 0)], "DRAM")
    there = agent.get_xfer_descs([(remote, size, 0)], "DRAM")
    transfer = agent.initialize_xfer("WRITE", here, there, peer)
    for number in range(-count // 10, count):
        if number == 0:
            start = time.perf_counter()
        state = agent.transfer(transfer)
        while state == "PROC":
            state = agent.check_xfer_state(transfer)
        assert state == "DONE", state
    return (time.perf_counter() - start) / count


if role == "initiator":
    remote, metadata = published("target").split(b" ", 1)
    agent.add_remote_agent(metadata)
    print("latency-us", 1e6 * seconds_of_a_write("target", int(remote), 8, 5000))
    print("medium-MB/s", 65536 / 1e6 / seconds_of_a_write("target", int(remote), 65536, 2000))
    print("large-MB/s", BYTES / 1e6 / seconds_of_a_write("target", int(remote), BYTES, 500), flush=True)
    publish("done", b"")
else:
    publish("target", f"{address} ".encode() + agent.get_agent_metadata())
    published("done")
# The library's threads do not always end with the interpreter.
os._exit(0)
