"""The speed at which a guest's memory moves to another QEMU."""

import os
import time

MEGABYTES = 1024
# QEMU sends no pages of zeros.
FILLED = 768 << 20

with open("/dev/shm/ram", "wb") as file:
    file.write(b"\1" * FILLED)
    file.truncate(MEGABYTES << 20)
memory = ["-machine", "memory-backend=ram", "-object"]
source = Machine("source", *memory, f"memory-backend-file,id=ram,size={MEGABYTES}M,mem-path=/dev/shm/ram")
target = Machine("target", *memory, f"memory-backend-ram,id=ram,size={MEGABYTES}M", "-incoming", os.environ["WHERE"])
source.do("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
source.do("migrate", uri=os.environ["WHERE"])
while (state := source.do("query-migrate")).get("status") in ("setup", "active", "device"):
    time.sleep(0.01)
assert state["status"] == "completed", state
print("memory-MB/s", FILLED / 1e3 / state["total-time"])
for machine in (source, target):
    machine.process.kill()
    machine.process.wait()
