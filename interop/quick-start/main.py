"""Runs the quick start of each language whose toolchain is there, and checks what it prints."""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

INTEROP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(INTEROP / "python"))

from broker import shared_node

EXPECTED = "Hello, hare!\n"
BUILD_DEADLINE_S = 600
RUN_DEADLINE_S = 60
PHP = ["php-amqplib", "php8.2-cli", "php8.2-common", "php8.2-mbstring"]
RUBY = ["ruby3.1", "libruby3.1", "ruby-bunny", "ruby-amq-protocol", "ruby-sorted-set", "ruby-rbtree"]


class LeftOut(Exception):
    """What the machine lacks."""


def built(folder, *command):
    """Runs a command in the folder of a suite."""
    if shutil.which(command[0]) is None:
        raise LeftOut(f"{command[0]} is not installed")
    subprocess.run(command, cwd=INTEROP / folder, check=True, timeout=BUILD_DEADLINE_S, stdout=sys.stderr)


def unpacked(packages, into):
    """Debian's packages, unpacked into a directory."""
    if shutil.which("apt-get") is None:
        raise LeftOut("apt-get is not installed")
    download = ["apt-get", "download", *packages]
    if subprocess.run(download, cwd=into, capture_output=True).returncode:
        # There is no list of packages yet, or an old one.
        subprocess.run(["apt-get", "update"], capture_output=True, check=False)
        if subprocess.run(download, cwd=into, capture_output=True).returncode:
            raise LeftOut(f"{', '.join(packages)} cannot be downloaded")
    for package in glob.glob(f"{into}/*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, into], check=True)
    return into


def python(_):
    built("python", "bash", "-ec", ". ./venv.sh; prepare_venv")
    return [INTEROP / "python/.venv/bin/python", INTEROP / "python/examples/quick_start.py"], {}


def node(_):
    if not (INTEROP / "node/node_modules/.installed").exists():
        built("node", "npm", "ci", "--silent", "--no-audit", "--no-fund")
    return ["node", INTEROP / "node/examples/quick_start.js"], {}


def go(directory):
    program = f"{directory}/quickstart"
    built("go", "go", "build", "-buildvcs=false", "-o", program, "./examples/quickstart")
    return [program], {}


def java(_):
    classpath = "-Dmdep.outputFile=target/classpath"
    built("java", "mvn", "-q", "-B", "compile", "dependency:build-classpath", classpath)
    libraries = (INTEROP / "java/target/classpath").read_text().strip()
    return ["java", "-cp", f"{INTEROP / 'java/target/classes'}:{libraries}", "QuickStart"], {}


def rust(_):
    built("rust", "bash", "-ec", ". ./build.sh; build_rust --example quick_start")
    return [INTEROP / "rust" / os.environ.get("CARGO_TARGET_DIR", "../../target") / "debug/examples/quick_start"], {}


def php(directory):
    unpacked(PHP, directory)
    os.mkdir(f"{directory}/vendor")
    pathlib.Path(f"{directory}/vendor/autoload.php").write_text(f"""<?php
        spl_autoload_register(function (string $class): void {{
            $file = '{directory}/usr/share/php/' . strtr($class, '\\\\', '/') . '.php';
            if (is_file($file)) {{ require $file; }}
        }});""")
    [modules] = glob.glob(f"{directory}/usr/lib/php/2*")
    extensions = [f"-dextension_dir={modules}", "-dextension=sockets", "-dextension=mbstring"]
    return [f"{directory}/usr/bin/php8.2", "-n", *extensions, INTEROP / "php/examples/quick_start.php"], {}


def ruby(directory):
    unpacked(RUBY, directory)
    libraries = glob.glob(f"{directory}/usr/lib/*/ruby/3.1.0") + glob.glob(f"{directory}/usr/lib/*/ruby/vendor_ruby/3.1.0")
    libraries += [f"{directory}/usr/lib/ruby/3.1.0", f"{directory}/usr/lib/ruby/vendor_ruby"]
    libraries += glob.glob(f"{directory}/usr/share/rubygems-integration/*/gems/*/lib")
    [shared] = glob.glob(f"{directory}/usr/lib/*/libruby-3.1.so.3.1")
    environment = {"RUBYLIB": ":".join(libraries), "LD_LIBRARY_PATH": os.path.dirname(shared)}
    return [f"{directory}/usr/bin/ruby3.1", "--disable-gems", INTEROP / "ruby/examples/quick_start.rb"], environment


LANGUAGES = {"python": python, "node": node, "go": go, "java": java, "rust": rust, "php": php, "ruby": ruby}


def result(language, url):
    with tempfile.TemporaryDirectory() as directory:
        try:
            command, environment = LANGUAGES[language](directory)
        except LeftOut as reason:
            return "SKIP", str(reason)
        environment = {**os.environ, **environment, "AMQP_URL": url}
        ran = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=RUN_DEADLINE_S
        )
    if ran.returncode or ran.stdout != EXPECTED:
        return "FAIL", f"status {ran.returncode}, printed {ran.stdout!r}, {ran.stderr[-2000:]}"
    return "PASS", ""


def main(chosen):
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    broker = shared_node()
    try:
        for language in chosen or LANGUAGES:
            try:
                word, reason = result(language, f"amqp://guest:guest@{broker.host}:{broker.port}")
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                word, reason = "FAIL", str(error)
            counts[word] += 1
            print(f"{word} {language} quick-start{reason and f': {reason}'}", flush=True)
    finally:
        broker.destroy()
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
