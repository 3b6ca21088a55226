// JSON that every reader understands alike, its canonical form (RFC 8785) and SHA-256: the same bytes and the same hash as
// the hub's. Nothing here is the browser's own parser or hash: that parser lets pass what the hub refuses, and hashing is not there
// for pages that come without TLS.

const MAX_DEPTH = 64;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const SHORT = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail(what) {
    throw new SyntaxError(`${what}, at character ${this.at + 1}`);
  }

  space() {
    while (" \t\n\r".includes(this.text[this.at] || "x")) this.at += 1;
  }

  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found?.[0];
  }

  skip(sign) {
    if (this.text[this.at] !== sign) this.fail(`${sign} is missing`);
    this.at += 1;
  }

  value(depth) {
    if (depth > MAX_DEPTH) this.fail(`it is nested deeper than ${MAX_DEPTH}`);
    this.space();
    const sign = this.text[this.at];
    if (sign === "{") return this.object(depth);
    if (sign === "[") return this.array(depth);
    if (sign === '"') return this.string();
    for (const [word, meaning] of [["true", true], ["false", false], ["null", null]]) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return meaning;
      }
    }
    return this.number();
  }

  number() {
    const text = this.take(NUMBER);
    if (text === undefined) this.fail("this is no value");
    const number = Number(text);
    // Beyond this, two readers may see two numbers.
    if (!Number.isFinite(number) || (Number.isInteger(number) && !Number.isSafeInteger(number))) {
      this.fail("a number is too large to be exact");
    }
    return number;
  }

  string() {
    this.skip('"');
    let made = "";
    for (;;) {
      made += this.take(PLAIN);
      const sign = this.text[this.at];
      if (sign === '"') break;
      if (sign !== "\\") this.fail("a text does not end, or has a control character in it");
      const code = this.text[this.at + 1];
      const hex = this.text.slice(this.at + 2, this.at + 6);
      if (code === "u" && /^[0-9a-fA-F]{4}$/.test(hex)) {
        made += String.fromCharCode(Number.parseInt(hex, 16));
        this.at += 6;
      } else if (Object.hasOwn(SHORT, code)) {
        made += SHORT[code];
        this.at += 2;
      } else this.fail("an escape is none");
    }
    this.at += 1;
    if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(made)) {
      this.fail("half a character stands alone");
    }
    return made;
  }

  array(depth) {
    const items = [];
    this.skip("[");
    this.space();
    if (this.text[this.at] === "]") {
      this.at += 1;
      return items;
    }
    for (;;) {
      items.push(this.value(depth + 1));
      this.space();
      if (this.text[this.at] !== ",") break;
      this.at += 1;
    }
    this.skip("]");
    return items;
  }

  object(depth) {
    // A map: a name like __proto__ is a name like any other.
    const members = new Map();
    this.skip("{");
    this.space();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return members;
    }
    for (;;) {
      this.space();
      const name = this.string();
      if (members.has(name)) this.fail("a name stands twice in one object");
      this.space();
      this.skip(":");
      members.set(name, this.value(depth + 1));
      this.space();
      if (this.text[this.at] !== ",") break;
      this.at += 1;
    }
    this.skip("}");
    return members;
  }
}

// Reads one value, objects as maps, or throws what is wrong with it.
export function parse(text) {
  const reader = new Reader(text);
  const value = reader.value(1);
  reader.space();
  if (reader.at !== text.length) reader.fail("something follows the value");
  return value;
}

// Reads bytes: UTF-8 without a mark before it.
export function parseBytes(bytes) {
  return parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
}

// The canonical text of a value that `parse` gave.
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) {
    // The language compares texts by their UTF-16 units, as the canonical form wants it.
    const names = [...value.keys()].sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value.get(name))}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

const ROUNDS = new Uint32Array(64);
const START = new Uint32Array(8);
{
  // The fractions of the roots of the first primes, as the standard has them.
  const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32);
  let count = 0;
  for (let n = 2; count < 64; n += 1) {
    let prime = true;
    for (let d = 2; d * d <= n; d += 1) if (n % d === 0) prime = false;
    if (!prime) continue;
    if (count < 8) START[count] = fraction(Math.sqrt(n));
    ROUNDS[count] = fraction(Math.cbrt(n));
    count += 1;
  }
}

// SHA-256 of bytes.
export function digest(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
  const state = START.slice();
  const words = new Uint32Array(64);
  const turn = (x, by) => (x >>> by) | (x << (32 - by));
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 16; i += 1) words[i] = view.getUint32(block + i * 4);
    for (let i = 16; i < 64; i += 1) {
      const [x, y] = [words[i - 15], words[i - 2]];
      words[i] = words[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + words[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i += 1) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) >>> 0;
      const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) >>> 0, c, b, a, (one + two) >>> 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => {
      state[i] += word;
    });
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => out.setUint32(i * 4, word));
  return new Uint8Array(out.buffer);
}

export const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
export const utf8 = (text) => new TextEncoder().encode(text);

// The hash of a value: of its canonical text.
export const hash = (value) => hex(digest(utf8(canonical(value))));
