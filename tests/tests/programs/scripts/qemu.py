"""Migrates a guest from one QEMU to another over RDMA, and compares their memory.

The guest's processor stands still, and a debugger changes memory while the migration copies it. A running
processor would change it, too, but on a busy machine QEMU's emulation misses some of its changes: it posts no WRITE
for their pages, as its trace qemu_rdma_write_one_post shows.
"""

import json
import os
import random
import socket
import subprocess

MEGABYTES = 64
WHERE = "rdma:10.9.9.1:4444"
PAGE = 4096
# The debugger fills these pages first, and changes some of them later. Firmware is elsewhere.
FILLED = range(2 << 20, 6 << 20, PAGE)
SEED = int(os.environ.get("ROCE_SEED") or random.SystemRandom().getrandbits(32))
print(f"ROCE_SEED={SEED}", flush=True)
chance = random.Random(SEED)


class Machine:
    """A QEMU without devices, controlled over its QMP socket, and read and written as a debugger does."""

    def __init__(self, name, *options):
        qmp, its_qmp = socket.socketpair()
        debugger, its_debugger = socket.socketpair()
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-machine", "q35", "-m", str(MEGABYTES)]
            + ["-nodefaults", "-display", "none", "-S"]
            + ["-chardev", f"socket,id=qmp,fd={its_qmp.fileno()}", "-mon", "chardev=qmp,mode=control"]
            + ["-chardev", f"socket,id=gdb,fd={its_debugger.fileno()}", "-gdb", "chardev:gdb"]
            + list(options),
            pass_fds=[its_qmp.fileno(), its_debugger.fileno()],
        )
        its_qmp.close()
        its_debugger.close()
        self.name = name
        self.lines = qmp.makefile("rw")
        self.debugger = debugger.makefile("rwb")
        self.answer()
        self.do("qmp_capabilities")

    def answer(self):
        line = self.lines.readline()
        assert line, f"{self.name} is gone"
        return json.loads(line)

    def do(self, command, **arguments):
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = self.answer()
            if "return" in answer:
                return answer["return"]
            assert "event" in answer, f"{self.name}: {command}: {answer}"

    def memory(self):
        self.do("pmemsave", val=0, size=MEGABYTES << 20, filename=f"{self.name}.memory")
        with open(f"{self.name}.memory", "rb") as file:
            return file.read()

    def change(self, page):
        """Fills half of a page with random bytes: a packet of QEMU's debugger has no room for more."""
        half = page + chance.choice((0, PAGE // 2))
        packet = f"M{half:x},{PAGE // 2 - 64:x}:{chance.randbytes(PAGE // 2 - 64).hex()}".encode()
        self.debugger.write(b"$%b#%02x" % (packet, sum(packet) % 256))
        self.debugger.flush()
        answer = self.debugger.read(len("+$OK#9a"))
        assert answer == b"+$OK#9a", answer
        self.debugger.write(b"+")


def status():
    return source.do("query-migrate").get("status")


source = Machine("source")
target = Machine("target", "-incoming", WHERE)
for page in FILLED:
    source.change(page)
source.do("migrate-set-capabilities", capabilities=[{"capability": "pause-before-switchover", "state": True}])
source.do("migrate", uri=WHERE)
changed = 0
while (now := status()) in ("setup", "active"):
    source.change(chance.choice(FILLED))
    changed += 1
assert now == "pre-switchover", source.do("query-migrate")
# QEMU knows nothing of these changes before it sends the last pages.
for page in chance.sample(FILLED, 100):
    source.change(page)
source.do("migrate-continue", state="pre-switchover")
while (now := status()) not in ("completed", "failed"):
    pass
state = source.do("query-migrate")
print(json.dumps(state))
assert now == "completed", state
before, after = source.memory(), target.memory()
differ = [page for page in range(0, len(before), PAGE) if before[page : page + PAGE] != after[page : page + PAGE]]
print(f"{len(before)} bytes of memory, {changed} changes while they moved, {len(differ)} pages differ")
assert not differ, differ[:10]
for machine in (source, target):
    machine.process.kill()
    machine.process.wait()
