// lake.mjs make ENDPOINT            makes the container `lake`, which anybody may read
// lake.mjs download ENDPOINT DIR    downloads all of its blobs, to their names below DIR
// lake.mjs begun ENDPOINT           prints the names of those of which blocks were uploaded, and no
//                                   list of blocks, behind the number of these blocks
//
// ENDPOINT has the account in its path, as Azurite's has: http://127.0.0.1:PORT/devstoreaccount1
import { createHmac } from "node:crypto";
import fs from "node:fs";
import { dirname, join } from "node:path";

const ACCOUNT = "devstoreaccount1";
// The key that all of Azurite's installations have.
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const [, , what, endpoint, directory] = process.argv;
const container = `${endpoint}/lake`;

// What the container, or a blob of it, answers to a request of ours.
async function ask(method, query, more, blob) {
  const resource = blob ? `${container}/${blob}` : container;
  const headers = {
    ...more,
    "x-ms-date": new Date().toUTCString(),
    "x-ms-version": "2021-12-02",
  };
  // "Authorize with Shared Key" of Azure's documentation: the method, eleven empty headers, those
  // of x-ms, and the resource.
  const ours = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join("");
  const path = new URL(resource).pathname;
  const keys = Object.keys(query).sort().map((key) => `\n${key}:${query[key]}`).join("");
  const text = `${method}${"\n".repeat(12)}${ours}/${ACCOUNT}${path}${keys}`;
  const signature = createHmac("sha256", Buffer.from(KEY, "base64")).update(text).digest("base64");
  headers.Authorization = `SharedKey ${ACCOUNT}:${signature}`;
  const answer = await fetch(`${resource}?${new URLSearchParams(query)}`, { method, headers });
  const said = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status}: ${said}`);
  return said;
}

const make = () => ask("PUT", { restype: "container" }, { "x-ms-blob-public-access": "container" });

async function begun() {
  const list = { restype: "container", comp: "list" };
  const names = async (query) => {
    const found = (await ask("GET", query, {})).matchAll(/<Blob><Name>([^<]+)<\/Name>/g);
    return [...found].map(([, name]) => name);
  };
  const whole = new Set(await names(list));
  const all = await names({ ...list, include: "uncommittedblobs" });
  for (const name of all.filter((name) => !whole.has(name))) {
    const blocks = await ask("GET", { comp: "blocklist", blocklisttype: "uncommitted" }, {}, name);
    console.log([...blocks.matchAll(/<Block>/g)].length, name);
  }
}

async function download() {
  let marker = "";
  do {
    const next = `&marker=${encodeURIComponent(marker)}`;
    const listed = await fetch(`${container}?restype=container&comp=list${next}`);
    const text = await listed.text();
    if (!listed.ok) throw new Error(`${listed.status}: ${text}`);
    for (const [, name] of text.matchAll(/<Blob><Name>([^<]+)<\/Name>/g)) {
      const got = await fetch(`${container}/${name}`);
      if (!got.ok) throw new Error(`${name}: ${got.status}`);
      const path = join(directory, name);
      fs.mkdirSync(dirname(path), { recursive: true });
      fs.writeFileSync(path, Buffer.from(await got.arrayBuffer()));
    }
    marker = text.match(/<NextMarker>([^<]+)<\/NextMarker>/)?.[1] ?? "";
  } while (marker !== "");
}

await { make, download, begun }[what]();
