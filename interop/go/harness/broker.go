package harness

import (
	"fmt"
	"math/rand"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	host            = "127.0.0.1"
	startDeadline   = 30 * time.Second
	stopDeadline    = 30 * time.Second
	logTailMaxBytes = 4000

	externalStreamPort = 5552
)

// Node is a broker process on a port and directory that both outlive a restart, or the external broker of INTEROP_URI.
type Node struct {
	Addr           string
	StreamPort     int
	ManagementPort int
	root           string
	process        *exec.Cmd
	exited         chan error
}

// readyWord is what the node prints when it takes connections; "already in use" is something else.
var readyWord = regexp.MustCompile(`\bready\b`)

func external() bool { return os.Getenv("INTEROP_URI") != "" }

func sharedNode() *Node {
	if external() {
		uri, err := url.Parse(os.Getenv("INTEROP_URI"))
		Check(err)
		port := uri.Port()
		if port == "" {
			port = "5672"
		}
		streamPort := externalStreamPort
		if named := os.Getenv("INTEROP_STREAM_PORT"); named != "" {
			streamPort, err = strconv.Atoi(named)
			Check(err)
		}
		return &Node{Addr: net.JoinHostPort(uri.Hostname(), port), StreamPort: streamPort}
	}
	return newNode()
}

// freePort is below the range of outgoing ports, so that it is still free when the node restarts on it.
func freePort() int {
	for {
		port := 15000 + rand.Intn(17000)
		if listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			Check(listener.Close())
			return port
		}
	}
}

func newNode() *Node {
	root, err := os.MkdirTemp("", "leveret-interop-")
	Check(err)
	addr := net.JoinHostPort(host, strconv.Itoa(freePort()))
	n := &Node{Addr: addr, StreamPort: freePort(), ManagementPort: freePort(), root: root}
	n.Start()
	return n
}

func (n *Node) logPath() string { return filepath.Join(n.root, "node.log") }

// Start starts the process and waits until it takes connections.
func (n *Node) Start() {
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Check(err)
	defer log.Close()
	info, err := log.Stat()
	Check(err)
	dataDir := filepath.Join(n.root, "data")
	n.process = exec.Command(os.Getenv("LEVERET_BIN"), "server", "--data-dir", dataDir,
		"--set", "listeners.tcp.1="+n.Addr,
		"--set", fmt.Sprintf("stream.listeners.tcp.1=%s:%d", host, n.StreamPort), "--set", "stream.advertised_host="+host,
		"--set", "management.tcp.ip="+host, "--set", fmt.Sprintf("management.tcp.port=%d", n.ManagementPort))
	n.process.Stdout, n.process.Stderr = log, log
	Check(n.process.Start())
	n.exited = make(chan error, 1)
	go func(process *exec.Cmd, exited chan error) { exited <- process.Wait() }(n.process, n.exited)
	deadline := time.After(startDeadline)
	for !n.isReady(info.Size()) {
		select {
		case err := <-n.exited:
			n.process = nil
			Failf("node exited (%v):\n%s", err, n.logTail())
		case <-deadline:
			Failf("node not ready in %v:\n%s", startDeadline, n.logTail())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (n *Node) isReady(logStart int64) bool {
	log, err := os.ReadFile(n.logPath())
	Check(err)
	if readyWord.Match(log[logStart:]) {
		return true
	}
	conn, err := net.DialTimeout("tcp", n.Addr, time.Second)
	if err != nil {
		return false
	}
	Check(conn.Close())
	return true
}

// end sends the signal and waits for the exit, whose error is nil for status 0.
func (n *Node) end(signal syscall.Signal) error {
	Check(n.process.Process.Signal(signal))
	select {
	case err := <-n.exited:
		n.process = nil
		return err
	case <-time.After(stopDeadline):
		return fmt.Errorf("still running %v after %v", stopDeadline, signal)
	}
}

// Kill9 ends the process by SIGKILL.
func (n *Node) Kill9() { _ = n.end(syscall.SIGKILL) }

// Stop ends the process cleanly.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM) }

// Ctl runs a verb of the node's command-line tool, or of the one INTEROP_CTL names for an external broker.
func (n *Node) Ctl(arguments ...string) {
	command := strings.Fields(os.Getenv("INTEROP_CTL"))
	if n.root != "" {
		command = []string{os.Getenv("LEVERET_BIN"), "ctl", "--data-dir", filepath.Join(n.root, "data")}
	} else if len(command) == 0 {
		panic(Skip("the command-line tool needs a node of our own, or INTEROP_CTL"))
	}
	tool := exec.Command(command[0], slices.Concat(command[1:], []string{"-q"}, arguments)...)
	if output, err := tool.CombinedOutput(); err != nil {
		Failf("%v: %v: %s", arguments, err, output)
	}
}

func (n *Node) logTail() string {
	if n.root == "" {
		return ""
	}
	log, _ := os.ReadFile(n.logPath())
	return string(log[max(0, len(log)-logTailMaxBytes):])
}

func (n *Node) destroy() {
	if n.root == "" {
		return
	}
	if n.process != nil {
		n.Kill9()
	}
	_ = os.RemoveAll(n.root)
}
