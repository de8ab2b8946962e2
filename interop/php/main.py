"""Runs scenarios.php with an unpacked PHP against a node, or the broker of INTEROP_URI."""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from broker import shared_node


def main(package, only):
    [modules] = glob.glob(os.path.join(package, "usr/lib/php/2*"))
    command = [os.path.join(package, "usr/bin/php8.2"), "-n", "-d", f"extension_dir={modules}"]
    for module in ("sockets", "mbstring"):
        command += ["-d", f"extension={module}"]
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios.php")
    node = shared_node()
    try:
        library = os.path.join(package, "usr/share/php")
        command += [script, library, node.host, str(node.port), *only]
        status = subprocess.run(command, timeout=120).returncode
        if status:
            print(node.log_tail(), file=sys.stderr)
        return status
    finally:
        node.destroy()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
