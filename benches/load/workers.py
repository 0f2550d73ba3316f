#!/usr/bin/env python3
"""CPU for each answer of one worker on one core, and of two workers on two cores, in alternating slices.

  workers.py WORK BINARY COREFILE PORT COREFILE PORT

Both servers are kept busy by a generator on core 1, which the second worker shares; what counts is the CPU that the
server's threads use, not how much of it they get.
"""
import json
import os
import statistics
import subprocess
import sys
import time


def boost(cpus):
    """A session of its own, before other work, on these cores."""
    def enter():
        os.setsid()
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write("-20")
        except OSError:
            pass
        os.sched_setaffinity(0, cpus)
    return enter


def cpu_ns(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def main():
    work, binary, corefile1, port1, corefile2, port2 = sys.argv[1:7]
    servers = {}
    for name, cpus, corefile, port in (("one", {0}, corefile1, port1), ("two", {0, 1}, corefile2, port2)):
        command = [binary, "-conf", corefile]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=boost(cpus))
        servers[name] = (process, port)
    time.sleep(3)
    costs = {"one": [], "two": []}
    for _ in range(10):
        for name, (process, port) in servers.items():
            before = cpu_ns(process.pid)
            command = [f"{work}/dnsblast-bin", "-d", f"{work}/zone/q_a.txt", "-p", port, "-l", "1", "-c", "32", "-w", "32"]
            result = subprocess.run(command, capture_output=True, text=True, preexec_fn=boost({1}))
            answers = json.loads(result.stdout)["received"]
            costs[name].append((cpu_ns(process.pid) - before) / answers / 1000)
    ratios = [two / one for one, two in zip(costs["one"], costs["two"])]
    for name, values in costs.items():
        print(f"{name} worker(s): {statistics.median(values):.3f} us of CPU an answer")
    print(f"ratio: {statistics.median(ratios):.3f}")
    for process, _ in servers.values():
        process.kill()


if __name__ == "__main__":
    main()
