package main

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	. "leveret.example/interop/harness"
)

const (
	protocolHeaderBytes = 8
	frameOverheadBytes  = 8
	frameHeartbeat      = 8
)

// heartbeatCounter walks the frames of one direction and counts the heartbeats.
type heartbeatCounter struct {
	count     atomic.Int32
	skipBytes int
	buffer    []byte
}

func (h *heartbeatCounter) feed(data []byte) {
	h.buffer = append(h.buffer, data...)
	if len(h.buffer) < h.skipBytes {
		return
	}
	h.buffer = h.buffer[h.skipBytes:]
	h.skipBytes = 0
	for len(h.buffer) >= frameOverheadBytes {
		size := int(binary.BigEndian.Uint32(h.buffer[3:7])) + frameOverheadBytes
		if len(h.buffer) < size {
			return
		}
		if h.buffer[0] == frameHeartbeat {
			h.count.Add(1)
		}
		h.buffer = h.buffer[size:]
	}
}

// relay forwards one client connection to the node; it can mute the client or cut both sides.
type relay struct {
	Addr           string
	fromClient     heartbeatCounter
	fromServer     heartbeatCounter
	muted          atomic.Bool
	serverClosedAt chan time.Time
	listener       net.Listener
	client, server net.Conn
}

func newRelay(target string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Check(err)
	r := &relay{Addr: listener.Addr().String(), listener: listener, serverClosedAt: make(chan time.Time, 1)}
	r.fromClient.skipBytes = protocolHeaderBytes
	server, err := net.Dial("tcp", target)
	Check(err)
	r.server = server
	go r.accept()
	return r
}

func (r *relay) accept() {
	client, err := r.listener.Accept()
	if err != nil {
		return
	}
	r.client = client
	go forward(client, func(data []byte) error {
		if r.muted.Load() {
			return nil
		}
		r.fromClient.feed(data)
		_, err := r.server.Write(data)
		return err
	}, func() {
		if !r.muted.Load() {
			_ = r.server.Close()
		}
	})
	go forward(r.server, func(data []byte) error {
		r.fromServer.feed(data)
		_, err := client.Write(data)
		return err
	}, func() {
		r.serverClosedAt <- time.Now()
		_ = client.Close()
	})
}

func forward(from net.Conn, pass func([]byte) error, atEnd func()) {
	defer atEnd()
	buffer := make([]byte, 65536)
	for {
		n, err := from.Read(buffer)
		if n > 0 && pass(buffer[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// muteClient lets nothing the client sends reach the node from now on; returns the moment it began.
func (r *relay) muteClient() time.Time {
	r.muted.Store(true)
	return time.Now()
}

// cut drops both sides, as a broken network would.
func (r *relay) cut() {
	_ = r.server.Close()
	if r.client != nil {
		_ = r.client.Close()
	}
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.cut()
}

func (s *scenarioRun) relay() *relay {
	r := newRelay(s.Node.Addr)
	s.OnEnd(r.close)
	return r
}
