"""Migrates a guest from one QEMU to another over RDMA, and compares their memory.

The guest's processor stands still, and a debugger changes memory while the migration copies it. A running
processor would change it, too, but on a busy machine QEMU's emulation misses some of its changes: it posts no WRITE
for their pages, as its trace qemu_rdma_write_one_post shows.
"""

import os
import random

MEGABYTES = 64
WHERE = "rdma:10.9.9.1:4444"
PAGE = 4096
# The debugger fills these pages first, and changes some of them later. Firmware is elsewhere.
FILLED = range(2 << 20, 6 << 20, PAGE)
SEED = int(os.environ.get("ROCE_SEED") or random.SystemRandom().getrandbits(32))
print(f"ROCE_SEED={SEED}", flush=True)
chance = random.Random(SEED)


def change(page):
    """Fills half of a page with random bytes: a packet of QEMU's debugger has no room for more."""
    source.write(page + chance.choice((0, PAGE // 2)), chance.randbytes(PAGE // 2 - 64))


def status():
    return source.do("query-migrate").get("status")


source = Machine("source")
target = Machine("target", "-incoming", WHERE)
for page in FILLED:
    change(page)
source.do("migrate-set-capabilities", capabilities=[{"capability": "pause-before-switchover", "state": True}])
source.do("migrate", uri=WHERE)
changed = 0
while (now := status()) in ("setup", "active"):
    change(chance.choice(FILLED))
    changed += 1
assert now == "pre-switchover", source.do("query-migrate")
# QEMU knows nothing of these changes before it sends the last pages.
for page in chance.sample(FILLED, 100):
    change(page)
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
