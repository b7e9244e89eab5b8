"""Writes to the memory of another process and reads it back, by Mooncake's transfer engine."""

import ctypes
import os
import sys

from mooncake.engine import TransferEngine

BYTES = 8 << 20
role = sys.argv[1]
host = {"initiator": "10.9.9.2", "target": "10.9.9.1"}[role]


def pattern():
    return bytes(i * 7 % 251 for i in range(BYTES))


engine = TransferEngine()
assert engine.initialize(host, "P2PHANDSHAKE", "rdma", "roce_lo") == 0
memory = ctypes.create_string_buffer(BYTES)
address = ctypes.addressof(memory)
assert engine.register_memory(address, BYTES) == 0

if role == "initiator":
    where, remote = published("target").decode().split()
    memory.raw = pattern()
    assert engine.transfer_sync_write(where, address, int(remote), BYTES) == 0, "the write fails"
    ctypes.memset(address, 0, BYTES)
    assert engine.transfer_sync_read(where, address, int(remote), BYTES) == 0, "the read fails"
    assert memory.raw == pattern(), "the read brings other bytes"
    publish("done", b"")
    published("compared")
else:
    publish("target", f"{host}:{engine.get_rpc_port()} {address}".encode())
    published("done")
    assert memory.raw == pattern(), "the write put other bytes"
    publish("compared", b"")
print(f"{role}: all bytes are right", flush=True)
# The engine's threads do not always end with the interpreter.
os._exit(0)
