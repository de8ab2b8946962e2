#!/usr/bin/env python3
"""Where the broker's CPU time goes under a load, by system call and by crate.

    bench/profile.py [-b BINARY] [-p PORT] [-z SECONDS] [--] OPTIONS OF `leveret perf`
    bench/profile.py -a -s 1500

Starts a node with an empty data directory, puts the load on it, samples its threads with Linux' `perf` (the
kernel's stacks must be visible: root, or kernel.perf_event_paranoid=1) and divides the CPU time per message
that `leveret perf` measures in proportion to the samples. User code counts for the crate whose source the
sample lies in; what the standard library inlines there counts for it too. Needs perf, addr2line, readelf.
"""

import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

# What the kernel was entered for, by the name of its entry function.
ENTRIES = [
    (r"exit_to_user_mode|sysvec_|common_interrupt", "kernel: other processes' turns, interrupts"),
    (r"eventfd|sys_futex", "kernel: waking threads (futex, eventfd)"),
    (r"sys_(recv|read$|readv)", "kernel: recv"),
    (r"sys_(send|write$|writev)", "kernel: send"),
    (r"sys_epoll", "kernel: epoll"),
    (r"sys_(fdatasync|fsync|pwrite|fallocate)", "kernel: file writes and fdatasync"),
    (r"page_fault", "kernel: page faults"),
    (r"sys_(mmap|munmap|madvise|mremap|brk|mprotect)", "kernel: memory maps"),
]
OTHER_KERNEL = "kernel: other"
COPIES = re.compile(r"mem(cpy|move|set|cmp|chr)")
CRATE = re.compile(r"/crates/([a-z0-9-]+)/src/")
DEPENDENCY = re.compile(r"/registry/src/[^/]+/([A-Za-z0-9_-]+?)-[0-9]")


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-b", default="target/release/leveret", dest="binary")
    parser.add_argument("-p", type=int, default=5673, dest="port")
    parser.add_argument("-z", type=float, default=8, dest="seconds")
    known, load = parser.parse_known_args()
    return known, [word for word in load if word != "--"]


def wait_until_ready(node):
    for line in node.stdout:
        if " ready on " in line:
            return
    sys.exit("the node does not start")


def measure(known, load, folder):
    """The recording, and the summary of `leveret perf`."""
    node = subprocess.Popen(
        [known.binary, "server", "--data-dir", f"{folder}/data",
         "--set", f"listeners.tcp.default=127.0.0.1:{known.port}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        wait_until_ready(node)
        uri = f"amqp://127.0.0.1:{known.port}"
        generator = subprocess.Popen(
            [known.binary, "perf", "-h", uri, "-z", str(known.seconds + 2), "--json",
             "--broker-pid", str(node.pid), *load],
            stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        recording = f"{folder}/perf.data"
        subprocess.run(
            ["perf", "record", "-q", "-F", "1999", "-g", "-p", str(node.pid), "-o", recording,
             "--", "sleep", str(known.seconds)], check=True, stderr=subprocess.DEVNULL)
        summary = json.loads(generator.communicate()[0].splitlines()[-1])
        return recording, summary
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait()


def samples(recording):
    """The stack of every sample, innermost first: (address, symbol, file)."""
    script = subprocess.run(
        ["perf", "script", "-i", recording, "-F", "ip,sym,dso", "--no-inline"],
        check=True, capture_output=True, text=True).stdout
    for block in script.split("\n\n"):
        stack = []
        for line in block.splitlines():
            found = re.match(r"\s*([0-9a-f]+) (.*) \((.*)\)$", line)
            if found:
                stack.append((int(found[1], 16), found[2], found[3]))
        if stack:
            yield stack


def is_kernel(frame):
    return frame[0] >= 1 << 63


def kernel_entry(stack):
    names = [frame[1] for frame in stack if is_kernel(frame)]
    for pattern, part in ENTRIES:
        if any(re.search(pattern, name) for name in names):
            return part
    return OTHER_KERNEL


def code_shift(binary):
    """What to add to an offset of code in the file for its address, as `addr2line` knows it."""
    headers = subprocess.run(["readelf", "-lW", binary], check=True, capture_output=True,
                             text=True).stdout
    offset, address = re.search(r"LOAD +(\w+) (\w+) .* R E ", headers).groups()
    return int(address, 16) - int(offset, 16)


def crates(binary, offsets):
    """Whose source each offset in the file lies in."""
    addresses, shift = sorted(offsets), code_shift(binary)
    text = "\n".join(f"{address + shift:#x}" for address in addresses)
    out = subprocess.run(["addr2line", "-a", "-i", "-e", binary], input=text, check=True,
                         capture_output=True, text=True).stdout
    owners, at = {}, -1
    for line in out.splitlines():
        if line.startswith("0x") and ":" not in line:
            at += 1
        elif addresses[at] not in owners:
            found = CRATE.search(line) or DEPENDENCY.search(line)
            if found:
                owners[addresses[at]] = found[1]
    return owners


def parts(recording, binary):
    """How many samples each part has."""
    count, user = collections.Counter(), collections.Counter()
    for stack in samples(recording):
        address, symbol, file = stack[0]
        if is_kernel(stack[0]):
            count[kernel_entry(stack)] += 1
        elif COPIES.search(symbol):
            count["copying, comparing bytes"] += 1
        elif os.path.basename(file) == os.path.basename(binary):
            user[address] += 1
        else:
            count["libraries of the system"] += 1
    owners = crates(binary, user)
    for address, n in user.items():
        count[owners.get(address, "standard library, allocator")] += n
    return count


def main():
    known, load = arguments()
    with tempfile.TemporaryDirectory(prefix="leveret-profile-") as folder:
        recording, summary = measure(known, load, folder)
        count = parts(recording, known.binary)
    each_us = summary["broker"]["cpu_us_per_message"]
    total = sum(count.values())
    print(f"{each_us:9.4f} us  100.0 %  {' '.join(load)} ({total} samples)")
    for part, n in count.most_common():
        print(f"{each_us * n / total:9.4f} us  {100 * n / total:5.1f} %  {part}")


main()
