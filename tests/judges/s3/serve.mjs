// serve.mjs PACKAGES DIR PORT [KEY CERTIFICATE]: an S3 server on loopback with the bucket `lake`,
// whose objects are files below DIR: it may be killed at any time. Both keys are S3RVER. Prints
// `ready`.
import fs from "node:fs";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";

const [, , packages, directory, port, key, cert] = process.argv;
const require = createRequire(join(packages, "x.js"));
const main = require.resolve("@20minutes/s3rver");
// s3rver refuses requests that are signed at a time more than 15 minutes from its own, but does not
// notice that it can't read the times in x-amz-date: it asks whether a Date is the number NaN.
const utils = require(join(dirname(main), "utils.js"));
utils.parseDate = (text) => {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? utils.parseISO8601String(text) : date;
};
const { default: S3rver } = await import(pathToFileURL(main));
const server = new S3rver({
  address: "127.0.0.1",
  port: Number(port),
  directory,
  silent: true,
  resetOnClose: false,
  configureBuckets: [{ name: "lake" }],
  key: key && fs.readFileSync(key),
  cert: cert && fs.readFileSync(cert),
});
// Google's XML API is S3's protocol with tokens in place of signatures: these are not checked.
server.middleware.unshift((context, next) => {
  if (context.req.headers.authorization?.startsWith("Bearer")) {
    delete context.req.headers.authorization;
  }
  return next();
});
// An object is there whole or not at all, as S3 promises of PutObject; s3rver itself leaves a part
// of what a killed client was sending in place of what was there.
let parts = 0;
server.store.putContent = async (path, content) => {
  const [hash, part] = [createHash("md5"), `${path}.part${++parts}`];
  let length = 0;
  async function* count(chunks) {
    for await (const chunk of chunks) {
      hash.update(chunk);
      length += chunk.length;
      yield chunk;
    }
  }
  try {
    const source = Buffer.isBuffer(content) ? Readable.from([content]) : content;
    await pipeline(source, count, fs.createWriteStream(part));
    fs.renameSync(part, path);
  } catch (error) {
    fs.rmSync(part, { force: true });
    throw error;
  }
  return [length, hash.digest("hex")];
};
await server.run();
console.log("ready");
