// Opens the live page in a browser and looks at it: `node check.mjs URL CHROMIUM FOLDER`.
// Pictures go to FOLDER. Anything that is not as it should be ends it with status 1.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import puppeteer from "puppeteer-core";

const [url, chromium, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const text = (page, id) => page.$eval(`#${id}`, (element) => element.textContent);
const cells = (page, id) => page.$$eval(`#${id} tr`, (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
const picture = (page, id) => page.$eval(`#${id}`, (canvas) => canvas.toDataURL());
const isPainted = (page, id) => page.$eval(`#${id}`, (canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.some((value) => value !== 0);
});
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const open = async (address, width, height, scheme, before = async () => {}) => {
  const page = await browser.newPage();
  const wrong = [];
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("request", (request) => {
    const its = new URL(request.url());
    if (its.protocol !== "file:" && its.protocol !== "blob:" && its.origin !== new URL(url).origin) wrong.push(request.url());
  });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  // What the engine has said last, to compare.
  await page.evaluateOnNewDocument(() => {
    window.told = [];
    const parse = JSON.parse;
    JSON.parse = (text) => { const value = parse(text); window.told.push(value); return value; };
  });
  await before(page);
  await page.goto(address, { waitUntil: "domcontentloaded" });
  return { page, wrong };
};

const CHARTS = ["rate", "wait", "memory", "service", "window", "offset"];

const looksRight = async (page, wrong, width) => {
  for (const id of CHARTS) assert(await isPainted(page, id), `${id} is empty`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert(wide <= width, `${wide} of ${width} columns: it scrolls sideways`);
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => (await window.axe.run()).violations.map((one) => [one.id, one.nodes.map((node) => node.failureSummary)]));
  assert.deepEqual(violations, [], "it can be read without eyes and without a mouse");
  assert.deepEqual(wrong, []);
};

// As the page writes them.
const scaled = (value, units, step) => {
  let at = 0;
  while (value >= step && at < units.length - 1) { value /= step; at += 1; }
  return `${value < 10 && at > 0 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
};
const size = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);

// What the page shows is what the engine has said last.
const saysWhatTheEngineSays = async (page) => {
  const { stats, link, streams, files, errors, service, before, more_streams } = await page.evaluate(() => ({
    ...window.told.at(-1), before: window.told.at(-2) }));
  const now = await text(page, "now");
  const vain = (100 * stats.wasted_bytes / stats.fetched_bytes).toFixed(stats.wasted_bytes < stats.fetched_bytes / 10 ? 1 : 0);
  for (const part of [`${size(stats.memory_charged_bytes)} of ${size(stats.memory_budget_bytes)}`,
    `${link.requests} of ${link.requests_max} requests`, `${vain} % of what came was not read`, `${stats.read_errors} reads failed`]) {
    assert(now.includes(part), `${part} in ${now}`);
  }
  const shown = await cells(page, "streams");
  assert.equal(shown.length, streams.length);
  assert(streams.length > 0 && more_streams === 0);
  const spent = (of) => of.service.demand_us + of.service.readahead_us;
  const whole = spent({ service }) - spent(before);
  for (const [nth, stream] of streams.entries()) {
    const was = before.streams.find((one) => one.key === stream.key && one.id === stream.id);
    const had = was ? stream.served_us - was.served_us : null;
    const part = had === null || whole <= 0 ? "-" : `${(100 * had / whole).toFixed(had > 0 && had < whole / 10 ? 1 : 0)} %`;
    assert.deepEqual([shown[nth][0], shown[nth][3], shown[nth][4], shown[nth][6], shown[nth][7]],
      [stream.key, size(stream.window_bytes), stream.bound, part, String(stream.late_reads)]);
  }
  assert.deepEqual(await cells(page, "files"), files.map((file) => [file.key, size(file.size_bytes), size(file.read_bytes),
    size(file.fetched_bytes), size(file.wasted_bytes), String(file.late_reads)]));
  assert(files.some((file) => file.wasted_bytes > 0), "one was read in vain");
  const shownErrors = await cells(page, "errors");
  const nth = errors.findIndex((error) => error.what === "read");
  const [error, failed] = [shownErrors[nth], errors[nth]];
  assert.equal(shownErrors.length, errors.length);
  assert.deepEqual([error[1], error[2], error[4]], ["a read failed", failed.kind, String(failed.count)]);
  assert(error[3].startsWith("secret/<img src=x onerror=alert(1)>\\u202e"), `${error[3]}: no more than letters`);
};

// The file that was read in vain: its picture has what was dropped, in words as well.
const showsWaste = async (page) => {
  const chosen = "secret/in vain";
  await page.select("#file", chosen);
  const pieces = await page.evaluate((name) => window.told.flatMap((one) => one.wasted ?? []).filter((piece) => piece.key === name), chosen);
  const bytes = pieces.reduce((sum, piece) => sum + piece.end_bytes - piece.start_bytes, 0);
  const label = await page.$eval("#offset", (canvas) => canvas.ariaLabel);
  assert(bytes > 0 && label.includes(`${size(bytes)} dropped without having been read`), `${bytes} in ${label}`);
  const { files } = await page.evaluate(() => window.told.at(-1));
  const use = files.find((file) => file.key === chosen);
  assert.equal(use.wasted_bytes, bytes, "all of it is in the picture");
  assert((await text(page, "of-file")).includes(`${size(use.wasted_bytes)} were asked for ahead and dropped unread`));
};

// Marks the right half of a chart with the mouse, and comes back by keyboard.
const zooms = async (page) => {
  const before = await picture(page, "rate");
  const box = await (await page.$("#rate")).boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width / 2, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 30, y, { steps: 4 });
  await page.mouse.up();
  assert.notEqual(await picture(page, "rate"), before, "another part of the time is shown");
  assert.equal(await page.$eval("#span", (element) => element.value), "0");
  assert((await text(page, "now-head")).startsWith("At "), "and its figures");
  await page.select("#span", "300");
  await page.focus("#later");
  await page.keyboard.press("Enter");
  assert.equal(await text(page, "now-head"), "Now");
  assert.equal(await picture(page, "rate"), before, "all of it again");
};

try {
  let saved;
  for (const [width, height, scheme] of [[1280, 1200, "light"], [390, 844, "dark"]]) {
    const { page, wrong } = await open(url, width, height, scheme);
    await page.waitForFunction(() => document.getElementById("state").textContent === "live" && document.querySelectorAll("#streams tr").length > 0);
    // Two events and more, so that there are rates.
    await page.waitForFunction(() => window.told.length > 3);

    // By keyboard alone: the first control pauses, and nothing changes any more.
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.id), "pause");
    await page.keyboard.press("Enter");
    assert.equal(await text(page, "state"), "paused");
    const before = [await text(page, "streams"), await picture(page, "rate")];
    await pause(1500);
    assert.deepEqual([await text(page, "streams"), await picture(page, "rate")], before);

    await saysWhatTheEngineSays(page);
    await showsWaste(page);
    await zooms(page);
    await looksRight(page, wrong, width);
    await page.screenshot({ path: `${folder}/page-${width}.png`, fullPage: true });

    if (!saved) {
      // What would be downloaded.
      await page.evaluate(() => {
        URL.createObjectURL = (blob) => { blob.text().then((html) => { window.saved = html; }); return "#"; };
      });
      await page.click("#save");
      await page.waitForFunction(() => window.saved);
      saved = { html: await page.evaluate(() => window.saved), files: await cells(page, "files") };
    }
    await page.close();
  }

  writeFileSync(`${folder}/saved.html`, saved.html);
  const { page, wrong } = await open(`file://${folder}/saved.html`, 1280, 1200, "light");
  await page.waitForFunction(() => document.getElementById("state").textContent.startsWith("saved "));
  assert.deepEqual(await cells(page, "files"), saved.files);
  assert((await page.$eval("#offset", (canvas) => canvas.ariaLabel)).includes("dropped without having been read"), "the file that was chosen");
  await page.select("#span", "15");
  await page.click("#earlier");
  await looksRight(page, wrong, 1280);
  await page.close();

  // Browsers that cannot show it say so.
  const without = await open(url, 1280, 800, "light", (page) => page.setJavaScriptEnabled(false));
  assert((await text(without.page, "state")).includes("needs JavaScript"));
  const old = await open(url, 1280, 800, "light", (page) => page.evaluateOnNewDocument(() => { delete window.EventSource; }));
  assert((await text(old.page, "state")).includes("has no server-sent events"));
  const older = await open(url, 1280, 800, "light", (page) => page.evaluateOnNewDocument(() => { delete Array.prototype.findLast; }));
  assert((await text(older.page, "state")).includes("2022"), "a browser that lacks what the script needs");
} finally {
  await browser.close();
}
console.log("the page is as it should be");
