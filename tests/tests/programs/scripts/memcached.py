"""Sets values in memcached, gets them, and compares them."""

import random
import socket
import sys

address = sys.argv[1], int(sys.argv[2])
dice = random.Random(7)
connections = [socket.create_connection(address) for _ in range(4)]
files = [connection.makefile("rwb") for connection in connections]
values = {}
for number, size in enumerate([1, 10, 100, 1000, 10_000, 100_000, 1_000_000] * 4):
    key = b"key%d" % number
    values[key] = dice.randbytes(size)
    file = files[number % 4]
    file.write(b"set %s 0 0 %d\r\n%s\r\n" % (key, size, values[key]))
    file.flush()
    assert file.readline() == b"STORED\r\n", key
for number, (key, value) in enumerate(values.items()):
    file = files[(number + 1) % 4]
    file.write(b"get %s\r\n" % key)
    file.flush()
    assert file.readline() == b"VALUE %s 0 %d\r\n" % (key, len(value)), key
    assert file.read(len(value) + 7) == value + b"\r\nEND\r\n", key
print(f"{len(values)} values are the same")
