// drive.js PAGE [PICTURES]: opens a page in Chromium as a double click does, does what people do
// with it, and prints what it found as one line of JSON. With PICTURES, a folder, it leaves
// screenshots of it there.
const path = require("path");
const { chromium } = require(
    path.join(__dirname, "../../../target/judges/chromium/node_modules/playwright-core"),
);

async function main(file, pictures) {
    const browser = await chromium.launch({
        executablePath: "/usr/bin/chromium",
        args: ["--no-sandbox", "--enable-precise-memory-info"],
    });
    const found = { messages: [], requests: [], dialogs: [] };
    const open = async (width, height, colorScheme) => {
        const context = await browser.newContext({ viewport: { width, height }, colorScheme });
        const page = await context.newPage();
        page.on("console", (message) => found.messages.push(message.text()));
        page.on("pageerror", (error) => found.messages.push(String(error)));
        page.on("request", (request) => found.requests.push(request.url()));
        page.on("dialog", (dialog) => {
            found.dialogs.push(dialog.message());
            dialog.dismiss();
        });
        await page.goto(`file://${file}`);
        await page.waitForFunction(() => document.documentElement.dataset.ready, null, {
            timeout: 60000,
        });
        return page;
    };
    const page = await open(1280, 900, "light");
    found.ready_ms = Number(await page.evaluate(() => document.documentElement.dataset.ready));
    const client = await page.context().newCDPSession(page);
    await client.send("HeapProfiler.collectGarbage");
    found.heap = (await client.send("Runtime.getHeapUsage")).usedSize;
    // All that the process of the page has, in KiB.
    const processes = (
        await (await browser.newBrowserCDPSession()).send("SystemInfo.getProcessInfo")
    ).processInfo;
    const memory = (id) => {
        const status = require("fs").readFileSync(`/proc/${id}/status`, "utf8");
        const of = (key) => Number((status.match(new RegExp(`${key}:\\s+(\\d+)`)) || [0, 0])[1]);
        return of("RssAnon") * 1024;
    };
    found.renderer = Math.max(
        ...processes.filter((of) => of.type === "renderer").map((of) => memory(of.id)),
    );
    found.markup = await page.evaluate(
        () =>
            document.querySelectorAll("img, iframe, object, embed, link, body script[src]").length,
    );
    found.title = await page.title();
    found.sentence = await page.textContent("#sentence");
    const text = (selector) => page.textContent(selector);
    if (pictures) {
        await page.screenshot({ path: path.join(pictures, "page.png") });
    }

    // Zoom and pan, by buttons, keys and wheel.
    found.ranges = [await text("#range")];
    const after = async (act) => {
        await act();
        await page.waitForTimeout(80);
        found.ranges.push(await text("#range"));
    };
    await after(() => page.click("#to-all"));
    await after(() => page.click("#zoom-in"));
    await page.focus("#lanes");
    await after(() => page.keyboard.press("ArrowRight"));
    await after(() => page.keyboard.press("-"));
    const box = await page.locator("#lanes").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + 10);
    await page.keyboard.down("Control");
    await after(() => page.mouse.wheel(0, -200));
    await page.keyboard.up("Control");
    await after(() => page.keyboard.press("c"));

    // Hover: over the first rows, from left to right, until something is told.
    found.tips = [];
    for (let y = 8; y < Math.min(box.height, 400) && found.tips.length < 12; y += 8) {
        for (const part of [0.3, 0.5, 0.7]) {
            await page.mouse.move(box.x + box.width * part, box.y + y);
            await page.waitForTimeout(5);
            const tip = page.locator("#tip");
            if (await tip.isVisible()) found.tips.push(await tip.innerText());
        }
    }
    // By keys: the first row, and its stretches.
    await page.keyboard.press("PageDown");
    await page.keyboard.press(".");
    await page.waitForTimeout(80);
    found.detail = await text("#detail");

    // Tables: each, sorted by its first column up and down.
    found.tables = {};
    for (const tab of await page.locator("#tabs button").all()) {
        const name = await tab.textContent();
        await tab.click();
        const column = async () => page.locator("#table tbody tr td:first-child").allTextContents();
        if (!(await page.locator("#table th").count())) {
            found.tables[name] = null;
            continue;
        }
        const sorts = async () => page.locator("#table th").first().getAttribute("aria-sort");
        await page.locator("#table th button").first().click();
        const up = [await sorts(), await column()];
        await page.locator("#table th button").first().click();
        found.tables[name] = [up, [await sorts(), await column()]];
    }
    found.lines = await page.locator("#lines div").count();

    // A phone, in the dark: nothing is wider than the screen.
    const phone = await open(390, 844, "dark");
    found.phone = await phone.evaluate(() => document.documentElement.scrollWidth);
    if (pictures) {
        const clip = { x: 0, y: 0, width: 390, height: 1200 };
        await phone.screenshot({
            path: path.join(pictures, "page-phone.png"),
            fullPage: true,
            clip,
        });
    }
    await browser.close();
    console.log(JSON.stringify(found));
}

main(path.resolve(process.argv[2]), process.argv[3]).catch((error) => {
    console.error(String(error));
    process.exit(1);
});
