"""Writes to the memory of another process and reads it back, by NIXL over UCX."""

import ctypes
import os
import sys

from nixl_cu12._api import nixl_agent, nixl_agent_config

BYTES = 4 << 20
role = sys.argv[1]
peer_role = {"initiator": "target", "target": "initiator"}[role]


def pattern():
    return bytes(i * 7 % 251 for i in range(BYTES))


agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
memory = ctypes.create_string_buffer(BYTES)
address = ctypes.addressof(memory)
assert agent.register_memory([(address, BYTES, 0, "")], "DRAM")
publish(role, address.to_bytes(8, "little") + agent.get_agent_metadata())
theirs = published(peer_role)
peer = agent.add_remote_agent(theirs[8:])
peer = peer.decode() if isinstance(peer, bytes) else peer

if role == "initiator":
    memory.raw = pattern()
    here = agent.get_xfer_descs([(address, BYTES, 0)], "DRAM")
    there = agent.get_xfer_descs([(int.from_bytes(theirs[:8], "little"), BYTES, 0)], "DRAM")
    for operation in ("WRITE", "READ"):
        if operation == "READ":
            ctypes.memset(address, 0, BYTES)
        transfer = agent.initialize_xfer(operation, here, there, peer, operation.encode())
        state = agent.transfer(transfer)
        while state == "PROC":
            state = agent.check_xfer_state(transfer)
        assert state == "DONE", f"{operation}: {state}"
        agent.release_xfer_handle(transfer)
    assert memory.raw == pattern(), "the READ brings other bytes"
    publish("done", b"")
else:
    notes = []
    while len(notes) < 2:
        for some in agent.get_new_notifs().values():
            notes += some
    published("done")
    assert memory.raw == pattern(), "the WRITE put other bytes"
print(f"{role}: all bytes are right", flush=True)
# The library's threads do not always end with the interpreter.
os._exit(0)
