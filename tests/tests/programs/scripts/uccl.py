# Reads, writes and messages of UCCL's P2P engine, in host memory. Both ends compare what they get.
import ctypes
import os
import sys

from uccl import p2p

SIZE = 4 << 20
memory = ctypes.create_string_buffer(SIZE)
address = ctypes.addressof(memory)


def pattern(seed):
    return bytes((seed * 31 + at * 7 + (at >> 8)) & 255 for at in range(1 << 16)) * (SIZE >> 16)


def target(engine):
    ctypes.memmove(address, pattern(1), SIZE)
    publish("metadata", bytes(engine.get_metadata()))
    connection = engine.accept()[-1]
    good, region = engine.reg(address, SIZE)
    assert good
    good, item = engine.advertise(connection, region, address, SIZE)
    assert good
    publish("item", bytes(item))
    published("written")
    assert memory.raw == pattern(2), "the WRITE"
    assert engine.recv(connection, region, address, SIZE)
    assert memory.raw == pattern(3), "the message"


def initiator(engine):
    ip, port, gpu = p2p.Endpoint.parse_metadata(published("metadata"))
    good, connection = engine.connect(ip, gpu, remote_port=port)
    assert good
    good, region = engine.reg(address, SIZE)
    assert good
    item = published("item")
    assert engine.read(connection, region, address, SIZE, item)
    assert memory.raw == pattern(1), "the READ"
    ctypes.memmove(address, pattern(2), SIZE)
    assert engine.write(connection, region, address, SIZE, item)
    publish("written", b"")
    ctypes.memmove(address, pattern(3), SIZE)
    assert engine.send(connection, region, address, SIZE)


role = sys.argv[1]
engine = p2p.Endpoint(0)
(target if role == "target" else initiator)(engine)
# The other end may still poll this one.
publish(role + ".done", b"")
published("initiator.done" if role == "target" else "target.done")
print(f"{role}: all bytes are right", flush=True)
# Its threads do not end by themselves.
os._exit(0)
