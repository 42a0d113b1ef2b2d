// Opens the live page in a browser and looks at it: `node check.mjs URL CHROMIUM FOLDER`.
// Pictures go to FOLDER. Anything that is not as it should be ends it with status 1.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import puppeteer from "puppeteer-core";

const [url, chromium, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const text = (page, id) => page.$eval(`#${id}`, (element) => element.textContent);
const isPainted = (page, id) => page.$eval(`#${id}`, (canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.some((value) => value !== 0);
});

const open = async (address, width, height, scheme) => {
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
  await page.goto(address, { waitUntil: "domcontentloaded" });
  return { page, wrong };
};

const looksRight = async (page, wrong, width) => {
  for (const id of ["rate", "wait", "memory", "offset"]) assert(await isPainted(page, id), `${id} is empty`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert(wide <= width, `${wide} of ${width} columns: it scrolls sideways`);
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => (await window.axe.run()).violations.map((one) => [one.id, one.nodes.map((node) => node.failureSummary)]));
  assert.deepEqual(violations, [], "it can be read without eyes and without a mouse");
  assert.deepEqual(wrong, []);
};

try {
  let saved;
  for (const [width, height, scheme] of [[1280, 1200, "light"], [390, 844, "dark"]]) {
    const { page, wrong } = await open(url, width, height, scheme);
    await page.waitForFunction(() => document.getElementById("state").textContent === "live" && document.querySelectorAll("#streams tr").length > 0);
    // Two events, so that there is a rate.
    await new Promise((done) => setTimeout(done, 2500));
    const { stats, link, streams } = await (await fetch(`${url}snapshot`)).json();
    const now = await text(page, "now");
    for (const part of [`of ${Math.round(stats.memory_budget_bytes / 1048576)} MiB`, `of ${link.requests_max} requests`]) {
      assert(now.includes(part), `${part} in ${now}`);
    }
    assert((await text(page, "streams")).includes(streams[0].key));
    await looksRight(page, wrong, width);
    await page.screenshot({ path: `${folder}/page-${width}.png`, fullPage: true });

    // By keyboard alone: the first control pauses, and nothing changes any more.
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.id), "pause");
    await page.keyboard.press("Enter");
    assert.equal(await text(page, "state"), "paused");
    const before = await text(page, "streams");
    await new Promise((done) => setTimeout(done, 1500));
    assert.equal(await text(page, "streams"), before);

    if (!saved) {
      // What would be downloaded.
      await page.evaluate(() => {
        URL.createObjectURL = (blob) => { blob.text().then((html) => { window.saved = html; }); return "#"; };
      });
      await page.click("#save");
      await page.waitForFunction(() => window.saved);
      saved = await page.evaluate(() => window.saved);
    }
    await page.close();
  }
  const { writeFileSync } = await import("node:fs");
  writeFileSync(`${folder}/saved.html`, saved);
  const { page, wrong } = await open(`file://${folder}/saved.html`, 1280, 1200, "light");
  await page.waitForFunction(() => document.getElementById("state").textContent.startsWith("saved "));
  await looksRight(page, wrong, 1280);
} finally {
  await browser.close();
}
console.log("the page is as it should be");
