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

// Whether one of this hub's keys signed the head: yes, no, or nothing where this browser cannot tell (it has no Ed25519, or
// the page did not come by a way that browsers call secure).
async function checkSignature(receipt) {
  const note = textOf(field(receipt, "log"), "checkpoint") ?? "";
  const end = note.indexOf("\n\n");
  const [origin] = note.split("\n");
  const { subtle } = globalThis.crypto ?? {};
  if (end < 0 || !subtle) return null;
  const answer = await fetch("/.well-known/chorus-keys.json");
  if (!answer.ok) return null;
  const text = utf8(note.slice(0, end + 1));
  const start = `\u2014 ${origin} `;
  const signed = note.slice(end + 2).split("\n").filter((line) => line.startsWith(start)).map((line) => decode(line.slice(start.length)));
  for (const { public_key: encoded } of (await answer.json()).keys) {
    let key;
    try {
      key = await subtle.importKey("raw", decode(encoded), "Ed25519", false, ["verify"]);
    } catch {
      return null;
    }
    // The first four bytes only name the key.
    for (const bytes of signed) if (await subtle.verify("Ed25519", key, bytes.slice(4), text)) return true;
  }
  return false;
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
    const signed = log?.good ? await checkSignature(receipt) : null;
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

function hashes(given, computed) {
  const list = element("dl", "hashes");
  for (const [name, value] of [["in the file", given ?? "none"], ["computed", computed]]) {
    list.append(element("dt", "", name), element("dd", "mono", value));
  }
  return list;
}

function say(out, state, title, ...rest) {
  out.className = `card stack dropped ${state}`;
  out.dataset.state = state;
  out.replaceChildren(element("h3", "", title), ...rest.map((one) => (typeof one === "string" ? element("p", "", one) : one)));
  out.hidden = false;
}

// A file that somebody was given: whole in itself, and the one that this hub issued.
async function checkFile(file, out) {
  if (file.size > MAX_FILE) return say(out, "bad", "This file is too large", "A receipt has at most 32 MB.");
  let receipt;
  try {
    receipt = parseBytes(await file.arrayBuffer());
  } catch (error) {
    return say(out, "bad", "This is no receipt", `It is not JSON that everybody reads alike: ${error.message}.`);
  }
  const payload = field(receipt, "payload");
  if (!(payload instanceof Map)) return say(out, "bad", "This is no receipt", "It has no payload.");
  const [given, computed, id] = [textOf(receipt, "payload_hash"), hash(payload), textOf(receipt, "receipt_id")];
  const original = id ? await fetchReceipt(id).catch(() => undefined) : null;
  const changed = original ? differences(field(original, "payload"), payload, "payload", []) : [];
  const where = changed.length
    ? [element("p", "", "What differs from what this hub issued:"),
      element("ul", "mono small", ...changed.slice(0, MOST_DIFFERENCES).map((path) => element("li", "", path)))]
    : [];
  const link = original ? [element("p", "", "What this hub issued: ", Object.assign(element("a", "", "the original receipt"), { href: `/receipts/${id}` }))] : [];
  if (given !== computed) {
    return say(out, "bad", "This receipt was altered", "Its content does not have the hash that it says it has. Do not rely on it.",
      hashes(given, computed), ...where, ...link);
  }
  if (original && (textOf(original, "payload_hash") !== computed || textOf(original, "generated_at") !== textOf(receipt, "generated_at"))) {
    return say(out, "bad", "This is not the receipt that was issued", "It is whole in itself, but what this hub issued under its id is something else.",
      hashes(textOf(original, "payload_hash"), computed), ...where, ...link);
  }
  if (original) return say(out, "good", "This is the original", "Its hash matches, and this hub issued it.", hashes(given, computed), ...link);
  const why = original === undefined ? "The hub could not be asked whether it issued it." : "This hub did not issue it: whoever gave it to you can tell which one did, or whether it was made offline.";
  return say(out, "unknown", "Whole in itself", `Its hash matches. ${why}`, hashes(given, computed));
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
