#!/usr/bin/env python3
"""DCQCN's reaction point, written once more from its description, to compare with.

Prints random runs, line by line: the time in nanoseconds, what happened then, and alpha,
target rate and current rate (bits a second) afterwards. The same seed prints the same.
"""

import random

US = 1000
PAPER = dict(
    keep=1020 / 1024, alpha0=1.0, alpha_every=55 * US, at_cnp=True, least=0.0,
    spare=0, clamp=True, every=55 * US, each=10_000_000, rounds=5,
    ai=40e6, hai=400e6, low=40e6, high=40e9,
)
CONNECT_X = dict(
    keep=1019 / 1024, alpha0=1023 / 1024, alpha_every=US, at_cnp=False, least=0.5,
    spare=4 * US, clamp=False, every=300 * US, each=32_767, rounds=1,
    ai=5e6, hai=50e6, low=1e6, high=40e9,
)


class Sender:
    def __init__(self, p):
        self.p = p
        self.now = 0
        self.alpha = p["alpha0"]
        self.current = self.target = p["high"]
        self.last_cut = None
        self.alpha_timer = None
        self.timer = None
        self.seen = False
        self.since_turn = self.by_bytes = self.by_time = 0

    def cnp(self):
        p = self.p
        self.seen = True
        if self.alpha_timer is None or p["at_cnp"]:
            self.alpha_timer = self.now
        if self.last_cut is not None and self.now - self.last_cut < p["spare"]:
            return
        self.last_cut = self.now
        if p["clamp"] or self.by_bytes or self.by_time:
            self.target = self.current
        self.current *= max(1 - self.alpha / 2, p["least"])
        self.current = max(self.current, p["low"])
        if p["at_cnp"]:
            g = 1 - p["keep"]
            self.alpha = (1 - g) * self.alpha + g
            self.seen = False
        self.since_turn = self.by_bytes = self.by_time = 0
        self.timer = self.now

    def sent(self, count):
        self.since_turn += count
        turns, self.since_turn = divmod(self.since_turn, self.p["each"])
        for _ in range(turns):
            self.by_bytes += 1
            self.rise()

    def rise(self):
        p, stages = self.p, (self.by_bytes, self.by_time)
        if min(stages) > p["rounds"]:
            self.target += p["hai"]
        elif max(stages) >= p["rounds"]:
            self.target += p["ai"]
        self.target = min(self.target, p["high"])
        self.current = (self.current + self.target) / 2

    def until(self, end):
        """Step by step: each of the two clocks strikes whenever its period is full."""
        p = self.p
        while self.now < end:
            steps = [end]
            if self.alpha_timer is not None:
                steps.append(self.alpha_timer + p["alpha_every"])
            steps.append(self.timer + p["every"])
            self.now = min(steps)
            if self.alpha_timer is not None and self.now - self.alpha_timer == p["alpha_every"]:
                g = 1 - p["keep"]
                self.alpha = (1 - g) * self.alpha + (g if self.seen else 0)
                self.seen = False
                self.alpha_timer = self.now
                if self.alpha < 1e-6:
                    self.alpha, self.alpha_timer = 0.0, None
            if self.now - self.timer == p["every"]:
                self.by_time += 1
                self.timer = self.now
                self.rise()


def run(name, p, seed, count):
    chance = random.Random(seed)
    sender = Sender(p)
    print(f"run {name}")
    for n in range(count):
        # Now and then there is quiet; at times CNPs come close together, for long.
        longest = chance.choice([3, 60, 60, 400, 5000]) * US
        often, largest = 0.4, chance.choice([1e3, 1e5, 3e7])
        if n // 50 % 2:
            longest, often, largest = 60 * US, 0.9, 3e4
        if n > 0:
            sender.until(sender.now + int(chance.random() * longest))
        if n == 0 or chance.random() < often:
            sender.cnp()
            what = "cnp 0"
        else:
            size = int(chance.random() * largest)
            sender.sent(size)
            what = f"sent {size}"
        print(sender.now, what, repr(sender.alpha), repr(sender.target), repr(sender.current))


for seed in (1, 2):
    run("paper", PAPER, seed, 250)
    run("connectx", CONNECT_X, seed, 250)
