// Expectations: equality, waiting with a deadline.
'use strict';

const assert = require('node:assert/strict');
const { setTimeout: pause } = require('node:timers/promises');

/** The scenario cannot be expressed here; the message says why. */
class Skip extends Error {}

function equal(actual, expected, what = 'value') {
  try {
    assert.deepEqual(actual, expected);
  } catch {
    throw new Error(`${what}: got ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`);
  }
}

function starts(actual, prefix, what = 'text') {
  if (!String(actual).startsWith(prefix)) {
    throw new Error(`${what}: got ${JSON.stringify(actual)}, expected to start with ${JSON.stringify(prefix)}`);
  }
}

/** Waits until the condition (may be async) holds; events are handled meanwhile. */
async function waitUntil(condition, what, deadlineMs = 10_000) {
  const deadline = Date.now() + deadlineMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await pause(5);
  }
}

module.exports = { Skip, equal, starts, waitUntil };
