"""Sends the exchanges of cases.py to a node and compares what comes back with RabbitMQ's answers.

main.py [run]          a fresh node against rabbitmq.txt, but for what kept.txt allows; then the attacks of hostile.py
main.py diff [NAMES]   as run, and prints every difference, kept ones too; of the exchanges whose names match
main.py record PORT [NAMES]      writes what RabbitMQ (its API listens 30000 higher) answers to rabbitmq.txt
main.py show NAMES PORT [API]    prints what a broker answers, and compares nothing
"""

import concurrent.futures
import difflib
import fnmatch
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import hostile
from broker import free_port
from cases import CASES
from compared_node import start
from exchange import Broker, Exchange
from kept import Kept

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "rabbitmq.txt")
DEADLINE_S = 30
# Exchanges at a time: most of their time they wait.
AT_ONCE = 96


def lines(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip()]


def recorded():
    """Each exchange with its steps, each a list of lines."""
    answers, steps = {}, None
    for line in lines(RECORDED):
        if line.startswith("= "):
            steps = answers.setdefault(line[2:], [])
        elif line == "-":
            steps.append([])
        else:
            steps[-1].append(line)
    return answers


def record(port, pattern):
    """Writes down the answers of a broker to the exchanges whose names match, beside what is written down already."""
    answers = recorded() if pattern != "*" else {}
    answers |= run_all(Broker(port, port + 30000), matching(pattern), {})
    with open(RECORDED, "w", encoding="utf-8") as file:
        for case in CASES:
            file.write("\n".join(told(case.name, answers[case.name])) + "\n")
    print(f"recorded {len(CASES)} exchanges")
    return 0


def matching(pattern):
    return [case for case in CASES if fnmatch.fnmatchcase(case.name, pattern)]


def told(name, steps):
    """An exchange as it is written down: its name, and behind a dash the lines of each step."""
    return [f"= {name}", *(row for step in steps for row in ["-", *step])]


def run_all(broker, cases, expected):
    """The transcripts of exchanges, in their order."""
    broker.prepare()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        # Those that wait for long begin first.
        order = sorted(cases, key=lambda case: -case.patience_s)
        running = {case.name: pool.submit(Exchange(broker, case, expected.get(case.name)).run) for case in order}
        return {case.name: running[case.name].result() for case in cases}


def differences(theirs, ours):
    """What differs in the answers to one step, one text each."""
    kinds = [[line.split(" ", 1)[0] for line in step] for step in (theirs, ours)]
    for tag, begin, end, own_begin, own_end in difflib.SequenceMatcher(None, *kinds, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (f"-{line}" for line in theirs[begin:end])
            yield from (f"+{line}" for line in ours[own_begin:own_end])
            continue
        for line, own in zip(theirs[begin:end], ours[own_begin:own_end]):
            yield from compared_lines(line, own)


def compared_lines(theirs, ours):
    """The fields in which two frames of one kind differ."""
    (kind, *theirs), (_, *ours) = theirs.split("  "), ours.split("  ")
    theirs, ours = ({field.partition("=")[0]: field.partition("=")[2] for field in side} for side in (theirs, ours))
    for field in sorted({*theirs, *ours}, key=str):
        if theirs.get(field) != ours.get(field):
            yield f"{kind.split(' ')[0]}.{field} {theirs.get(field, 'none')} / {ours.get(field, 'none')}"


def compare(pattern, tells_all):
    kept, expected, n_passed, n_failed = Kept(lines("kept.txt")), recorded(), 0, 0
    cases = matching(pattern)
    with tempfile.TemporaryDirectory(prefix="leveret-interop-") as home:
        port, api_port = free_port(), free_port()
        node = start(home, port, api_port)
        try:
            answers = run_all(Broker(port, api_port), cases, expected)
            if pattern == "*":
                n_passed, n_failed = hostile.outcomes(port, node.pid)
        finally:
            node.terminate()
            n_failed += node.wait(DEADLINE_S) != 0
    for name, steps in answers.items():
        found = [one for theirs, ours in zip(expected[name], steps, strict=True) for one in differences(theirs, ours)]
        new = [one for one in found if not kept.takes(name, one)]
        n_failed += bool(new)
        n_passed += not new
        for one in found if tells_all else new:
            print(f"{'FAIL' if one in new else 'KEPT'} amqp10 {name}: {one}", flush=True)
    for line in kept.unused() if pattern == "*" else []:
        print(f"FAIL amqp10 kept.txt: nothing differs so any longer: {line}")
        n_failed += 1
    print(f"{len(kept.patterns)} kinds of differences are kept, for the reasons in kept.txt")
    print(f"{n_passed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


def show(pattern, port, api_port):
    for name, steps in run_all(Broker(port, api_port), matching(pattern), {}).items():
        print(*told(name, steps), sep="\n")
    return 0


def main(words):
    match words:
        case ["record", port, *pattern]:
            return record(int(port), *(pattern or ["*"]))
        case ["show", pattern, port, *api]:
            return show(pattern, int(port), int(api[0]) if api else int(port) + 30000)
        case ["diff", *pattern]:
            return compare(*(pattern or ["*"]), tells_all=True)
        case [] | ["run"]:
            return compare("*", tells_all=False)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
