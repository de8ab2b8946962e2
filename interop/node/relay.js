// A TCP forwarder between client and node that counts heartbeat frames, mutes the client, or cuts both sides.
'use strict';

const { once } = require('node:events');
const net = require('node:net');

const HEADER_BYTES = 8;
const FRAME_OVERHEAD_BYTES = 8;
const FRAME_HEARTBEAT = 8;

/** Walks the frames of one direction and counts the heartbeats. */
class HeartbeatCounter {
  constructor(skipBytes) {
    this.count = 0;
    this.skipBytes = skipBytes;
    this.buffer = Buffer.alloc(0);
  }

  feed(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    if (this.buffer.length < this.skipBytes) return;
    this.buffer = this.buffer.subarray(this.skipBytes);
    this.skipBytes = 0;
    while (this.buffer.length >= FRAME_OVERHEAD_BYTES) {
      const size = this.buffer.readUInt32BE(3) + FRAME_OVERHEAD_BYTES;
      if (this.buffer.length < size) return;
      if (this.buffer[0] === FRAME_HEARTBEAT) this.count += 1;
      this.buffer = this.buffer.subarray(size);
    }
  }
}

/** Forwards one client connection to the node; listens on `port`. */
class Relay {
  static async open(target) {
    const relay = new Relay();
    relay.host = '127.0.0.1';
    relay.fromClient = new HeartbeatCounter(HEADER_BYTES);
    relay.fromServer = new HeartbeatCounter(0);
    relay.muted = false;
    relay.sockets = [];
    relay.lastFromServer = Buffer.alloc(0);
    relay.listener = net.createServer((client) => relay.join(client, target));
    relay.listener.listen(0, relay.host);
    await once(relay.listener, 'listening');
    relay.port = relay.listener.address().port;
    return relay;
  }

  join(client, target) {
    const server = net.connect(target.port, target.host);
    this.sockets.push(client, server);
    for (const socket of [client, server]) socket.on('error', () => {}).setNoDelay();
    client.on('data', (data) => {
      if (this.muted) return;
      this.fromClient.feed(data);
      server.write(data);
    });
    server.on('data', (data) => {
      this.fromServer.feed(data);
      this.lastFromServer = data;
      client.write(data);
    });
    client.on('close', () => this.muted || server.destroy());
    server.on('close', () => {
      this.serverClosedAt = Date.now();
      client.destroy();
    });
  }

  /** From now on nothing the client sends reaches the node; returns the moment it began. */
  muteClient() {
    this.muted = true;
    return Date.now();
  }

  /** Drops both sides, as a broken network would. */
  cut() {
    for (const socket of this.sockets) socket.destroy();
  }

  close() {
    this.listener.close();
    this.cut();
  }
}

module.exports = { Relay };
