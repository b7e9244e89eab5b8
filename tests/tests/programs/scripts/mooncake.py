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


def publish(name, content):
    with open(name + ".part", "w") as file:
        file.write(content)
    os.rename(name + ".part", name)


def published(name):
    while not os.path.exists(name):
        pass
    with open(name) as file:
        return file.read()


engine = TransferEngine()
assert engine.initialize(host, "P2PHANDSHAKE", "rdma", "roce_lo") == 0
memory = ctypes.create_string_buffer(BYTES)
address = ctypes.addressof(memory)
assert engine.register_memory(address, BYTES) == 0

if role == "initiator":
    where, remote = published("target").split()
    memory.raw = pattern()
    assert engine.transfer_sync_write(where, address, int(remote), BYTES) == 0, "the write fails"
    ctypes.memset(address, 0, BYTES)
    assert engine.transfer_sync_read(where, address, int(remote), BYTES) == 0, "the read fails"
    assert memory.raw == pattern(), "the read brings other bytes"
    publish("done", "")
    published("compared")
else:
    publish("target", f"{host}:{engine.get_rpc_port()} {address}")
    published("done")
    assert memory.raw == pattern(), "the write put other bytes"
    publish("compared", "")
print(f"{role}: all bytes are right", flush=True)
# The engine's threads do not always end with the interpreter.
os._exit(0)
