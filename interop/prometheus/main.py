"""Prometheus scrapes a node under traffic: every figure that known dashboards and rules ask for has a series, promtool
finds nothing wrong, and the alert rules and the dashboard in packaging/ work: main.py WORK_DIR"""

import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
MONITORING = os.path.join(HERE, "..", "..", "packaging", "monitoring")
DEADLINE_S = 60
ENDPOINTS = {
    "aggregated": "/metrics",
    "detailed": "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics",
    "per-object": "/metrics/per-object",
    "memory-breakdown": "/metrics/memory-breakdown",
}
# RabbitMQ's names and types, which promtool would have otherwise.
LINTED = {
    "rabbitmq_unreachable_cluster_peers_count": "non-histogram and non-summary metrics should not have",
    "rabbitmq_raft_commit_index": "counter metrics should have",
    "rabbitmq_raft_last_written_index": "counter metrics should have",
    "rabbitmq_raft_term": "counter metrics should have",
    "rabbitmq_raft_snapshot_index": "counter metrics should have",
}
IDENTITY = 'on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info{namespace="shop"}'
# What traffic there is, in the words of `leveret perf`; each runs for as long as the test.
TRAFFIC = [
    "-u classic -x 2 -y 2 -c 10 -q 20 -r 100",
    "-u auto -a -r 100",
    "-u quorum -qq -c 10 -q 20 -r 100 -ad false",
    "-e nobody -t direct -sb -x 1 -y 0 -r 20",
    "-e nobody -t direct -sb -x 1 -y 0 -r 20 -f mandatory",
    "stream -r 200",
]


def free_port():
    """Below the range of outgoing ports."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(15000, 32000)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def fetch(url, data=None):
    with urllib.request.urlopen(url, data, timeout=10) as answer:
        return answer.read().decode()


def until(what, probe):
    """The first true value of a probe that is asked over and over."""
    deadline, last = time.monotonic() + DEADLINE_S, None
    while time.monotonic() < deadline:
        try:
            if value := probe():
                return value
        except OSError as error:
            last = error
        time.sleep(0.2)
    raise TimeoutError(f"{what}: not within {DEADLINE_S} s {last or ''}")


class Suite:
    def __init__(self, work_dir):
        self.work_dir = work_dir
        self.ports = {name: free_port() for name in ("amqp", "stream", "metrics", "prometheus")}
        self.processes = []
        self.n_passed = self.n_failed = 0

    def note(self, name, problem=None):
        self.n_passed += problem is None
        self.n_failed += problem is not None
        print(f"PASS prometheus {name}" if problem is None else f"FAIL prometheus {name}: {problem}", flush=True)

    def start(self, words, log):
        with open(os.path.join(self.work_dir, log), "wb") as out:
            process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def start_node(self):
        settings = [
            f"listeners.tcp.1=127.0.0.1:{self.ports['amqp']}",
            f"stream.listeners.tcp.1=127.0.0.1:{self.ports['stream']}",
            "stream.advertised_host=127.0.0.1",
            "management.tcp.ip=127.0.0.1",
            "management.tcp.port=0",
            "prometheus.tcp.ip=127.0.0.1",
            f"prometheus.tcp.port={self.ports['metrics']}",
        ]
        words = [os.environ["LEVERET_BIN"], "server", "--data-dir", os.path.join(self.work_dir, "data")]
        self.start(words + [word for setting in settings for word in ("--set", setting)], "node.log")
        until("the node", lambda: self.scrape("/metrics"))

    def start_traffic(self):
        for at, options in enumerate(TRAFFIC):
            port, scheme = self.ports["amqp"], "amqp"
            uri = ["-h", f"{scheme}://127.0.0.1:{port}"]
            if options.startswith("stream "):
                uri = ["--uris", f"rabbitmq-stream://127.0.0.1:{self.ports['stream']}"]
            self.start([os.environ["LEVERET_BIN"], "perf", *options.split(), *uri], f"perf-{at}.log")

    def start_prometheus(self):
        jobs = []
        for name in ("aggregated", "detailed"):
            path = urllib.parse.urlsplit(ENDPOINTS[name])
            static = {"targets": [f"127.0.0.1:{self.ports['metrics']}"], "labels": {"namespace": "shop"}}
            job = {"job_name": name, "metrics_path": path.path, "static_configs": [static]}
            jobs.append(job | {"params": urllib.parse.parse_qs(path.query)})
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [os.path.abspath(os.path.join(MONITORING, "leveret-rules.yml"))],
            "scrape_configs": jobs,
        }
        path = os.path.join(self.work_dir, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        words = ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={os.path.join(self.work_dir, 'tsdb')}"]
        self.start(words + [f"--web.listen-address=127.0.0.1:{self.ports['prometheus']}"], "prometheus.log")

    def scrape(self, path):
        return fetch(f"http://127.0.0.1:{self.ports['metrics']}{path}")

    def query(self, query):
        body = urllib.parse.urlencode({"query": query}).encode()
        try:
            answer = fetch(f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/query", body)
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode()) from error
        return json.loads(answer)["data"]["result"]

    def expect_series(self, name, query):
        try:
            until("a series", lambda: self.query(query))
            self.note(name)
        except (TimeoutError, ValueError) as error:
            self.note(name, f"{query}: {error}")

    def lint(self, name, text):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        found = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        unknown = [line for line in found if not LINTED.get(line.split()[0], "\0") in line]
        self.note(f"promtool of {name}", "; ".join(unknown[:5]) or None)

    def check_rules(self):
        rules = os.path.join(MONITORING, "leveret-rules.yml")
        done = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, timeout=60)
        self.note("promtool of the rules", None if done.returncode == 0 else done.stdout + done.stderr)
        url = f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/rules"

        def healths():
            groups = json.loads(fetch(url))["data"]["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

        wrong = [rule["name"] for rule in until("rules", healths) if rule["health"] != "ok"]
        self.note("the rules are evaluated", f"{wrong}" if wrong else None)

    def check_dashboard(self):
        with open(os.path.join(MONITORING, "leveret-dashboard.json"), encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        for panel in panels:
            for target in panel.get("targets", []):
                query = target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
                self.expect_series(f"panel '{panel['title']}' {target['refId']}", query)

    def check_names(self):
        with open(os.path.join(HERE, "queries.txt"), encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        kind = None
        for line in lines:
            if line.startswith("["):
                kind = line.strip("[]")
                continue
            query = {
                "gauge": f"sum({line} * {IDENTITY}) by (rabbitmq_node)",
                "counter": f"sum(rate({line}[30s]) * {IDENTITY}) by (rabbitmq_node)",
                "histogram": f"histogram_quantile(0.9, sum(rate({line}_bucket[30s]) * {IDENTITY}) by (le))",
            }[kind]
            self.expect_series(line, query)

    def run(self):
        self.start_node()
        self.start_traffic()
        self.start_prometheus()
        url = f"http://127.0.0.1:{self.ports['prometheus']}/-/ready"
        until("Prometheus", lambda: fetch(url))
        self.check_names()
        build = "rabbitmq_build_info"
        versions = f"rabbitmq_erlang_uptime_seconds * on(instance, job) group_left(rabbitmq_version, erlang_version) {build}"
        self.expect_series("the versions of nodes", versions)
        for protocol in ("amqp091", "stream"):
            for name in ("received", "confirmed", "delivered"):
                rate = f'sum(rate(rabbitmq_global_messages_{name}_total{{protocol="{protocol}"}}[30s])) > 0'
                self.expect_series(f"{protocol} messages are {name}", rate)
        sizes = 'rabbitmq_message_size_bytes_bucket{le="+Inf"} - ignoring(le) rabbitmq_message_size_bytes_bucket{le="100"}'
        self.expect_series("small messages are small", f"{sizes} == 0")
        self.check_dashboard()
        self.check_rules()
        for name, path in ENDPOINTS.items():
            self.lint(name, self.scrape(path))

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def main(work_dir):
    suite = Suite(work_dir)
    try:
        suite.run()
    except TimeoutError as error:
        suite.note("suite", str(error))
    finally:
        suite.end()
    print(f"{suite.n_passed} passed, {suite.n_failed} failed, 0 skipped")
    return 1 if suite.n_failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
