// Checks receipts here, in the reader's own browser: their hash, and that they lead to the signed head of the log.
// What the hub says of itself is only what it is compared with.

import { canonical, digest, hash, hex, parse, parseBytes, utf8 } from "./canonical.js";
import { $, $$ } from "./shell.js";

const MAX_FILE = 32 * 1024 * 1024;
const MOST_DIFFERENCES = 12;
const { document } = globalThis;

const field = (value, name) => (value instanceof Map ? value.get(name) : undefined);
const textOf = (value, name) => (typeof field(value, name) === "string" ? field(value, name) : null);

function element(name, className, ...inside) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...inside);
  return made;
}

// The sides of a Merkle tree (RFC 9162, 2.1.3.2), from a leaf to the root; nothing if the path does not fit.
function rootOf(leaf, index, size, path) {
  const node = (left, right) => digest(Uint8Array.from([1, ...left, ...right]));
  let [at, last, root] = [index, size - 1, leaf];
  for (const step of path) {
    if (last === 0) return null;
    const other = Uint8Array.from(step.match(/../g).map((pair) => Number.parseInt(pair, 16)));
    if (at % 2 === 1 || at === last) {
      root = node(other, root);
      while (at % 2 === 0 && at !== 0) [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
    } else root = node(root, other);
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  return last === 0 ? root : null;
}

// Whether a receipt's own place in the log leads to the head that comes with it; in words.
function checkLog(receipt) {
  const log = field(receipt, "log");
  const path = field(log, "inclusion_proof");
  const index = field(log, "index");
  const [, size, root] = (textOf(log, "checkpoint") ?? "").split("\n");
  const whole = (n) => Number.isSafeInteger(n) && n >= 0;
  const proper = Array.isArray(path) && path.length < 64 && path.every((step) => /^[0-9a-f]{64}$/.test(step));
  if (!proper || !whole(index) || !whole(Number(size)) || index >= Number(size)) return null;
  const payload = field(receipt, "payload");
  const leaf = new Map([["receipt_id", field(receipt, "receipt_id")], ["generated_at", field(receipt, "generated_at")],
    ["payload_hash", field(receipt, "payload_hash")], ["protocol_version", field(payload, "protocol_version")],
    ["label", field(payload, "label")]]);
  const reached = rootOf(digest(Uint8Array.from([0, ...utf8(canonical(leaf))])), index, Number(size), path);
  const good = reached !== null && btoa(String.fromCharCode(...reached)) === root;
  return { good, index, size: Number(size), steps: path.length };
}

const decode = (base64) => Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));

// The hub's keys in a form that this browser checks with; nothing where it cannot (it has no Ed25519, or the page did not come by a
// way that browsers call secure).
async function hubKeys() {
  const { subtle } = globalThis.crypto ?? {};
  if (!subtle) return null;
  const answer = await fetch("/.well-known/chorus-keys.json");
  if (!answer.ok) return null;
  try {
    const keys = (await answer.json()).keys.map(({ public_key: encoded }) => subtle.importKey("raw", decode(encoded), "Ed25519", false, ["verify"]));
    return await Promise.all(keys);
  } catch {
    return null;
  }
}
async function signedBy(keys, signatures, bytes) {
  for (const key of keys) {
    for (const one of signatures) if (await globalThis.crypto.subtle.verify("Ed25519", key, one, bytes)) return true;
  }
  return false;
}

// Whether one of this hub's keys signed the head: yes, no, or nothing where this browser cannot tell.
async function checkSignature(receipt, keys) {
  const note = textOf(field(receipt, "log"), "checkpoint") ?? "";
  const end = note.indexOf("\n\n");
  const [origin] = note.split("\n");
  if (!keys) return null;
  const start = `\u2014 ${origin} `;
  try {
    // The first four bytes only name the key.
    const signed = note.slice(end + 2).split("\n").filter((line) => line.startsWith(start)).map((line) => decode(line.slice(start.length)).slice(4));
    return end >= 0 && await signedBy(keys, signed, utf8(note.slice(0, end + 1)));
  } catch {
    return false;
  }
}

// Whether one of this hub's keys signed the attestation (DSSE), and whether that speaks of this payload.
async function checkAttestation(receipt, computed, keys) {
  const envelope = field(receipt, "attestation");
  const [type, body, signatures] = [textOf(envelope, "payloadType"), textOf(envelope, "payload"), field(envelope, "signatures")];
  if (type !== "application/vnd.in-toto+json" || !body || !Array.isArray(signatures)) return false;
  try {
    const said = decode(body);
    const subject = field(parseBytes(said.buffer), "subject");
    if (textOf(field(subject?.[0], "digest"), "sha256") !== computed) return false;
    if (!keys) return null;
    const start = utf8(`DSSEv1 ${type.length} ${type} ${said.length} `);
    return await signedBy(keys, signatures.map((one) => decode(textOf(one, "sig") ?? "")), Uint8Array.from([...start, ...said]));
  } catch {
    return false;
  }
}

// Where two values differ, as paths.
function differences(one, other, path, found) {
  if (found.length > MOST_DIFFERENCES || canonical(one) === canonical(other)) return found;
  const both = (kind) => kind(one) && kind(other);
  if (both((v) => v instanceof Map)) {
    for (const name of new Set([...one.keys(), ...other.keys()])) {
      if (one.has(name) && other.has(name)) differences(one.get(name), other.get(name), `${path}.${name}`, found);
      else found.push(`${path}.${name}`);
    }
  } else if (both(Array.isArray) && one.length === other.length) {
    one.forEach((item, n) => differences(item, other[n], `${path}[${n}]`, found));
  } else found.push(path);
  return found;
}

function mark(item, good, words, small) {
  if (!item) return;
  item.className = good ? "held" : "broken";
  item.replaceChildren(element("strong", "", words), ...(small ? [element("span", "small muted", small)] : []));
}

async function fetchReceipt(id) {
  const answer = await fetch(`/api/v1/receipts/${encodeURIComponent(id)}`, { headers: { accept: "application/json" } });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`the hub answered ${answer.status}`);
  return parse(await answer.text());
}

function logWords(log, signed) {
  if (!log.good) return "Its proof does not lead to the root of its checkpoint";
  if (signed === false) return "No key of this hub signed its checkpoint";
  const proof = `An inclusion proof of ${log.steps} step${log.steps === 1 ? "" : "s"} leads to the root of its checkpoint`;
  return signed ? `${proof}, and the checkpoint's signature is this hub's` : `${proof}; this browser cannot check who signed that`;
}

// The receipt of this page.
async function checkThis(box) {
  const [byHash, byLog] = [$("[data-by=hash]", box), $("[data-by=log]", box)];
  try {
    const receipt = await fetchReceipt(box.dataset.receipt);
    const [given, computed] = [textOf(receipt, "payload_hash"), hash(field(receipt, "payload"))];
    const good = given === computed && given === box.dataset.hash;
    mark(byHash, good, good ? "Hash recomputed in this browser: matches" : "Hash recomputed in this browser: does not match");
    $("[data-computed]", box).textContent = computed;
    const log = checkLog(receipt);
    const signed = log?.good ? await checkSignature(receipt, await hubKeys()) : null;
    const inLog = log?.good && signed !== false;
    if (log) mark(byLog, inLog, inLog ? `In the public log: entry ${log.index + 1} of ${log.size}` : "The log does not show this receipt", logWords(log, signed));
    const whole = good && inLog;
    box.classList.toggle("altered", !whole);
    $("[data-verdict]", box).textContent = whole ? "This is the original" : "This is not what was issued";
    $("[data-where]", box).textContent = "checked here, just now";
    box.dataset.checked = whole ? "good" : "bad";
  } catch (error) {
    $("[data-where]", box).textContent = `this browser could not check it: ${error.message}`;
    box.dataset.checked = "unknown";
  }
}

// Hashes by what each is; equal ones are said once.
function hashes(...named) {
  const list = element("dl", "hashes");
  for (const [name, value] of named) list.append(element("dt", "", name), element("dd", "mono", value ?? "none"));
  return list;
}

function say(out, state, title, ...rest) {
  out.className = `card stack dropped ${state}`;
  out.dataset.state = state;
  out.replaceChildren(element("h3", "", title), ...rest.map((one) => (typeof one === "string" ? element("p", "", one) : one)));
  out.hidden = false;
}

// What a receipt is made of: whatever else stands in a file was put there by somebody else.
const PARTS = ["receipt_id", "generated_at", "payload_hash", "payload", "log", "attestation"];

// What was checked of a file, each by itself: one that holds says nothing of the others.
function checksOf(receipt, { log, logSigned, attested }) {
  const inLog = log?.good && logSigned !== false;
  const list = element("ul", "checks");
  const add = (state, words, small) => list.append(element("li", state, element("strong", "", words), element("span", "small muted", small)));
  add("held", "Hash: matches", "The payload has the hash that the file says.");
  add(attested === false ? "broken" : attested ? "held" : "plain", "The hub's signature",
    attested === false ? "No key of this hub signed its attestation, or it speaks of something else."
      : attested ? "A key of this hub signed its attestation." : "This browser cannot check who signed it.");
  add(inLog ? "held" : "broken", "Its place in the log", log ? logWords(log, logSigned) : "It has none that leads anywhere.");
  const evidence = field(field(receipt, "payload"), "evidence");
  const status = textOf(evidence, "verification_status");
  add(status && status !== "user_asserted" ? "held" : "plain", status ? `Evidence: ${status.replaceAll("_", " ")}` : "No evidence",
    status ? textOf(evidence, "statement") ?? "" : "It follows from the Score alone.");
  return list;
}

// A file that somebody was given: whole in itself, signed, and the one that this hub issued.
async function checkFile(file, out) {
  if (file.size > MAX_FILE) return say(out, "bad", "This file is too large", "A receipt has at most 32 MB.");
  let receipt;
  try {
    receipt = parseBytes(await file.arrayBuffer());
  } catch (error) {
    return say(out, "bad", "This is no receipt", `It is not JSON that everybody reads alike: ${error.message}.`);
  }
  const payload = field(receipt, "payload");
  if (textOf(receipt, "canonical_payload") !== null && payload === undefined) {
    return say(out, "unknown", "This is an answer about a receipt", "It is what a hub answers to /api/public/verify, without the hub's signature. Bring the receipt itself: /api/v1/receipts/ID.");
  }
  if (!(payload instanceof Map)) return say(out, "bad", "This is no receipt", "It has no payload.");
  const [given, computed, id] = [textOf(receipt, "payload_hash"), hash(payload), textOf(receipt, "receipt_id")];
  const original = id ? await fetchReceipt(id).catch(() => undefined) : null;
  const changed = original ? differences(field(original, "payload"), payload, "payload", []) : [];
  for (const name of ["generated_at", "payload_hash"]) if (original && textOf(original, name) !== textOf(receipt, name)) changed.push(name);
  const listed = (words, paths) => [element("p", "", words), element("ul", "mono small", ...paths.slice(0, MOST_DIFFERENCES).map((path) => element("li", "", path)))];
  const where = changed.length ? listed("What differs from what this hub issued:", changed) : [];
  const link = original ? [element("p", "", "What this hub issued: ", Object.assign(element("a", "", "the original receipt"), { href: `/receipts/${id}` }))] : [];
  if (given !== computed) {
    return say(out, "bad", "This receipt was altered", "Its content does not have the hash that it says it has. Do not rely on it.",
      hashes(["in the file", given], ["computed", computed]), ...where, ...link);
  }
  if (changed.length) {
    const issued = textOf(original, "payload_hash");
    const both = issued === computed ? [["in the file, and issued", computed]] : [["in the file", given], ["issued by this hub", issued]];
    return say(out, "bad", "This is not the receipt that was issued", "It is whole in itself, but what this hub issued under its id is something else.",
      hashes(...both), ...where, ...link);
  }
  // Who issues a receipt is told its address, too: that is no more than what the log's head and the id say.
  const [origin] = (textOf(field(receipt, "log"), "checkpoint") ?? "").split("\n");
  const isAddress = (name) => name === "verify_url" && receipt.get(name) === `${origin}/verify/${id}`;
  const added = [...receipt.keys()].filter((name) => !PARTS.includes(name) && !isAddress(name));
  if (added.length) {
    return say(out, "bad", "Something was added to this receipt", "It holds parts that no receipt has, and that nobody signed. Do not rely on them.",
      ...listed("What was added:", added), ...link);
  }
  const mine = hashes(["in the file, and computed", computed]);
  if (!original) {
    const why = original === undefined ? "The hub could not be asked whether it issued it." : "This hub did not issue it: whoever gave it to you can tell which one did, or whether it was made offline.";
    return say(out, "unknown", "Whole in itself", `Its hash matches. ${why}`, mine);
  }
  const [keys, log] = [await hubKeys(), checkLog(receipt)];
  const checked = { log, logSigned: log?.good ? await checkSignature(receipt, keys) : null, attested: await checkAttestation(receipt, computed, keys) };
  const checks = checksOf(receipt, checked);
  if (checked.attested === false || !log?.good || checked.logSigned === false) {
    return say(out, "bad", "Its proofs were altered", "What it says is what this hub issued, but the file does not prove it: its signature or its place in the log is gone, or not this hub's. Take the original instead.",
      checks, mine, ...link);
  }
  return say(out, "good", "This is the original", "Its hash matches, and this hub issued it.", checks, mine, ...link);
}

for (const box of $$("[data-receipt]")) checkThis(box);

for (const drop of $$("[data-drop]")) {
  const out = $("[data-out]", drop);
  const check = (file) => file && checkFile(file, out);
  drop.hidden = false;
  $("input", drop).addEventListener("change", (event) => check(event.target.files[0]));
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    check(event.dataTransfer.files[0]);
  });
}
for (const button of $$("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => globalThis.print());
}
