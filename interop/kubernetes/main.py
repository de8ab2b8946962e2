"""The example of packaging/kubernetes, without a cluster: everything that is referred to is there, and a node that is
started as its container is answers its probes and its users, and ends in time."""

import base64
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import traceback
import urllib.error
import urllib.request

import yaml

EXAMPLE = pathlib.Path(__file__).parent / "../../packaging/kubernetes/leveret.yaml"
LEVERET = os.environ["LEVERET_BIN"]
# Keys for the ports of the container, which may be taken on this machine.
PORT_KEYS = {
    "amqp": "listeners.tcp.1",
    "stream": "stream.listeners.tcp.1",
    "http": "management.tcp.port",
    "metrics": "prometheus.tcp.port",
}
DEADLINE_S = 60

objects = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each]


def one(kind, name):
    [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


stateful_set = one("StatefulSet", "leveret")
pod = stateful_set["spec"]["template"]
[container] = pod["spec"]["containers"]
ports = {port["name"]: port["containerPort"] for port in container["ports"]}


def labels_and_selectors_agree():
    labels = pod["metadata"]["labels"]
    selectors = [each["spec"]["selector"] for each in objects if each["kind"] == "Service"]
    for selector in [*selectors, stateful_set["spec"]["selector"]["matchLabels"]]:
        assert selector and selector.items() <= labels.items(), selector


def everything_referred_to_is_there():
    assert one("Service", stateful_set["spec"]["serviceName"])["spec"]["clusterIP"] == "None"
    for source in container["envFrom"]:
        one("Secret", source["secretRef"]["name"])
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    for volume in pod["spec"]["volumes"]:
        one("ConfigMap", volume["configMap"]["name"])
    volumes |= {each["metadata"]["name"] for each in stateful_set["spec"]["volumeClaimTemplates"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes, volumes
    for service in (each for each in objects if each["kind"] == "Service"):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"], port
    assert container["readinessProbe"]["tcpSocket"]["port"] in ports
    assert ports["metrics"] == int(pod["metadata"]["annotations"]["prometheus.io/port"])


def an_image_that_is_on_the_machine_is_not_pulled():
    # A tag `latest` is pulled each time otherwise, and nobody publishes this one.
    assert container["image"].endswith(":latest") and container["imagePullPolicy"] == "IfNotPresent"


def ports_are_those_of_the_protocols():
    assert ports == {"amqp": 5672, "stream": 5552, "http": 15672, "metrics": 15692}


class Container:
    """A node as the container of the example is started, at ports of its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.names = self.folder / "bin"
        self.names.mkdir()
        for name in ("rabbitmq-diagnostics", "rabbitmqctl"):
            (self.names / name).symlink_to(LEVERET)
        config = self.folder / "conf.d"
        config.mkdir()
        for name, text in one("ConfigMap", "leveret-config")["data"].items():
            (config / name).write_text(text)
        self.environment = {
            "PATH": f"{self.names}:/usr/bin:/bin",
            "LEVERET_DATA_DIR": str(self.folder / "data"),
            **one("Secret", "leveret-user")["stringData"],
        }
        self.ports = {name: free_port() for name in PORT_KEYS}
        command = [LEVERET, "server", "--config", str(config)]
        for name, port in self.ports.items():
            command += ["--set", f"{PORT_KEYS[name]}={port}"]
        self.log = (self.folder / "log").open("w")
        self.node = subprocess.Popen(command, env=self.environment, stdout=self.log, stderr=subprocess.STDOUT)

    def probe(self, name):
        probe = container[name]
        if "tcpSocket" in probe:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", self.ports[probe["tcpSocket"]["port"]])) == 0
        command = probe["exec"]["command"]
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=probe["timeoutSeconds"])
        return done.returncode == 0

    def get(self, port, path, user=None, password=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[port]}{path}")
        if user:
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def a_node_started_so_answers_its_probes_and_its_user_and_ends():
    with tempfile.TemporaryDirectory() as folder:
        broker = Container(folder)
        try:
            began = time.monotonic()
            while not broker.probe("startupProbe"):
                assert broker.node.poll() is None and time.monotonic() - began < DEADLINE_S, "it does not start"
            assert broker.probe("readinessProbe") and broker.probe("livenessProbe")
            secret = one("Secret", "leveret-user")["stringData"]
            user, password = secret["RABBITMQ_DEFAULT_USER"], secret["RABBITMQ_DEFAULT_PASS"]
            assert broker.get("http", "/api/whoami", user, password) == 200
            assert broker.get("http", "/api/whoami", "guest", "guest") == 401, "there is a guest"
            assert broker.get("metrics", "/metrics") == 200
            broker.node.send_signal(signal.SIGTERM)
            status = broker.node.wait(pod["spec"]["terminationGracePeriodSeconds"])
            assert status == 0, status
            assert not list((broker.folder / "data").glob("*.log")), "it logs to a file too"
        except BaseException:
            print((broker.folder / "log").read_text())
            raise
        finally:
            broker.node.kill()
            broker.node.wait()
            broker.log.close()


def main():
    scenarios = [
        labels_and_selectors_agree,
        an_image_that_is_on_the_machine_is_not_pulled,
        everything_referred_to_is_there,
        ports_are_those_of_the_protocols,
        a_node_started_so_answers_its_probes_and_its_user_and_ends,
    ]
    failed = 0
    for scenario in scenarios:
        name = scenario.__name__.replace("_", "-")
        try:
            scenario()
            print(f"PASS kubernetes {name}")
        except Exception as error:
            failed += 1
            traceback.print_exc()
            print(f"FAIL kubernetes {name}: {error}")
    print(f"{len(scenarios) - failed} passed, {failed} failed, 0 skipped")
    raise SystemExit(failed > 0)


main()
