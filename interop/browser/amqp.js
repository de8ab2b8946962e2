// A client of AMQP 0-9-1 with a name: as much of one as the suite needs.

import { connect } from 'node:net';

const [METHOD, HEADER, BODY, END] = [1, 2, 3, 0xce];
const u16 = (n) => [n >> 8, n & 255];
const u32 = (n) => [...u16(n >>> 16), ...u16(n & 65535)];
const shortText = (text) => [text.length, ...Buffer.from(text)];
const longText = (text) => [...u32(Buffer.byteLength(text)), ...Buffer.from(text)];
const table = (fields) => {
  const bytes = Object.entries(fields).flatMap(([key, text]) => [...shortText(key), 'S'.charCodeAt(0), ...longText(text)]);
  return [...u32(bytes.length), ...bytes];
};

export class Client {
  /** Opens a connection with one channel. @param {number} port @param {string} name */
  static async open(port, name) {
    const it = new Client(connect(port, '127.0.0.1'));
    it.socket.write(Buffer.from('AMQP\0\0\x09\x01', 'latin1'));
    await it.answer(10, 10);
    it.method(0, 10, 11, [...table({ connection_name: name }), ...shortText('PLAIN'), ...longText('\0guest\0guest'), ...shortText('en_US')]);
    await it.answer(10, 30);
    it.method(0, 10, 31, [...u16(1), ...u32(131072), ...u16(0)]);
    it.method(0, 10, 40, [...shortText('/'), 0, 0]);
    await it.answer(10, 41);
    it.method(1, 20, 10, [0]);
    await it.answer(20, 11);
    return it;
  }

  /** @param {import('node:net').Socket} socket */
  constructor(socket) {
    this.socket = socket;
    /** Tags of deliveries. @type {bigint[]} */
    this.deliveries = [];
    /** @type {[string, (payload?: Buffer) => void, (error: Error) => void][]} */
    this.waiting = [];
    let rest = Buffer.alloc(0);
    socket.on('data', (data) => {
      rest = Buffer.concat([rest, data]);
      while (rest.length >= 7 && rest.length >= 8 + rest.readUInt32BE(3)) {
        const size = rest.readUInt32BE(3);
        if (rest[0] === METHOD) this.take(rest.subarray(7, 7 + size));
        rest = rest.subarray(8 + size);
      }
    });
    socket.on('error', () => {});
    socket.on('close', () => this.waiting.splice(0).forEach(([id, , fail]) => fail(new Error(`closed before ${id}`))));
  }

  take(payload) {
    const id = `${payload.readUInt16BE(0)}.${payload.readUInt16BE(2)}`;
    if (id === '60.60') this.deliveries.push(payload.readBigUInt64BE(5 + payload[4]));
    const at = this.waiting.findIndex(([wanted]) => wanted === id);
    if (at >= 0) this.waiting.splice(at, 1)[0][1](payload);
  }

  answer(kind, method) {
    return new Promise((resolve, reject) => this.waiting.push([`${kind}.${method}`, resolve, reject]));
  }

  frame(type, channel, bytes) {
    this.socket.write(Buffer.from([type, ...u16(channel), ...u32(bytes.length), ...bytes, END]));
  }

  method(channel, kind, method, bytes) {
    this.frame(METHOD, channel, [...u16(kind), ...u16(method), ...bytes]);
  }

  /** Consumes a queue, with at most so many messages to acknowledge. */
  async consume(queue, tag, prefetch) {
    this.method(1, 60, 10, [...u32(0), ...u16(prefetch), 0]);
    await this.answer(60, 11);
    this.method(1, 60, 20, [...u16(0), ...shortText(queue), ...shortText(tag), 0, ...table({})]);
    await this.answer(60, 21);
  }

  /** Acknowledges the oldest delivery, if there is one. */
  acknowledge() {
    const [tag] = this.deliveries.splice(0, 1);
    if (tag !== undefined) this.method(1, 60, 80, [...u32(Number(tag >> 32n)), ...u32(Number(tag & 0xffffffffn)), 0]);
  }

  publish(key, text, exchange = '') {
    const body = Buffer.from(text);
    this.method(1, 60, 40, [...u16(0), ...shortText(exchange), ...shortText(key), 0]);
    this.frame(HEADER, 1, [...u16(60), ...u16(0), ...u32(0), ...u32(body.length), ...u16(0)]);
    this.frame(BODY, 1, [...body]);
  }

  close() {
    this.socket.destroy();
  }
}
