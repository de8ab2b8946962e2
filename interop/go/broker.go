package main

import (
	"fmt"
	"math/rand"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

const (
	host            = "127.0.0.1"
	startDeadline   = 30 * time.Second
	stopDeadline    = 30 * time.Second
	logTailMaxBytes = 4000
)

// node is a broker process on a port and directory that both outlive a restart, or the external broker of INTEROP_URI.
type node struct {
	addr    string
	root    string
	process *exec.Cmd
	exited  chan error
}

// readyWord is what the node prints when it takes connections; "already in use" is something else.
var readyWord = regexp.MustCompile(`\bready\b`)

func external() bool { return os.Getenv("INTEROP_URI") != "" }

func sharedNode() *node {
	if external() {
		uri, err := url.Parse(os.Getenv("INTEROP_URI"))
		check(err)
		port := uri.Port()
		if port == "" {
			port = "5672"
		}
		return &node{addr: net.JoinHostPort(uri.Hostname(), port)}
	}
	return newNode()
}

// freePort is below the range of outgoing ports, so that it is still free when the node restarts on it.
func freePort() int {
	for {
		port := 15000 + rand.Intn(17000)
		if listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			check(listener.Close())
			return port
		}
	}
}

func newNode() *node {
	root, err := os.MkdirTemp("", "leveret-interop-")
	check(err)
	n := &node{addr: net.JoinHostPort(host, strconv.Itoa(freePort())), root: root}
	n.start()
	return n
}

func (n *node) logPath() string { return filepath.Join(n.root, "node.log") }

func (n *node) start() {
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(err)
	defer log.Close()
	info, err := log.Stat()
	check(err)
	dataDir := filepath.Join(n.root, "data")
	n.process = exec.Command(os.Getenv("LEVERET_BIN"), "server", "--data-dir", dataDir, "--set", "listeners.tcp.1="+n.addr)
	n.process.Stdout, n.process.Stderr = log, log
	check(n.process.Start())
	n.exited = make(chan error, 1)
	go func(process *exec.Cmd, exited chan error) { exited <- process.Wait() }(n.process, n.exited)
	deadline := time.After(startDeadline)
	for !n.isReady(info.Size()) {
		select {
		case err := <-n.exited:
			n.process = nil
			failf("node exited (%v):\n%s", err, n.logTail())
		case <-deadline:
			failf("node not ready in %v:\n%s", startDeadline, n.logTail())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (n *node) isReady(logStart int64) bool {
	log, err := os.ReadFile(n.logPath())
	check(err)
	if readyWord.Match(log[logStart:]) {
		return true
	}
	conn, err := net.DialTimeout("tcp", n.addr, time.Second)
	if err != nil {
		return false
	}
	check(conn.Close())
	return true
}

// end sends the signal and waits for the exit, whose error is nil for status 0.
func (n *node) end(signal syscall.Signal) error {
	check(n.process.Process.Signal(signal))
	select {
	case err := <-n.exited:
		n.process = nil
		return err
	case <-time.After(stopDeadline):
		return fmt.Errorf("still running %v after %v", stopDeadline, signal)
	}
}

func (n *node) kill9() { _ = n.end(syscall.SIGKILL) }

func (n *node) stop() error { return n.end(syscall.SIGTERM) }

func (n *node) logTail() string {
	if n.root == "" {
		return ""
	}
	log, _ := os.ReadFile(n.logPath())
	return string(log[max(0, len(log)-logTailMaxBytes):])
}

func (n *node) destroy() {
	if n.root == "" {
		return
	}
	if n.process != nil {
		n.kill9()
	}
	_ = os.RemoveAll(n.root)
}
