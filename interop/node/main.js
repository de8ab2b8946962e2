// Runs the scenario list with amqplib and checks that no scenario is missing.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const harness = require('./harness');

if (process.env.INTEROP_TLS) {
  const tls = require('./tls');
  return harness.run(Object.keys(tls), tls).then((status) => process.exit(status));
}

const scenarios = Object.assign(
  {},
  require('./scenarios/exchanges'),
  require('./scenarios/publishing'),
  require('./scenarios/consuming'),
  require('./scenarios/queues'),
  require('./scenarios/connections'),
  require('./scenarios/restart'),
  require('./scenarios/send-again'),
  require('./scenarios/exactly-once'),
);

const text = fs.readFileSync(path.join(__dirname, '..', 'SCENARIOS.md'), 'utf8');
// Of CONFIRM_ON.md, these alone.
const listed = [...text.matchAll(/^\| `([a-z0-9-]+)` \|/gm)]
  .map((match) => match[1])
  .concat('restart-send-again', 'restart-exactly-once');
const missing = listed.filter((id) => !scenarios[id]);
const unlisted = Object.keys(scenarios).filter((id) => !listed.includes(id));
if (missing.length || unlisted.length) {
  console.error(`amqplib: differs from SCENARIOS.md in ${[...missing, ...unlisted].join(', ')}`);
  process.exit(1);
}

const only = process.argv.slice(2);
const chosen = listed.filter((id) => only.length === 0 || only.includes(id));
harness.run(chosen, scenarios).then((status) => process.exit(status));
