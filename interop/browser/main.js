// The web UI in a browser: main.js [scenario ...]

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { Node } from './node.js';
import { seed } from './seed.js';
import { SCENARIOS } from './scenarios.js';

const WAIT_MS = 30000;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Programs that judge without a browser. */
const CHECKS = [
  ['types', process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json']],
  ['modules', process.execPath, ['--test', 'modules.test.js']],
];

let [passed, failed] = [0, 0];
const said = (id, problem) => {
  problem ? (failed += 1) : (passed += 1);
  console.log(problem ? `FAIL browser ${id}: ${String(problem).split('\n').slice(0, 12).join(' | ')}` : `PASS browser ${id}`);
};

/** A page of a fresh browser's profile, that writes down what must not be. What a scenario expects there counts for nothing at its end: the browser tells it when it likes. */
async function visit(browser, { theme = 'light', width = 1300, height = 900 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, bypassCSP: false });
  context.setDefaultTimeout(WAIT_MS);
  await context.addInitScript((it) => localStorage.setItem('leveret.theme', JSON.stringify(it)), theme);
  const page = await context.newPage();
  const heard = [];
  page.on('console', (message) => heard.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => heard.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => { heard.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return { context, page, heard };
}

/** What axe finds on a page. The script goes in by the debugger, past the page's policy. */
async function judged(page) {
  const client = await page.context().newCDPSession(page);
  await client.send('Runtime.evaluate', { expression: AXE });
  const expression = `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
    .then((found) => JSON.stringify(found.violations.map((it) => it.id + ': ' + it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '')).join(' / '))))`;
  const { result, exceptionDetails } = await client.send('Runtime.evaluate', { expression, awaitPromise: true });
  if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
  await client.detach();
  return JSON.parse(result.value);
}

const wanted = process.argv.slice(2);
const isWanted = (id) => wanted.length === 0 || wanted.includes(id);
for (const [id, program, words] of /** @type {any} */ (CHECKS)) {
  if (!isWanted(id)) continue;
  const { status, stdout, stderr } = spawnSync(program, words, { cwd: import.meta.dirname, encoding: 'utf8' });
  said(id, status === 0 ? '' : stdout + stderr);
}
const node = new Node();
let browser;
try {
  await node.start();
  await seed(node);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  for (const [id, options, run] of SCENARIOS) {
    if (!isWanted(id)) continue;
    const { context, page, heard } = await visit(browser, options);
    try {
      await run({ page, node, judged: () => judged(page), heard, browser, visit: (more) => visit(browser, more) });
      said(id, heard.filter((line) => !options.expected?.test(line)).join('; '));
    } catch (error) {
      const seen = await page.locator('body').innerText().catch(() => '');
      said(id, `${error.stack ?? error} ${heard.join('; ')} seen: ${seen.replace(/\s+/g, ' ').slice(0, 2000)}`);
    } finally {
      await context.close();
    }
  }
} catch (error) {
  said('node', error.stack);
} finally {
  await browser?.close();
  node.end();
}
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed > 0 ? 1 : 0);
