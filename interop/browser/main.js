// The web UI in a browser: main.js [scenario ...]

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { Node } from './node.js';
import { SCENARIOS, logIn, prepare } from './scenarios.js';
import { seed } from './seed.js';

/** Time that anything may take on a machine that is busy with other work, ms. */
const WAIT_MS = 120000;
/** Rows of a table that are judged: those behind them are made the same way, and a hundred take axe most of the suite's time. */
const ROWS_JUDGED = 20;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Programs that judge without a browser. */
const CHECKS = [
  ['types', process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json']],
  ['modules', process.execPath, ['--test', 'modules.test.js', 'report.test.js']],
];

let [passed, failed] = [0, 0];
/** Tells a result. @param {string} id @param {any} problem @param {number} began when, by the process's clock */
const said = (id, problem, began) => {
  problem ? (failed += 1) : (passed += 1);
  const took = `${Math.round(performance.now() - began)} ms`;
  console.log(problem ? `FAIL browser ${id}: ${String(problem).split('\n').slice(0, 12).join(' | ')} (${took})` : `PASS browser ${id} (${took})`);
};

/** A page of a browser's profile, that writes down what must not be. What a scenario expects there counts for nothing at its end: the browser tells it when it likes. */
async function visit(browser, { theme = 'light', width = 1300, height = 900, storageState = undefined } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, bypassCSP: false, storageState });
  context.setDefaultTimeout(WAIT_MS);
  await context.addInitScript((it) => localStorage.setItem('leveret.theme', JSON.stringify(it)), theme);
  await context.addInitScript(takeNotes);
  const page = await context.newPage();
  const heard = [];
  page.on('console', (message) => heard.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => heard.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => { heard.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return { context, page, heard };
}

/** Keeps the results that the page tells, which are gone before a slow machine has looked. It runs in the page. */
function takeNotes() {
  const told = /** @type {string[]} */ ((/** @type {any} */ (window)).told = []);
  new MutationObserver(() => {
    for (const note of document.querySelectorAll('.note')) if (note.textContent && told[told.length - 1] !== note.textContent) told.push(note.textContent);
  }).observe(document, { subtree: true, childList: true });
}

/** What axe finds on a page. The script goes in by the debugger, past the page's policy. @param {any} page @param {string[]} [rules] all that are worth keeping, without them */
async function judged(page, rules = []) {
  const client = await page.context().newCDPSession(page);
  if (await page.evaluate(() => !('axe' in window))) await client.send('Runtime.evaluate', { expression: AXE });
  const only = rules.length > 0 ? { type: 'rule', values: rules } : ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  const expression = `axe.run({ include: [['html']], exclude: [['tbody tr:nth-child(n + ${ROWS_JUDGED + 1})']] }, { runOnly: ${JSON.stringify(only)}, resultTypes: ['violations'] })
    .then((found) => JSON.stringify(found.violations.map((it) => it.id + ': ' + it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '')).join(' / '))))`;
  const { result, exceptionDetails } = await client.send('Runtime.evaluate', { expression, awaitPromise: true });
  if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
  await client.detach();
  return JSON.parse(result.value);
}

/** Ends a program that judges without a browser. */
async function check([id, program, words]) {
  const began = performance.now();
  const child = spawn(program, words, { cwd: import.meta.dirname });
  let told = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (data) => { told += data; });
  const status = await new Promise((resolve) => { child.on('close', resolve).on('error', resolve); });
  said(id, status === 0 ? '' : `${status} ${told}`, began);
}

/**
 * Scenarios one after the other at a node of their own. They share a page, and a login, except those that need a
 * profile of their own: each opens the UI anew, and what it has left in the browser is taken away.
 */
async function lane(browser, scenarios) {
  let node = new Node();
  /** @type {any} */
  let shared = null;
  /** @type {any} */
  let storageState;
  try {
    try {
      await node.start();
      await seed(node);
    } catch (error) {
      // Once more where the machine had no time for it.
      console.log(`the node begins anew after ${error.message}`);
      node.end();
      node = new Node();
      await node.start();
      await seed(node);
    }
    const end = await prepare(node, scenarios.map(([id]) => id));
    try {
      for (const [id, options, run] of scenarios) {
        const began = performance.now();
        if (!storageState) {
          shared = await visit(browser);
          await logIn({ page: shared.page, node });
          storageState = await shared.context.storageState();
        }
        const isShared = !options.own && !options.isOut;
        if (isShared) shared ??= await visit(browser, { storageState });
        const seat = isShared ? shared : await visit(browser, { ...options, storageState: options.isOut ? undefined : storageState });
        const { context, page, heard } = seat;
        let isRight = false;
        heard.length = 0;
        try {
          await run({ page, node, judged: (rules) => judged(page, rules), heard });
          isRight = true;
          said(id, heard.splice(0).filter((line) => !options.expected?.test(line)).join('; '), began);
        } catch (error) {
          const seen = await page.locator('body').innerText({ timeout: 10000 }).catch(() => '');
          said(id, `${error.stack ?? error} ${heard.join('; ')} seen: ${seen.replace(/\s+/g, ' ').slice(0, 2000)}`, began);
        }
        if (isShared && isRight) {
          await page.evaluate(() => { for (const key of Object.keys(localStorage)) if (key !== 'leveret.login') localStorage.removeItem(key); });
          await page.goto('about:blank');
        } else {
          await context.close();
          if (isShared) shared = null;
        }
      }
    } finally {
      end();
    }
  } catch (error) {
    said('node', error.stack, 0);
  } finally {
    node.end();
  }
}

const wanted = process.argv.slice(2);
const isWanted = ([id]) => wanted.length === 0 || wanted.includes(id);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const lanes = [1, 2].map((n) => SCENARIOS.filter((it) => isWanted(it) && (it[1].lane ?? 1) === n)).filter((it) => it.length > 0);
await Promise.all([...lanes.map((it) => lane(browser, it)), ...CHECKS.filter(isWanted).map(check)]);
await browser.close();
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed > 0 ? 1 : 0);
