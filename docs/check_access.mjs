// Looks at the built site in a real browser, with axe: `make docs` first, then in docs/
//   npm install --no-save axe-core puppeteer-core && node check_access.mjs ../out/docs [PAGE ...]
// CHROME names the browser (/usr/bin/chromium). It fails where a page has serious or critical
// findings, light or dark, wide or narrow, or where the search finds nothing without a network.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { extname, join, resolve } from "node:path";
import puppeteer from "puppeteer-core";

const PAGES = [
  "index.html", "start.html", "guide.html", "guide/features.html", "guide/control.html",
  "gallery/index.html", "gallery/plot_photograph.html", "coming-from/lightgbm.html", "theory.html",
  "reference.html", "reference/gramless.KernelRegressor.html", "papers.html", "measured.html",
  "developers.html", "architecture.html", "decisions/README.html",
];
const TYPES = {
  ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
  ".png": "image/png", ".woff2": "font/woff2", ".json": "application/json",
};
const site = resolve(process.argv[2] ?? "../out/docs");
const pages = process.argv.length > 3 ? process.argv.slice(3) : PAGES;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const server = createServer(async (request, response) => {
  const path = decodeURIComponent(new URL(request.url, "http://site").pathname);
  try {
    const file = join(site, path);
    response.setHeader("Content-Type", TYPES[extname(file)] ?? "text/plain");
    response.end(await readFile(file));
  } catch {
    response.statusCode = 404;
    response.end();
  }
}).listen(0, "127.0.0.1");
await new Promise((done) => server.once("listening", done));
const place = `http://127.0.0.1:${server.address().port}/`;

const browser = await puppeteer.launch({
  executablePath: process.env.CHROME ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
const tab = await browser.newPage();
let faults = 0;
const fault = (text) => { faults += 1; console.log(text); };
tab.on("request", (request) => {
  if (!/^(http:\/\/127\.0\.0\.1|data:|blob:)/.test(request.url())) fault(`asks for ${request.url()}`);
});

for (const page of pages) {
  for (const scheme of ["light", "dark"]) {
    for (const width of [1400, 390]) {
      await tab.setViewport({ width, height: 900 });
      await tab.emulateMediaFeatures([
        { name: "prefers-color-scheme", value: scheme },
        { name: "prefers-reduced-motion", value: "reduce" },
      ]);
      await tab.goto(place + page, { waitUntil: "load" });
      await new Promise((done) => setTimeout(done, 300)); // colours change gradually
      await tab.evaluate(axe);
      const found = await tab.evaluate(() => axe.run({ resultTypes: ["violations"] }));
      for (const one of found.violations.filter((v) => ["serious", "critical"].includes(v.impact))) {
        const where = one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ");
        fault(`${page}, ${scheme}, ${width}: ${one.id} (${one.impact}), ${one.nodes.length}: ${where}`);
      }
      const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 1) fault(`${page}, ${width}: ${over} pixels wider than the window`);
      if (process.env.SHOTS) {
        const name = page.replaceAll("/", "_").replace(".html", "");
        await tab.screenshot({ path: join(process.env.SHOTS, `${name}-${scheme}-${width}.png`) });
      }
    }
  }
}
await tab.goto(`${place}search.html?q=bandwidth`, { waitUntil: "load" });
const hits = await tab
  .waitForFunction(() => document.querySelectorAll("#search-results li").length, { timeout: 10000 })
  .then((handle) => handle.jsonValue())
  .catch(() => 0);
if (!hits) fault("the search for bandwidth finds nothing");
console.log(`${pages.length} pages, light and dark, wide and narrow; search: ${hits} pages; faults: ${faults}`);
await browser.close();
server.close();
process.exit(faults ? 1 : 0);
