"""WRITEs of Mooncake's transfer engine, one after the other, each until it is complete."""

import ctypes
import os
import sys
import time

from mooncake.engine import TransferEngine

BYTES = 4 << 20
role = sys.argv[1]
host = {"initiator": "10.9.9.2", "target": "10.9.9.1"}[role]

engine = TransferEngine()
assert engine.initialize(host, "P2PHANDSHAKE", os.environ["PROTOCOL"], os.environ["DEVICE"]) == 0
memory = ctypes.create_string_buffer(BYTES)
address = ctypes.addressof(memory)
assert engine.register_memory(address, BYTES) == 0


def seconds_of_a_write(where, remote, size, count):
    for number in range(-count // 10, count):
        if number == 0:
            start = time.perf_counter()
        assert engine.transfer_sync_write(where, address, remote, size) == 0, "a write fails"
    return (time.perf_counter() - start) / count


if role == "initiator":
    where, remote = published("target").decode().split()
    print("latency-us", 1e6 * seconds_of_a_write(where, int(remote), 8, 1000))
    print("medium-MB/s", 65536 / 1e6 / seconds_of_a_write(where, int(remote), 65536, 1000))
    print("large-MB/s", BYTES / 4e6 / seconds_of_a_write(where, int(remote), BYTES // 4, 200), flush=True)
    publish("done", b"")
else:
    publish("target", f"{host}:{engine.get_rpc_port()} {address}".encode())
    published("done")
# The engine's threads do not always end with the interpreter.
os._exit(0)
